//! The registry's part of the store: a row an agent, the floor of incarnations, and signals the board has not taken.

use crate::directory::{Change, Notice, Row};
use blackboard::store::{Batch, Error, Filter, Key, Lane, Record, SharedStore, Write};
use protocol::{
    ids::AgentId,
    signal::{Signal, SignalType},
    time::WallTime,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The prefix of every key the registry writes, and the name it publishes under.
pub const OWNER: &str = "registry";

const PAGE: usize = 1_000;

fn agent(id: &AgentId) -> Key {
    Key::new(&[OWNER, "agent", id.as_str()])
}

fn floor() -> Key {
    Key::new(&[OWNER, "incarnations", "floor"])
}

fn outbox(signal: &Signal) -> Key {
    Key::new(&[OWNER, "outbox", signal.id.as_str()])
}

fn decode<T: DeserializeOwned>(record: &Record) -> Result<T, Error> {
    serde_json::from_slice(&record.value)
        .map_err(|_| Error::Corrupt { revision: record.revision, key: record.key.to_string() })
}

fn encode(value: &impl Serialize) -> Result<bytes::Bytes, Error> {
    serde_json::to_vec(value).map(Into::into).map_err(|error| Error::Refused(error.to_string()))
}

/// Every row and the floor, as the store has them; no floor where none was recorded yet.
pub(super) fn load(store: &SharedStore) -> Result<(Vec<Row>, Option<u64>), Error> {
    let mut rows = Vec::new();
    let mut after = 0;
    loop {
        let page = store.read(&Filter::One(Key::new(&[OWNER, "agent"])), after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.revision;
        for record in &page {
            rows.push(decode(record)?);
        }
    }
    let floor = store.latest(&floor())?.map(|record| decode(&record)).transpose()?;
    Ok((rows, floor))
}

/// Makes `change` durable, its signals with it. An outcome that was not learnt is settled by reading back.
pub(super) async fn commit(
    store: &SharedStore,
    lane: Lane,
    change: &Change,
    at: WallTime,
) -> Result<(), Error> {
    let mut batch = Batch::default();
    for row in &change.written {
        batch.writes.push(Write::Put(agent(&row.card.agent_id), encode(row)?));
    }
    for id in &change.forgotten {
        batch.writes.push(Write::Delete(agent(id)));
    }
    if !change.forgotten.is_empty() {
        batch.writes.push(Write::Put(floor(), encode(&change.floor)?));
    }
    for notice in &change.notices {
        let signal = signal(notice, at)?;
        batch.writes.push(Write::Put(outbox(&signal), encode(&signal)?));
    }
    let first = batch.writes.first().cloned();
    match store.commit(lane, batch).await {
        Err(Error::Unknown(why)) => settle(store, first, why),
        outcome => outcome.map(|_| ()),
    }
}

/// A batch is all or nothing, so one of its writes tells of all.
fn settle(store: &SharedStore, write: Option<Write>, why: String) -> Result<(), Error> {
    let written = match write {
        Some(Write::Put(key, value)) => store.latest(&key)?.is_some_and(|record| record.value == value),
        Some(Write::Delete(key)) => store.latest(&key)?.is_none(),
        Some(Write::Append(..)) | None => false,
    };
    if written { Ok(()) } else { Err(Error::Unknown(why)) }
}

/// The oldest signals that the board has not taken, at most `limit`.
pub(super) fn waiting(store: &SharedStore, limit: usize) -> Result<Vec<Signal>, Error> {
    let page = store.read(&Filter::One(Key::new(&[OWNER, "outbox"])), 0, limit)?;
    page.iter().map(decode).collect()
}

/// How many signals the board has not taken, up to a page of them.
pub(super) fn count_waiting(store: &SharedStore) -> usize {
    store.keys(&Filter::One(Key::new(&[OWNER, "outbox"])), 0, PAGE).map_or(0, |page| page.len())
}

/// Strikes a signal off.
pub(super) async fn strike(store: &SharedStore, signal: &Signal) -> Result<(), Error> {
    let batch = Batch { writes: vec![Write::Delete(outbox(signal))], ..Batch::default() };
    store.commit(Lane::Progress, batch).await.map(|_| ())
}

/// The signal that tells of `notice`; the same notice makes the same id.
fn signal(notice: &Notice, at: WallTime) -> Result<Signal, Error> {
    let mut refs = Map::new();
    let (kind, id, incarnation) = match notice {
        Notice::Joined { id, incarnation, endpoint } => {
            refs.insert("endpoint".into(), Value::from(endpoint.as_str()));
            (SignalType::agent_joined(), id, *incarnation)
        }
        Notice::Left { id, incarnation, why } => {
            refs.insert("reason".into(), Value::from(why.as_str()));
            (SignalType::agent_left(), id, *incarnation)
        }
    };
    refs.insert("incarnation".into(), Value::from(incarnation));
    let from = AgentId::parse(OWNER).map_err(|error| Error::Refused(error.to_string()))?;
    let (name, subject) = (format!("{kind}:{id}:{incarnation}"), Some(id.to_string()));
    Ok(Signal { id: name, kind, from, subject, task_id: None, capability: None, refs, at })
}
