//! What silence leads to: suspicion, then, a few at a time, expiry; and at last oblivion.

use super::{Change, Departure, Directory, Gone, Notice, Row};
use crate::entry::Presence;
use protocol::{ids::AgentId, time::NodeTime};
use std::collections::{BTreeSet, VecDeque};

/// Most rows one sweep changes, so that its commit stays small.
const PER_SWEEP: usize = 500;

/// When agents may be declared dead.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expiry {
    /// When agents expired, within the last lease.
    pub(super) recent: VecDeque<NodeTime>,
    /// Until when nobody may.
    pub(super) grace_until: NodeTime,
    /// When leases were last looked at.
    pub(super) swept: NodeTime,
    /// Whether more agents were due at the last sweep than may expire.
    pub(super) preserving: bool,
}

/// What a sweep found.
#[derive(Debug, Default)]
pub struct Swept {
    /// Who became suspect; already in force.
    pub suspected: Vec<AgentId>,
    /// Who expires and who is forgotten; in force once it is durable and applied.
    pub change: Option<Change>,
}

impl Directory {
    /// Looks at every lease. A registry that was itself away for so long that a punctual agent would look dead gives
    /// everybody a full lease instead.
    pub fn sweep(&mut self, now: NodeTime) -> Swept {
        if now.since(self.expiry.swept) >= self.config.absence() {
            self.extend_all(now);
        }
        self.expiry.swept = self.expiry.swept.max(now);
        self.forget_reports(now);
        let missed: BTreeSet<AgentId> = self
            .known
            .iter()
            .filter(|(id, known)| known.row.gone.is_none() && self.is_missed(id, known.pulse.seen, now))
            .map(|(id, _)| id.clone())
            .collect();
        let mut suspected = Vec::new();
        let mut due = Vec::new();
        let mut forgotten = Vec::new();
        for (id, known) in &mut self.known {
            let silence = now.since(known.pulse.seen);
            match &known.row.gone {
                Some(gone) if now.since(gone.at) >= self.config.keep_departed() => forgotten.push(id.clone()),
                Some(_) => {}
                None => {
                    if silence >= self.config.suspicion() && !known.pulse.suspect {
                        known.pulse.suspect = true;
                        suspected.push(id.clone());
                    }
                    if silence >= self.config.lease() || missed.contains(id) {
                        due.push((known.pulse.seen, id.clone()));
                    }
                }
            }
        }
        let expired = self.admit_to_death(due, now);
        forgotten.truncate(PER_SWEEP);
        let mut change = Change { floor: self.floor_without(&forgotten), forgotten, ..Change::default() };
        for id in expired {
            let Some(known) = self.known.get(&id) else { continue };
            let gone = Some(Gone { presence: Presence::Dead, at: now });
            change.written.push(Row { gone, ..known.row.clone() });
            change.notices.push(Notice::left(&known.row, Departure::Expired));
        }
        let idle = change.written.is_empty() && change.forgotten.is_empty() && !self.has_settled(now);
        Swept { suspected, change: (!idle).then_some(change) }
    }

    /// Gives every live agent a full lease from `now`, and declares nobody dead before it is over.
    pub fn extend_all(&mut self, now: NodeTime) {
        self.expiry.grace_until = now + self.config.grace();
        for known in self.known.values_mut() {
            known.pulse.seen = known.pulse.seen.max(now);
            known.pulse.suspect = false;
        }
    }

    /// Those of `due` who may expire by now, the longest silent first.
    fn admit_to_death(&mut self, mut due: Vec<(NodeTime, AgentId)>, now: NodeTime) -> Vec<AgentId> {
        let lease = self.config.lease();
        self.expiry.recent.retain(|at| now.since(*at) < lease);
        if now < self.expiry.grace_until {
            due.clear();
        }
        let recent = self.expiry.recent.len();
        let quota = self.config.expiry_quota(self.live.len() + recent).saturating_sub(recent);
        self.expiry.preserving = due.len() > quota;
        due.sort();
        due.truncate(quota.min(PER_SWEEP));
        due.into_iter().map(|(_, id)| id).collect()
    }
}
