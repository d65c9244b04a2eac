//! Commits the changes of claims that the rules decide.

use super::ActiveLease;
use crate::{
    claim_writes::{ClaimWrite, EndDecision, all_claims, decide_end, decide_expire, decide_take},
    claims::{self, ClaimState, Lease, StoredClaim, find_claim},
};
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    task::OpenTaskKey,
    time::{NodeTime, WallTime},
};
use std::{collections::BTreeMap, time::Duration};
use store::{self, Lane, Revision, SharedStore};

/// The leases of all held claims, each restarted at `now`.
pub(super) fn load_leases(
    store: &SharedStore,
    now: NodeTime,
    grace: Duration,
) -> Result<BTreeMap<OpenTaskKey, ActiveLease>, store::Error> {
    let (mut after, mut leases) = (0, BTreeMap::new());
    loop {
        let page = store.read(&all_claims(), after, 1_000)?;
        let Some(last) = page.last() else { return Ok(leases) };
        after = last.revision;
        for record in &page {
            let task = claims::claimed_task(record);
            let claim = StoredClaim::of(record).filter(|claim| claim.row.state == ClaimState::Held);
            if let (Some(task), Some(claim)) = (task, claim) {
                let until = now + claim.remaining(None, now) + grace;
                let lease = Lease { epoch: claim.revision, until };
                leases.insert(task, ActiveLease { by: claim.row.by, lease, is_ending: false });
            }
        }
    }
}

/// Claims `task` for `holder`; refused with the present holder if it is claimed.
pub(super) async fn take(
    store: SharedStore,
    by: Principal,
    task: OpenTaskKey,
    holder: AgentId,
    requested: Duration,
    lease: Option<Lease>,
    now: (NodeTime, WallTime),
) -> Result<StoredClaim, Problem> {
    loop {
        let claim_write = decide_take(store.as_ref(), &by, &task, &holder, requested, lease, now)?;
        if let Some(claim) = write(&store, &task, claim_write).await? {
            return Ok(claim);
        }
    }
}

/// Ends the claim of `epoch`.
pub(super) async fn end(
    store: SharedStore,
    by: Principal,
    task: OpenTaskKey,
    epoch: Revision,
    state: ClaimState,
    wall: WallTime,
) -> Result<StoredClaim, Problem> {
    loop {
        let claim_write = match decide_end(store.as_ref(), &by, &task, epoch, state, wall)? {
            EndDecision::AlreadyEnded(claim) => return Ok(claim),
            EndDecision::Write(claim_write) => claim_write,
        };
        if let Some(claim) = write(&store, &task, *claim_write).await? {
            return Ok(claim);
        }
    }
}

/// Frees the claim whose `lease` has run out and offers the task again, if it was offered. Returns whether it was held.
pub(super) async fn expire(
    store: SharedStore,
    task: OpenTaskKey,
    lease: Lease,
    now: NodeTime,
    wall: WallTime,
) -> Result<bool, Problem> {
    match decide_expire(store.as_ref(), &task, lease, now, wall)? {
        Some(claim_write) => Ok(write(&store, &task, claim_write).await?.is_some()),
        None => Ok(false),
    }
}

/// Commits `claim_write`; `None` if another commit was first.
async fn write(
    store: &SharedStore,
    task: &OpenTaskKey,
    claim_write: ClaimWrite,
) -> Result<Option<StoredClaim>, Problem> {
    let (swap, batch) = (claim_write.swap.clone(), claim_write.batch(task)?);
    match store.commit(Lane::Progress, batch).await {
        Ok(revisions) => match revisions.first() {
            Some(revision) => Ok(Some(StoredClaim { revision: *revision, row: swap.row })),
            None => Err(Problem::new(Reason::Internal, "the store wrote nothing")),
        },
        Err(store::Error::Conflict { .. }) => Ok(None),
        Err(store::Error::Unknown(why)) => match find_claim(store.as_ref(), task)? {
            Some(claim) if claim.row == swap.row => Ok(Some(claim)),
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
