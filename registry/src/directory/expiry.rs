//! Lease expiry: a silent agent becomes suspect, then dead, a limited number at a time; later its row is deleted.

use super::{AgentDirectory, AgentRow, Departure, DirectoryChange, ExitRecord, MembershipEvent};
use crate::entry::Presence;
use protocol::{ids::AgentId, time::NodeTime};
use std::collections::{BTreeSet, VecDeque};

/// Most rows that one sweep expires or deletes, so that its commit stays small.
const MAX_PER_SWEEP: usize = 500;

/// When a person has forgotten an agent: its row goes with the next sweep.
pub(super) const FORGOTTEN: NodeTime = NodeTime(0);

/// The state of the expiry throttle.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ExpiryState {
    /// Times of expiries within the last lease.
    pub(super) recent: VecDeque<NodeTime>,
    /// No agent is declared dead before this time.
    pub(super) grace_until: NodeTime,
    /// The time of the last sweep.
    pub(super) last_sweep: NodeTime,
    /// Whether more agents were due at the last sweep than may expire.
    pub(super) self_preserving: bool,
}

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct SweepOutcome {
    /// Agents that became suspect; already applied.
    pub suspected: Vec<AgentId>,
    /// Expired and forgotten agents; the caller commits and applies it.
    pub change: Option<DirectoryChange>,
}

impl AgentDirectory {
    /// Checks every lease. If the registry itself was paused for so long that a punctual agent would look dead, every
    /// agent gets a full lease instead, once until it is heard again: a registry that is always late still expires the dead.
    pub fn sweep(&mut self, now: NodeTime) -> SweepOutcome {
        if now.since(self.expiry.last_sweep) >= self.config.max_sweep_gap() {
            self.outlast_stall(now);
        }
        self.expiry.last_sweep = self.expiry.last_sweep.max(now);
        self.drop_old_reports(now);
        let unreachable: BTreeSet<AgentId> = self
            .agents
            .iter()
            .filter(|(id, agent)| {
                agent.row.exit.is_none() && self.is_reported_unreachable(id, agent.liveness.last_seen, now)
            })
            .map(|(id, _)| id.clone())
            .collect();
        let mut suspected = Vec::new();
        let mut due = Vec::new();
        let (mut forgotten, mut left) = (Vec::new(), Vec::new());
        for (id, agent) in &mut self.agents {
            let silence = now.since(agent.liveness.last_seen);
            match &agent.row.exit {
                Some(exit) if exit.at == FORGOTTEN || now.since(exit.at) >= self.config.keep_departed() => {
                    forgotten.push(id.clone())
                }
                Some(exit)
                    if exit.presence == Presence::Dead
                        && now.since(exit.at) >= agent.row.card.may_be_away() =>
                {
                    let exit =
                        Some(ExitRecord { presence: Presence::Departed, at: exit.at, has_lapsed: true });
                    left.push(AgentRow { exit, ..agent.row.clone() });
                }
                Some(_) => {}
                None => {
                    if silence >= self.config.suspicion_timeout() && !agent.liveness.is_suspect {
                        agent.liveness.is_suspect = true;
                        suspected.push(id.clone());
                    }
                    let is_due = match agent.liveness.is_extended {
                        true => silence >= self.config.grace_period(),
                        false => silence >= self.config.lease() || unreachable.contains(id),
                    };
                    if is_due {
                        due.push((agent.liveness.last_seen, id.clone()));
                    }
                }
            }
        }
        let expired = self.select_expired(due, now);
        forgotten.truncate(MAX_PER_SWEEP);
        left.truncate(MAX_PER_SWEEP);
        let mut change = DirectoryChange {
            floor: self.floor_without(&forgotten),
            expired: expired.len(),
            written: left,
            forgotten,
            ..DirectoryChange::default()
        };
        for id in expired {
            let Some(agent) = self.agents.get(&id) else { continue };
            let reason = Departure::Expired;
            let exit = Some(ExitRecord { presence: reason.presence(), at: now, has_lapsed: false });
            change.written.push(AgentRow { exit, ..agent.row.clone() });
            change.events.push(MembershipEvent::left(&agent.row, reason));
        }
        let idle = change.written.is_empty() && change.forgotten.is_empty() && !self.has_settled(now);
        SweepOutcome { suspected, change: (!idle).then_some(change) }
    }

    /// Gives every live agent that was heard since its last such lease a full one from `now`, and the grace period.
    fn outlast_stall(&mut self, now: NodeTime) {
        for agent in self.agents.values_mut().filter(|agent| !agent.liveness.is_extended) {
            let last_seen = agent.liveness.last_seen.max(now);
            let liveness = &mut agent.liveness;
            (liveness.last_seen, liveness.is_suspect, liveness.is_extended) = (last_seen, false, true);
        }
    }

    /// Gives every live agent a full lease from `now`; no agent is declared dead before the grace period ends.
    pub fn extend_all_leases(&mut self, now: NodeTime) {
        self.expiry.grace_until = now + self.config.grace_period();
        for agent in self.agents.values_mut() {
            agent.liveness.last_seen = agent.liveness.last_seen.max(now);
            agent.liveness.is_suspect = false;
        }
    }

    /// The agents of `due` that the throttle lets expire, the longest silent first.
    fn select_expired(&mut self, mut due: Vec<(NodeTime, AgentId)>, now: NodeTime) -> Vec<AgentId> {
        let lease = self.config.lease();
        self.expiry.recent.retain(|at| now.since(*at) < lease);
        if now < self.expiry.grace_until {
            due.clear();
        }
        let recent = self.expiry.recent.len();
        let quota = self.config.expiry_quota(self.live_index.len() + recent).saturating_sub(recent);
        self.expiry.self_preserving = due.len() > quota;
        due.sort();
        due.truncate(quota.min(MAX_PER_SWEEP));
        due.into_iter().map(|(_, id)| id).collect()
    }
}
