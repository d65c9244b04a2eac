//! The rules of claims: compare-and-swap with a lease and an epoch. Pure; `now` is an argument.
//!
//! The *epoch* of a claim is the revision of the write that made it, so it only grows, and every later write names it.
//! The store's compare-and-swap alone decides who wins; the clock only decides when another agent may try.

use crate::OWNER;
use protocol::{
    ids::{AgentId, Digest, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    task::OpenTaskKey,
    time::{NodeTime, WallTime},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{Key, Record, Revision, Snapshot};

/// The state of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimState {
    /// An agent holds it.
    Held,
    /// Given back; the task may be claimed.
    Released,
    /// The lease ran out; the task may be claimed.
    Expired,
    /// The work is done; the task cannot be claimed again.
    Completed,
    /// The work failed; the task cannot be claimed again.
    Failed,
}

/// A claim's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRow {
    pub state: ClaimState,
    /// The present or last holder.
    pub holder: AgentId,
    /// The principal that claimed it; only this one may change it.
    pub by: Principal,
    /// How long the lease runs without a renewal.
    pub lease_ms: u64,
    /// The epoch that ended; a held claim's epoch is its own revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Revision>,
    /// The digest of what was offered, once the work is done or has failed; the offer itself is deleted then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Digest>,
    /// When it was written.
    pub at: WallTime,
}

/// A claim's record in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredClaim {
    pub revision: Revision,
    pub row: ClaimRow,
}

/// The lease of a held claim. It is kept in memory only; a restart of the board restarts every lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub epoch: Revision,
    /// When the task may be claimed again.
    pub until: NodeTime,
}

/// A compare-and-swap of a claim's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimSwap {
    /// The revision that the record must have (0: there is none).
    pub expected: Revision,
    pub row: ClaimRow,
}

/// The public view of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimView {
    pub task_id: TaskId,
    /// The principal that the task's id belongs to.
    pub publisher: Principal,
    pub state: ClaimState,
    /// The name of the present or last holder for itself.
    pub holder: AgentId,
    /// The principal that holds or last held it.
    pub by: Principal,
    /// The epoch under which the work is done.
    pub epoch: Revision,
    /// The revision of the last write.
    pub revision: Revision,
    /// How long the lease runs without a renewal.
    pub lease_ms: u64,
    /// Time until the task may be claimed again; 0 if the claim is not held.
    pub remaining_ms: u64,
}

/// The key of the claim on `task`.
pub fn claim_key(owner: &str, task: &OpenTaskKey) -> Key {
    Key::new(&[owner, "claim", &task.publisher.to_string(), task.task_id.as_str()])
}

/// The task of a claim's record.
pub fn claimed_task(record: &Record) -> Option<OpenTaskKey> {
    let mut tokens = record.key.tokens();
    let task_id = TaskId::parse(&tokens.pop()?).ok()?;
    Some(OpenTaskKey { publisher: Principal::try_from(tokens.pop()?).ok()?, task_id })
}

/// The stored claim on `task`, if there is one.
pub fn find_claim(
    store: &(impl Snapshot + ?Sized),
    task: &OpenTaskKey,
) -> Result<Option<StoredClaim>, Problem> {
    match store.latest(&claim_key(OWNER, task))? {
        None => Ok(None),
        Some(record) => match StoredClaim::of(&record) {
            Some(claim) => Ok(Some(claim)),
            None => Err(Problem::new(Reason::Internal, format!("{} holds no claim", record.key))),
        },
    }
}

impl StoredClaim {
    /// Parses a record; `None` if it is no claim.
    pub fn of(record: &Record) -> Option<Self> {
        Some(Self { revision: record.revision, row: serde_json::from_slice(&record.value).ok()? })
    }

    /// The epoch in force, or the last one.
    pub fn epoch(&self) -> Revision {
        self.row.epoch.unwrap_or(self.revision)
    }

    /// Time until the task may be claimed again.
    pub fn remaining(&self, lease: Option<Lease>, now: NodeTime) -> Duration {
        match (self.row.state, lease) {
            (ClaimState::Held, Some(lease)) if lease.epoch == self.revision => lease.until.since(now),
            (ClaimState::Held, _) => Duration::from_millis(self.row.lease_ms),
            (ClaimState::Released | ClaimState::Expired | ClaimState::Completed | ClaimState::Failed, _) => {
                Duration::ZERO
            }
        }
    }

    /// The public view.
    pub fn claim(&self, task: &OpenTaskKey, lease: Option<Lease>, now: NodeTime) -> ClaimView {
        ClaimView {
            task_id: task.task_id.clone(),
            publisher: task.publisher.clone(),
            state: self.row.state,
            holder: self.row.holder.clone(),
            by: self.row.by.clone(),
            epoch: self.epoch(),
            revision: self.revision,
            lease_ms: self.row.lease_ms,
            remaining_ms: millis(self.remaining(lease, now)),
        }
    }
}

