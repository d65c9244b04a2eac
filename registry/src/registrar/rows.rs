//! The registry's part of the store: a row per agent, the incarnation floor, and signals the board has not accepted.

use crate::{
    directory::{AgentRow, DirectoryChange, MembershipEvent},
    pinned_keys::PinnedKey,
};
use protocol::{
    ids::AgentId,
    signal::{MAX_PARALLEL, Signal, SignalType},
    time::WallTime,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use store::{Batch, Error, Filter, Key, Lane, Record, SharedStore, Write};

/// The prefix of the registry's keys, and the agent id under which it publishes signals.
pub const OWNER: &str = "registry";

const PAGE: usize = 1_000;

fn agent_key(id: &AgentId) -> Key {
    Key::new(&[OWNER, "agent", id.as_str()])
}

fn pin_key(id: &AgentId) -> Key {
    Key::new(&[OWNER, "key", id.as_str()])
}

fn floor_key() -> Key {
    Key::new(&[OWNER, "incarnations", "floor"])
}

fn outbox_key(signal: &Signal) -> Key {
    Key::new(&[OWNER, "outbox", signal.id.as_str()])
}

fn decode<T: DeserializeOwned>(record: &Record) -> Result<T, Error> {
    serde_json::from_slice(&record.value)
        .map_err(|_| Error::Corrupt { revision: record.revision, key: record.key.to_string() })
}

fn encode(value: &impl Serialize) -> Result<bytes::Bytes, Error> {
    serde_json::to_vec(value).map(Into::into).map_err(|error| Error::Refused(error.to_string()))
}

/// What the store holds.
pub(super) struct StoredRows {
    pub(super) agents: Vec<AgentRow>,
    pub(super) pins: Vec<PinnedKey>,
    /// The incarnation floor, if one is stored.
    pub(super) floor: Option<u64>,
}

/// Every stored row.
pub(super) fn load(store: &SharedStore) -> Result<StoredRows, Error> {
    let (agents, pins) = (load_all(store, "agent")?, load_all(store, "key")?);
    let floor = store.latest(&floor_key())?.map(|record| decode(&record)).transpose()?;
    Ok(StoredRows { agents, pins, floor })
}

/// Every row of this kind.
fn load_all<T: DeserializeOwned>(store: &SharedStore, kind: &str) -> Result<Vec<T>, Error> {
    let mut rows = Vec::new();
    let mut after = 0;
    loop {
        let page = store.read(&Filter::One(Key::new(&[OWNER, kind])), after, PAGE)?;
        let Some(last) = page.last() else { return Ok(rows) };
        after = last.revision;
        for record in &page {
            rows.push(decode(record)?);
        }
    }
}

/// Commits `change` with its signals. If the outcome is unknown, reads back whether it was written.
pub(super) async fn commit(
    store: &SharedStore,
    lane: Lane,
    change: &DirectoryChange,
    at: WallTime,
) -> Result<(), Error> {
    let mut batch = Batch::default();
    for row in &change.written {
        batch.writes.push(Write::Put(agent_key(&row.card.agent_id), encode(row)?));
    }
    for pin in &change.pinned {
        batch.writes.push(Write::Put(pin_key(&pin.id), encode(pin)?));
    }
    for id in &change.forgotten {
        batch.writes.push(Write::Delete(agent_key(id)));
    }
    if !change.forgotten.is_empty() {
        batch.writes.push(Write::Put(floor_key(), encode(&change.floor)?));
    }
    for event in &change.events {
        let signal = signal(event, at)?;
        batch.writes.push(Write::Put(outbox_key(&signal), encode(&signal)?));
    }
    let first = batch.writes.first().cloned();
    match store.commit(lane, batch).await {
        Err(Error::Unknown(why)) => check_written(store, first, why),
        outcome => outcome.map(|_| ()),
    }
}

/// Succeeds if `write` is in the store; a batch is atomic, so one of its writes stands for all.
fn check_written(store: &SharedStore, write: Option<Write>, why: String) -> Result<(), Error> {
    let is_written = match write {
        Some(write) => store.latest(write.key())?.as_ref().map(|record| &record.value) == write.value(),
        None => false,
    };
    if is_written { Ok(()) } else { Err(Error::Unknown(why)) }
}

/// The oldest signals that the board has not accepted, at most `limit`.
pub(super) fn waiting_signals(store: &SharedStore, limit: usize) -> Result<Vec<Signal>, Error> {
    let page = store.read(&Filter::One(Key::new(&[OWNER, "outbox"])), 0, limit)?;
    page.iter().map(decode).collect()
}

/// The number of signals that the board has not accepted, at most [`PAGE`].
pub(super) fn count_waiting_signals(store: &SharedStore) -> usize {
    store.keys(&Filter::One(Key::new(&[OWNER, "outbox"])), 0, PAGE).map_or(0, |page| page.len())
}

/// Deletes a signal from the outbox.
pub(super) async fn delete_signal(store: &SharedStore, signal: &Signal) -> Result<(), Error> {
    let batch = Batch { writes: vec![Write::Delete(outbox_key(signal))], ..Batch::default() };
    store.commit(Lane::Progress, batch).await.map(|_| ())
}

/// The signal for `event`; its id is derived from the event, so that a repeat has the same id.
fn signal(event: &MembershipEvent, at: WallTime) -> Result<Signal, Error> {
    let mut refs = Map::new();
    let (kind, id, incarnation) = match event {
        MembershipEvent::Joined { id, incarnation, endpoint, max_parallel } => {
            refs.insert(MAX_PARALLEL.into(), Value::from(*max_parallel));
            refs.insert("endpoint".into(), Value::from(endpoint.as_str()));
            (SignalType::agent_joined(), id, *incarnation)
        }
        MembershipEvent::Left { id, incarnation, reason } => {
            refs.insert("reason".into(), Value::from(reason.as_str()));
            (SignalType::agent_left(), id, *incarnation)
        }
    };
    refs.insert("incarnation".into(), Value::from(incarnation));
    let from = AgentId::parse(OWNER).map_err(|error| Error::Refused(error.to_string()))?;
    let (name, subject) = (format!("{kind}:{id}:{incarnation}"), Some(id.to_string()));
    Ok(Signal {
        id: name,
        kind,
        from,
        by: None,
        root: None,
        root_proof: None,
        subject,
        task_id: None,
        capability: None,
        refs,
        to: Vec::new(),
        at,
    })
}
