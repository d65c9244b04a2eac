//! Performs the rules of claims on the store.

use super::Holding;
use crate::{
    claim_writes::{Decided, Ending, all, decide_end, decide_expire, decide_take, stands},
    claims::{Lease, Standing, Stands},
    store::{self, Lane, Revision, Shared},
};
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    time::{NodeTime, WallTime},
};
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

/// Takes `task` for `holder`, or says who was first.
pub(super) async fn take(
    store: Shared,
    by: Principal,
    task: TaskId,
    holder: AgentId,
    wanted: Duration,
    lease: Option<Lease>,
    now: (NodeTime, WallTime),
) -> Result<Taken, Problem> {
    loop {
        let decided = decide_take(store.as_ref(), &by, &task, &holder, wanted, lease, now)?;
        if let Some(stands) = write(&store, &task, decided).await? {
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
        let decided = match decide_end(store.as_ref(), &by, &task, epoch, standing, wall)? {
            Ending::Ended(stands) => return Ok(stands),
            Ending::Write(decided) => decided,
        };
        if let Some(stands) = write(&store, &task, *decided).await? {
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
    match decide_expire(store.as_ref(), &task, lease, now, wall)? {
        Some(decided) => Ok(write(&store, &task, decided).await?.is_some()),
        None => Ok(false),
    }
}

/// Commits what was decided; `None` if somebody else was first.
async fn write(store: &Shared, task: &TaskId, decided: Decided) -> Result<Option<Stands>, Problem> {
    let (swap, batch) = (decided.swap.clone(), decided.batch(task)?);
    match store.commit(Lane::Progress, batch).await {
        Ok(revisions) => match revisions.first() {
            Some(revision) => Ok(Some(Stands { revision: *revision, row: swap.row })),
            None => Err(Problem::new(Reason::Internal, "the store wrote nothing")),
        },
        Err(store::Error::Conflict { .. }) => Ok(None),
        Err(store::Error::Unknown(why)) => match stands(store.as_ref(), task)? {
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