/// The write that makes `holder` the task's holder. Refused while a lease runs and after the claim has completed or failed.
/// A second claim by the holder is refused too; [`ClaimView::epoch`] tells it that it has the claim.
pub fn claim(
    claim: Option<&StoredClaim>,
    lease: Option<Lease>,
    by: &Principal,
    holder: &AgentId,
    requested: Duration,
    (now, wall): (NodeTime, WallTime),
) -> Result<ClaimSwap, Problem> {
    if let Some(claim) = claim {
        let remaining = claim.remaining(lease, now);
        let is_taken = match claim.row.state {
            ClaimState::Held => !remaining.is_zero(),
            ClaimState::Completed | ClaimState::Failed => true,
            ClaimState::Released | ClaimState::Expired => false,
        };
        if is_taken {
            return Err(already_claimed(claim, remaining));
        }
    }
    let row = ClaimRow {
        state: ClaimState::Held,
        holder: holder.clone(),
        by: by.clone(),
        lease_ms: millis(requested),
        epoch: None,
        offer: None,
        at: wall,
    };
    Ok(ClaimSwap { expected: claim.map_or(0, |claim| claim.revision), row })
}

/// Checks that `by` holds the claim of `epoch`; returns the length of the renewed lease.
pub fn renew(claim: Option<&StoredClaim>, by: &Principal, epoch: Revision) -> Result<Duration, Problem> {
    let claim = check_holder(claim, by, epoch)?;
    match claim.row.state {
        ClaimState::Held => Ok(Duration::from_millis(claim.row.lease_ms)),
        ClaimState::Released | ClaimState::Expired | ClaimState::Completed | ClaimState::Failed => {
            Err(fenced(claim, epoch))
        }
    }
}

/// The write that ends the claim of `epoch` as `new_state`; `None` if this end is written already.
pub fn end(
    claim: Option<&StoredClaim>,
    by: &Principal,
    epoch: Revision,
    new_state: ClaimState,
    wall: WallTime,
) -> Result<Option<ClaimSwap>, Problem> {
    let claim = check_holder(claim, by, epoch)?;
    match claim.row.state {
        ClaimState::Held => {
            let row = ClaimRow { state: new_state, epoch: Some(epoch), at: wall, ..claim.row.clone() };
            Ok(Some(ClaimSwap { expected: claim.revision, row }))
        }
        state if state == new_state => Ok(None),
        ClaimState::Released | ClaimState::Expired | ClaimState::Completed | ClaimState::Failed => {
            Err(fenced(claim, epoch))
        }
    }
}

/// The write that frees a claim whose lease ran out; `None` if the claim has another epoch or the lease still runs.
pub fn expire(claim: &StoredClaim, lease: Lease, now: NodeTime, wall: WallTime) -> Option<ClaimSwap> {
    let is_due = claim.row.state == ClaimState::Held && claim.revision == lease.epoch && lease.until <= now;
    let row = || ClaimRow {
        state: ClaimState::Expired,
        epoch: Some(claim.revision),
        at: wall,
        ..claim.row.clone()
    };
    is_due.then(|| ClaimSwap { expected: claim.revision, row: row() })
}

fn check_holder<'a>(
    claim: Option<&'a StoredClaim>,
    by: &Principal,
    epoch: Revision,
) -> Result<&'a StoredClaim, Problem> {
    let Some(claim) = claim else {
        return Err(Problem::new(Reason::ClaimNotFound, "nobody has claimed this task"));
    };
    if claim.epoch() != epoch {
        return Err(fenced(claim, epoch));
    }
    if claim.row.by != *by {
        let message = format!("the claim is {}'s, not {by}'s", claim.row.by);
        return Err(Problem::new(Reason::Forbidden, message));
    }
    Ok(claim)
}

/// The refusal for a task without a claim, and for one whose claim the caller may not see.
pub fn not_claimed(task: &OpenTaskKey) -> Problem {
    Problem::new(Reason::ClaimNotFound, format!("nobody has claimed {task}"))
}

/// The refusal of a claim on a task that is not offered, or whose offer the claimant may not see.
pub fn not_offered(task: &OpenTaskKey) -> Problem {
    let message = format!("no task {task} is offered; `publisher` names the principal that offered it");
    Problem::new(Reason::ClaimNotFound, message)
}

/// The refusal of a claim on a claimed task.
pub fn already_claimed(claim: &StoredClaim, remaining: Duration) -> Problem {
    let message = match claim.row.state {
        ClaimState::Completed => format!("{} has completed this task", claim.row.holder),
        ClaimState::Failed => format!("{} has failed at this task", claim.row.holder),
        ClaimState::Held | ClaimState::Released | ClaimState::Expired => {
            format!("{} holds this task for another {} ms", claim.row.holder, millis(remaining))
        }
    };
    Problem::new(Reason::AlreadyClaimed, message)
        .with("holder", &claim.row.holder)
        .with("epoch", claim.epoch())
        .with("remainingMs", millis(remaining))
}

/// The refusal of a change under an epoch that is not in force.
pub fn fenced(claim: &StoredClaim, epoch: Revision) -> Problem {
    let now = claim.epoch();
    let message = match (epoch == now, claim.row.state) {
        (true, ClaimState::Expired) => format!("the lease of epoch {epoch} has run out"),
        (true, ClaimState::Held | ClaimState::Released | ClaimState::Completed | ClaimState::Failed) => {
            format!("epoch {epoch} has ended")
        }
        (false, _) => format!("epoch {epoch} is not in force: {now} is, held by {}", claim.row.holder),
    };
    Problem::new(Reason::Fenced, message).with("epoch", now).with("holder", &claim.row.holder)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
