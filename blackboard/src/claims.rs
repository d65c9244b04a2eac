//! The rules of claims: compare-and-swap with a lease and an epoch. Pure; `now` is an argument.
//!
//! The *epoch* of a claim is the revision of the write that made it, so it only grows, and every later write names it.
//! Who wins is decided by the store's compare-and-swap alone; the clock only says when somebody else may try.

use crate::store::{Key, Record, Revision};
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    time::{NodeTime, WallTime},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How a claim stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Somebody works on it.
    Held,
    /// Given back; the next may take it.
    Released,
    /// The lease ran out; the next may take it.
    Expired,
    /// The work is done; nobody takes it any more.
    Completed,
    /// The work will not be done; nobody takes it any more.
    Failed,
}

/// A claim's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// How it stands.
    pub state: Standing,
    /// Whose it is, or was last.
    pub holder: AgentId,
    /// Who asked for it; nobody else may speak for it.
    pub by: Principal,
    /// For how long, without a sign of life.
    pub lease_ms: u64,
    /// The epoch that ended; a held claim's epoch is its own revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Revision>,
    /// When it was written.
    pub at: WallTime,
}

/// A claim as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stands {
    /// The record's revision.
    pub revision: Revision,
    /// The record.
    pub row: Row,
}

/// The soft half of a held claim: kept in memory, never written; a restart starts every lease afresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Which claim.
    pub epoch: Revision,
    /// When the next may take it.
    pub until: NodeTime,
}

/// A write that takes effect only if the claim's record still stands at `expected` (0: there is none).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// Where it must stand.
    pub expected: Revision,
    /// What is written.
    pub row: Row,
}

/// A claim as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// What is claimed.
    pub task_id: TaskId,
    /// How it stands.
    pub state: Standing,
    /// Whose it is, or was last.
    pub holder: AgentId,
    /// Names everything done under it.
    pub epoch: Revision,
    /// Of the last write.
    pub revision: Revision,
    /// For how long it is granted, without a sign of life.
    pub lease_ms: u64,
    /// How long until the next may take it; 0 if it is not held.
    pub remaining_ms: u64,
}

/// Where the claim on `task` is kept.
pub fn key(owner: &str, task: &TaskId) -> Key {
    Key::new(&[owner, "claim", task.as_str()])
}

impl Stands {
    /// What a record says; `None` if it is no claim.
    pub fn of(record: &Record) -> Option<Self> {
        Some(Self { revision: record.revision, row: serde_json::from_slice(&record.value).ok()? })
    }

    /// The epoch in force, or the last one that was.
    pub fn epoch(&self) -> Revision {
        self.row.epoch.unwrap_or(self.revision)
    }

    /// How long until the next may take it.
    pub fn remaining(&self, lease: Option<Lease>, now: NodeTime) -> Duration {
        match (self.row.state, lease) {
            (Standing::Held, Some(lease)) if lease.epoch == self.revision => lease.until.since(now),
            (Standing::Held, _) => Duration::from_millis(self.row.lease_ms),
            (Standing::Released | Standing::Expired | Standing::Completed | Standing::Failed, _) => {
                Duration::ZERO
            }
        }
    }

    /// What everybody may see.
    pub fn claim(&self, task: &TaskId, lease: Option<Lease>, now: NodeTime) -> Claim {
        Claim {
            task_id: task.clone(),
            state: self.row.state,
            holder: self.row.holder.clone(),
            epoch: self.epoch(),
            revision: self.revision,
            lease_ms: self.row.lease_ms,
            remaining_ms: millis(self.remaining(lease, now)),
        }
    }
}

/// The write that makes `holder` the task's holder; refused while somebody else's lease runs, and for good once it is
/// completed. The same holder asking twice is refused too: [`Claim::epoch`] tells it that it has won before.
pub fn claim(
    stands: Option<&Stands>,
    lease: Option<Lease>,
    by: &Principal,
    holder: &AgentId,
    wanted: Duration,
    (now, wall): (NodeTime, WallTime),
) -> Result<Swap, Problem> {
    if let Some(stands) = stands {
        let remaining = stands.remaining(lease, now);
        let is_taken = match stands.row.state {
            Standing::Held => !remaining.is_zero(),
            Standing::Completed | Standing::Failed => true,
            Standing::Released | Standing::Expired => false,
        };
        if is_taken {
            return Err(taken(stands, remaining));
        }
    }
    let row = Row {
        state: Standing::Held,
        holder: holder.clone(),
        by: by.clone(),
        lease_ms: millis(wanted),
        epoch: None,
        at: wall,
    };
    Ok(Swap { expected: stands.map_or(0, |stands| stands.revision), row })
}

