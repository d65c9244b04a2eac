//! What a change of a claim writes. What becomes of a claim is told on the board in the same commit; that its task is to
//! be had again, only where somebody has offered it: without what the offer says, nobody could do it. Pure.

use crate::{
    claims::{self, Lease, Standing, Stands, Swap},
    signals,
    store::{Batch, Expectation, Filter, Key, Revision, Snapshot, Write},
};
use bytes::Bytes;
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Signal, SignalType},
    time::{NodeTime, WallTime},
};
use serde_json::{Map, json};
use std::time::Duration;

/// A change of a claim that has been decided and is not written yet.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The claim's new row, and where the old one must stand.
    pub swap: Swap,
    /// The signal that tells of it.
    told: Option<Signal>,
    /// The offer that goes with it.
    gone: Option<Key>,
}

/// What the end of a claim comes to.
#[derive(Debug, Clone)]
pub enum Ending {
    /// It was written before.
    Ended(Stands),
    /// It is to be written.
    Write(Box<Decided>),
}

impl Decided {
    /// Everything it writes; the claim's row first.
    pub fn batch(self, task: &TaskId) -> Result<Batch, Problem> {
        let key = claims::key(signals::OWNER, task);
        let expectation = match self.swap.expected {
            0 => Expectation::Absent(key.clone()),
            revision => Expectation::At(key.clone(), revision),
        };
        let mut writes = vec![Write::Put(key, Bytes::from(signals::json(&self.swap.row)?))];
        writes.extend(self.gone.map(Write::Delete));
        if let Some(told) = &self.told {
            writes.extend(signals::own(told)?);
        }
        Ok(Batch { writes, expectations: vec![expectation] })
    }
}

/// All claims, oldest first.
pub fn all() -> Filter {
    Filter::One(Key::new(&[signals::OWNER, "claim"]))
}

/// How the claim on `task` stands.
pub fn stands(store: &(impl Snapshot + ?Sized), task: &TaskId) -> Result<Option<Stands>, Problem> {
    match store.latest(&claims::key(signals::OWNER, task))? {
        None => Ok(None),
        Some(record) => match Stands::of(&record) {
            Some(stands) => Ok(Some(stands)),
            None => Err(Problem::new(Reason::Internal, format!("{} holds no claim", record.key))),
        },
    }
}

/// What makes `holder` the task's holder; refused if somebody was first.
pub fn decide_take(
    store: &(impl Snapshot + ?Sized),
    by: &Principal,
    task: &TaskId,
    holder: &AgentId,
    wanted: Duration,
    lease: Option<Lease>,
    (now, wall): (NodeTime, WallTime),
) -> Result<Decided, Problem> {
    let stands = stands(store, task)?;
    let swap = claims::claim(stands.as_ref(), lease, by, holder, wanted, (now, wall))?;
    let mut refs = Map::new();
    refs.insert("leaseMs".into(), json!(swap.row.lease_ms));
    if let Some(stands) = stands.filter(|stands| stands.row.state == Standing::Held) {
        refs.insert("expiredEpoch".into(), json!(stands.revision));
        refs.insert("formerHolder".into(), json!(stands.row.holder));
    }
    let offer = offer(store, task)?;
    let kind = SignalType::task_claimed();
    let told = signals::of_claim(kind, task, Some(holder), offer.as_ref(), swap.expected, refs, wall);
    Ok(Decided { swap, told: Some(told), gone: None })
}

/// What ends the claim of `epoch` as `standing`.
pub fn decide_end(
    store: &(impl Snapshot + ?Sized),
    by: &Principal,
    task: &TaskId,
    epoch: Revision,
    standing: Standing,
    wall: WallTime,
) -> Result<Ending, Problem> {
    let now = stands(store, task)?;
    let Some(swap) = claims::end(now.as_ref(), by, epoch, standing, wall)? else {
        let missing = || Problem::new(Reason::ClaimNotFound, "nobody has claimed this task");
        return now.map(Ending::Ended).ok_or_else(missing);
    };
    let offer = offer(store, task)?;
    let (kind, is_done) = match standing {
        Standing::Completed => (SignalType::task_complete(), true),
        Standing::Failed => (SignalType::task_failed(), true),
        Standing::Released | Standing::Held | Standing::Expired => (SignalType::task_available(), false),
    };
    let mut refs = Map::new();
    refs.insert("epoch".into(), json!(epoch));
    if !is_done {
        refs.extend(offer.iter().flat_map(|offer| offer.refs.clone()));
        refs.extend(offer.iter().map(publisher));
        refs.insert("reason".into(), json!("released"));
    }
    let holder = swap.row.holder.clone();
    let told = (is_done || offer.is_some())
        .then(|| signals::of_claim(kind, task, Some(&holder), offer.as_ref(), epoch, refs, wall));
    let gone = (is_done && offer.is_some()).then(|| signals::offer_key(task));
    Ok(Ending::Write(Box::new(Decided { swap, told, gone })))
}

/// What frees the claim whose `lease` has run out and offers the task again, if it was offered; `None` if it is not held
/// any more, or its lease runs.
pub fn decide_expire(
    store: &(impl Snapshot + ?Sized),
    task: &TaskId,
    lease: Lease,
    now: NodeTime,
    wall: WallTime,
) -> Result<Option<Decided>, Problem> {
    let stands = stands(store, task)?;
    let Some(swap) = stands.and_then(|stands| claims::expire(&stands, lease, now, wall)) else {
        return Ok(None);
    };
    let told = offer(store, task)?.map(|offer| {
        let mut refs = offer.refs.clone();
        refs.extend([publisher(&offer)]);
        refs.insert("reason".into(), json!("lease-expired"));
        refs.insert("epoch".into(), json!(lease.epoch));
        refs.insert("formerHolder".into(), json!(swap.row.holder));
        let kind = SignalType::task_available();
        signals::of_claim(kind, task, None, Some(&offer), lease.epoch, refs, wall)
    });
    Ok(Some(Decided { swap, told, gone: None }))
}

/// Whose offer it was, for those who see it offered again.
fn publisher(offer: &Signal) -> (String, serde_json::Value) {
    (protocol::signal::PUBLISHER.to_owned(), json!(offer.from))
}

fn offer(store: &(impl Snapshot + ?Sized), task: &TaskId) -> Result<Option<Signal>, Problem> {
    let record = store.latest(&signals::offer_key(task))?;
    Ok(record.and_then(|record| serde_json::from_slice(&record.value).ok()))
}
