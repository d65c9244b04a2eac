//! Performs the rules of claims on the store. What becomes of a claim is told on the board in the same commit; that its
//! task is to be had again, only where somebody has offered it: without what the offer says, nobody could do it.

use super::{Holding, publishing};
use crate::{
    claims::{self, Lease, Standing, Stands, Swap},
    signals,
    store::{self, Batch, Expectation, Filter, Key, Revision, Shared, Write},
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
use std::{collections::BTreeMap, time::Duration};

/// A claim that was won.
pub(super) struct Taken {
    pub stands: Stands,
}

/// Every claim that is held, each with a whole lease from `now` on.
pub(super) fn held(
    store: &Shared,
    now: NodeTime,
    grace: Duration,
) -> Result<BTreeMap<TaskId, Holding>, store::Error> {
    let (mut after, mut held) = (0, BTreeMap::new());
    loop {
        let page = store.read(&all(), after, 1_000)?;
        let Some(last) = page.last() else { return Ok(held) };
        after = last.revision;
        for record in &page {
            let task = record.key.tokens().pop().and_then(|token| TaskId::parse(&token).ok());
            let stands = Stands::of(record).filter(|stands| stands.row.state == Standing::Held);
            if let (Some(task), Some(stands)) = (task, stands) {
                let until = now + stands.remaining(None, now) + grace;
                let lease = Lease { epoch: stands.revision, until };
                held.insert(task, Holding { lease, is_ending: false });
            }
        }
    }
}

/// All claims, oldest first.
pub(super) fn all() -> Filter {
    Filter::One(Key::new(&[signals::OWNER, "claim"]))
}

/// How the claim on `task` stands.
pub(super) fn stands(store: &Shared, task: &TaskId) -> Result<Option<Stands>, Problem> {
    match store.latest(&claims::key(signals::OWNER, task))? {
        None => Ok(None),
        Some(record) => match Stands::of(&record) {
            Some(stands) => Ok(Some(stands)),
            None => Err(Problem::new(Reason::Internal, format!("{} holds no claim", record.key))),
        },
    }
}

/// Takes `task` for `holder`, or says who was first.
pub(super) async fn take(
    store: Shared,
    by: Principal,
    task: TaskId,
    holder: AgentId,
    wanted: Duration,
    lease: Option<Lease>,
    (now, wall): (NodeTime, WallTime),
) -> Result<Taken, Problem> {
    loop {
        let stands = stands(&store, &task)?;
        let swap = claims::claim(stands.as_ref(), lease, &by, &holder, wanted, (now, wall))?;
        let mut refs = Map::new();
        refs.insert("leaseMs".into(), json!(swap.row.lease_ms));
        if let Some(stands) = stands.filter(|stands| stands.row.state == Standing::Held) {
            refs.insert("expiredEpoch".into(), json!(stands.revision));
            refs.insert("formerHolder".into(), json!(stands.row.holder));
        }
        let offer = offer(&store, &task)?;
        let kind = SignalType::task_claimed();
        let told = signals::of_claim(kind, &task, Some(&holder), offer.as_ref(), swap.expected, refs, wall);
        if let Some(stands) = write(&store, &task, swap, Some(&told), None).await? {
            return Ok(Taken { stands });
        }
    }
}

/// Ends the claim of `epoch`.
pub(super) async fn end(
    store: Shared,
    by: Principal,
    task: TaskId,
    epoch: Revision,
    standing: Standing,
    wall: WallTime,
) -> Result<Stands, Problem> {
    loop {
        let now = stands(&store, &task)?;
        let swap = claims::end(now.as_ref(), &by, epoch, standing, wall)?;
        let Some(swap) = swap else {
            return now.ok_or_else(|| Problem::new(Reason::ClaimNotFound, "nobody has claimed this task"));
        };
        let offer = offer(&store, &task)?;
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
            .then(|| signals::of_claim(kind, &task, Some(&holder), offer.as_ref(), epoch, refs, wall));
        let gone = (is_done && offer.is_some()).then(|| signals::offer_key(&task));
        if let Some(stands) = write(&store, &task, swap, told.as_ref(), gone).await? {
            return Ok(stands);
        }
    }
}

/// Frees the claim whose `lease` has run out and offers the task again, if it was offered; whether it was still held.
pub(super) async fn expire(
    store: Shared,
    task: TaskId,
    lease: Lease,
    now: NodeTime,
    wall: WallTime,
) -> Result<bool, Problem> {
    let stands = stands(&store, &task)?;
    let Some(swap) = stands.and_then(|stands| claims::expire(&stands, lease, now, wall)) else {
        return Ok(false);
    };
    let told = offer(&store, &task)?.map(|offer| {
        let mut refs = offer.refs.clone();
        refs.extend([publisher(&offer)]);
        refs.insert("reason".into(), json!("lease-expired"));
        refs.insert("epoch".into(), json!(lease.epoch));
        refs.insert("formerHolder".into(), json!(swap.row.holder));
        let kind = SignalType::task_available();
        signals::of_claim(kind, &task, None, Some(&offer), lease.epoch, refs, wall)
    });
    Ok(write(&store, &task, swap, told.as_ref(), None).await?.is_some())
}

/// Whose offer it was, for those who see it offered again.
fn publisher(offer: &Signal) -> (String, serde_json::Value) {
    (signals::PUBLISHER.to_owned(), json!(offer.from))
}

fn offer(store: &Shared, task: &TaskId) -> Result<Option<Signal>, Problem> {
    let record = store.latest(&signals::offer_key(task))?;
    Ok(record.and_then(|record| serde_json::from_slice(&record.value).ok()))
}

/// Commits `swap` together with the signal that tells of it, if there is one; `None` if somebody else was first.
async fn write(
    store: &Shared,
    task: &TaskId,
    swap: Swap,
    told: Option<&Signal>,
    gone: Option<Key>,
) -> Result<Option<Stands>, Problem> {
    let key = claims::key(signals::OWNER, task);
    let expectation = match swap.expected {
        0 => Expectation::Absent(key.clone()),
        revision => Expectation::At(key.clone(), revision),
    };
    let mut writes = vec![Write::Put(key, Bytes::from(signals::json(&swap.row)?))];
    writes.extend(gone.map(Write::Delete));
    let batch = Batch { writes, expectations: vec![expectation] };
    match publishing::tell(store, batch, told).await? {
        Ok(revisions) => match revisions.first() {
            Some(revision) => Ok(Some(Stands { revision: *revision, row: swap.row })),
            None => Err(Problem::new(Reason::Internal, "the store wrote nothing")),
        },
        Err(store::Error::Conflict { .. }) => Ok(None),
        Err(store::Error::Unknown(why)) => match stands(store, task)? {
            Some(stands) if stands.row == swap.row => Ok(Some(stands)),
            _ => Err(store::Error::Unknown(why).into()),
        },
        Err(
            error @ (store::Error::Full
            | store::Error::StorageFull
            | store::Error::Trimmed { .. }
            | store::Error::Corrupt { .. }
            | store::Error::Closed(_)
            | store::Error::Refused(_)),
        ) => Err(error.into()),
    }
}