/// Whether `by` holds the claim of `epoch`; the lease then starts afresh.
pub fn renew(stands: Option<&Stands>, by: &Principal, epoch: Revision) -> Result<Duration, Problem> {
    let stands = held(stands, by, epoch)?;
    match stands.row.state {
        Standing::Held => Ok(Duration::from_millis(stands.row.lease_ms)),
        Standing::Released | Standing::Expired | Standing::Completed | Standing::Failed => {
            Err(fenced(stands, epoch))
        }
    }
}

/// The write that ends the claim of `epoch` as released, completed or failed; `None` if that has been written before.
pub fn end(
    stands: Option<&Stands>,
    by: &Principal,
    epoch: Revision,
    as_: Standing,
    wall: WallTime,
) -> Result<Option<Swap>, Problem> {
    let stands = held(stands, by, epoch)?;
    match stands.row.state {
        Standing::Held => {
            let row = Row { state: as_, epoch: Some(epoch), at: wall, ..stands.row.clone() };
            Ok(Some(Swap { expected: stands.revision, row }))
        }
        state if state == as_ => Ok(None),
        Standing::Released | Standing::Expired | Standing::Completed | Standing::Failed => {
            Err(fenced(stands, epoch))
        }
    }
}

/// The write that frees a claim whose lease ran out; `None` if it is no longer that claim, or its lease runs.
pub fn expire(stands: &Stands, lease: Lease, now: NodeTime, wall: WallTime) -> Option<Swap> {
    let is_due = stands.row.state == Standing::Held && stands.revision == lease.epoch && lease.until <= now;
    let row =
        || Row { state: Standing::Expired, epoch: Some(stands.revision), at: wall, ..stands.row.clone() };
    is_due.then(|| Swap { expected: stands.revision, row: row() })
}

fn held<'a>(stands: Option<&'a Stands>, by: &Principal, epoch: Revision) -> Result<&'a Stands, Problem> {
    let Some(stands) = stands else {
        return Err(Problem::new(Reason::ClaimNotFound, "nobody has claimed this task"));
    };
    if stands.epoch() != epoch {
        return Err(fenced(stands, epoch));
    }
    if stands.row.by != *by {
        let message = format!("the claim is {}'s, not {by}'s", stands.row.by);
        return Err(Problem::new(Reason::Forbidden, message));
    }
    Ok(stands)
}

/// The refusal for the one who comes second.
pub fn taken(stands: &Stands, remaining: Duration) -> Problem {
    let message = match stands.row.state {
        Standing::Completed => format!("{} has completed this task", stands.row.holder),
        Standing::Failed => format!("{} has failed at this task", stands.row.holder),
        Standing::Held | Standing::Released | Standing::Expired => {
            format!("{} holds this task for another {} ms", stands.row.holder, millis(remaining))
        }
    };
    Problem::new(Reason::AlreadyClaimed, message)
        .with("holder", &stands.row.holder)
        .with("epoch", stands.epoch())
        .with("remainingMs", millis(remaining))
}

/// The refusal for the one who comes too late.
pub fn fenced(stands: &Stands, epoch: Revision) -> Problem {
    let now = stands.epoch();
    let message = match (epoch == now, stands.row.state) {
        (true, Standing::Expired) => format!("the lease of epoch {epoch} has run out"),
        (true, Standing::Held | Standing::Released | Standing::Completed | Standing::Failed) => {
            format!("epoch {epoch} has ended")
        }
        (false, _) => format!("epoch {epoch} is not in force: {now} is, held by {}", stands.row.holder),
    };
    Problem::new(Reason::Fenced, message).with("epoch", now).with("holder", &stands.row.holder)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
