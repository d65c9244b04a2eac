//! The table of agents, pure: time is an argument, and a decision is a value that the caller applies once it is durable.

mod capability_index;
mod change;
mod expiry;
mod flapping;
mod search;
mod suspicion;
#[cfg(test)]
pub(crate) mod test_cards;
#[cfg(test)]
mod tests;

pub use change::{
    AgentRow, Departure, DirectoryChange, DirectoryError, DirectoryStats, ExitRecord, MembershipEvent,
    RegistrationDecision,
};
pub use expiry::SweepOutcome;

use crate::{
    config::Config,
    entry::{Heartbeat, Presence, SentCounts, busiest},
};
use capability_index::CapabilityIndex;
use expiry::ExpiryState;
use flapping::FlapDamping;
use protocol::{card::Card, ids::AgentId, time::NodeTime};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use suspicion::SuspicionReports;

/// Most former instances kept per agent, so that a late request of one of them is recognised.
const MAX_SUPERSEDED: usize = 8;

/// The heartbeat state of an agent, kept in memory only.
#[derive(Debug, Clone, PartialEq)]
struct Liveness {
    last_seen: NodeTime,
    is_suspect: bool,
    running: u32,
    accepting: bool,
    sent: SentCounts,
    /// Whether its lease was extended because the registry stood still, and it was not heard since.
    is_extended: bool,
}

impl Liveness {
    fn new(now: NodeTime) -> Self {
        let sent = SentCounts::new();
        Self { last_seen: now, is_suspect: false, running: 0, accepting: true, sent, is_extended: false }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct TrackedAgent {
    row: AgentRow,
    liveness: Liveness,
}

/// The table of agents.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentDirectory {
    config: Config,
    agents: BTreeMap<AgentId, TrackedAgent>,
    live_index: CapabilityIndex,
    gone_index: CapabilityIndex,
    floor: u64,
    expiry: ExpiryState,
    flapping: FlapDamping,
    suspicion: SuspicionReports,
}

impl AgentDirectory {
    /// A table of stored rows: every live agent gets a full lease from `now`.
    pub fn new(config: Config, rows: impl IntoIterator<Item = AgentRow>, floor: u64, now: NodeTime) -> Self {
        let expiry = ExpiryState {
            recent: VecDeque::new(),
            grace_until: now,
            last_sweep: now,
            self_preserving: false,
        };
        let (live_index, gone_index) = (CapabilityIndex::default(), CapabilityIndex::default());
        let (flapping, suspicion) = Default::default();
        let agents = BTreeMap::new();
        let mut directory =
            Self { config, agents, live_index, gone_index, floor, expiry, flapping, suspicion };
        for mut row in rows {
            if let Some(exit) = &mut row.exit {
                exit.at = exit.at.min(now);
            }
            directory.insert(row, Liveness::new(now));
        }
        if directory.live_index.len() > 0 {
            directory.extend_all_leases(now);
        }
        directory
    }

    /// Decides whether the agent of `card` may register as `instance`, and returns the change to apply.
    pub fn register(&self, card: Arc<Card>, instance: &str) -> Result<RegistrationDecision, DirectoryError> {
        let id = card.agent_id.clone();
        let Some(TrackedAgent { row, .. }) = self.agents.get(&id) else {
            return self.register_new(card, instance);
        };
        if row.superseded.iter().any(|old| old == instance) {
            return Err(DirectoryError::Stale { id, current: row.incarnation });
        }
        let mut change = DirectoryChange { floor: self.floor, ..DirectoryChange::default() };
        if row.exit.is_none() && row.instance == instance {
            let incarnation = row.incarnation;
            if row.card == card {
                return Ok(RegistrationDecision { incarnation, change: None });
            }
            change.written.push(AgentRow { card, ..row.clone() });
            return Ok(RegistrationDecision { incarnation, change: Some(change) });
        }
        if row.exit.is_none() {
            change.events.push(MembershipEvent::left(row, Departure::Superseded));
        }
        let incarnation = row.incarnation.max(self.floor) + 1;
        let mut superseded = row.superseded.clone();
        if row.instance != instance {
            superseded.push_back(row.instance.clone());
            superseded.drain(..superseded.len().saturating_sub(MAX_SUPERSEDED));
        }
        let row = AgentRow { card, instance: instance.to_owned(), superseded, incarnation, exit: None };
        change.events.push(MembershipEvent::joined(&row));
        change.written.push(row);
        Ok(RegistrationDecision { incarnation, change: Some(change) })
    }

    fn register_new(&self, card: Arc<Card>, instance: &str) -> Result<RegistrationDecision, DirectoryError> {
        let mut forgotten = Vec::new();
        if self.agents.len() >= self.config.max_agents {
            let exited = self
                .agents
                .values()
                .filter_map(|agent| Some((agent.row.exit.as_ref()?.at, &agent.row.card.agent_id)));
            let (_, oldest) = exited.min().ok_or(DirectoryError::Full(self.config.max_agents))?;
            forgotten.push(oldest.clone());
        }
        let floor = self.floor_without(&forgotten);
        let (instance, incarnation) = (instance.to_owned(), floor + 1);
        let row = AgentRow { card, instance, superseded: VecDeque::new(), incarnation, exit: None };
        let events = vec![MembershipEvent::joined(&row)];
        Ok(RegistrationDecision {
            incarnation,
            change: Some(DirectoryChange {
                written: vec![row],
                forgotten,
                floor,
                events,
                ..DirectoryChange::default()
            }),
        })
    }

    /// Renews a lease. Returns whether the agent's entry changed apart from the time and the counts of its messages.
    pub fn heartbeat(
        &mut self,
        id: &AgentId,
        beat: Heartbeat,
        now: NodeTime,
    ) -> Result<bool, DirectoryError> {
        let row = self.row_of(id, beat.incarnation)?;
        if row.exit.is_some() {
            return Err(DirectoryError::Unknown(id.clone()));
        }
        let Some(TrackedAgent { liveness, .. }) = self.agents.get_mut(id) else { return Ok(false) };
        let before = (liveness.is_suspect, liveness.running, liveness.accepting);
        let Heartbeat { running, accepting, sent, .. } = beat;
        let sent = busiest(sent);
        *liveness = Liveness { running, accepting, sent, ..Liveness::new(liveness.last_seen.max(now)) };
        Ok(before != (false, running, accepting))
    }

    /// Decides whether that incarnation may leave, and returns the change to apply; `None` if it has left before.
    pub fn deregister(
        &self,
        id: &AgentId,
        incarnation: u64,
        reason: Departure,
        now: NodeTime,
    ) -> Result<Option<DirectoryChange>, DirectoryError> {
        let row = self.row_of(id, incarnation)?;
        if row.exit.is_some() {
            return Ok(None);
        }
        let exit = Some(ExitRecord { presence: reason.presence(), at: now, has_lapsed: false });
        let events = vec![MembershipEvent::left(row, reason)];
        let written = vec![AgentRow { exit, ..row.clone() }];
        Ok(Some(DirectoryChange { written, events, floor: self.floor, ..DirectoryChange::default() }))
    }

    /// Decides that an agent that is not there has left for good: a person says so. Its name stays reserved for its key. Refused
    /// while it is there.
    pub fn forget(&self, id: &AgentId) -> Result<DirectoryChange, DirectoryError> {
        let row = self.agents.get(id).map(|agent| &agent.row);
        let row = row.ok_or_else(|| DirectoryError::Unknown(id.clone()))?;
        if row.exit.is_none() {
            return Err(DirectoryError::Present(id.clone()));
        }
        // The next sweep deletes it. Until then those who follow the registry see that it has left.
        let exit =
            Some(ExitRecord { presence: Presence::Departed, at: expiry::FORGOTTEN, has_lapsed: false });
        let written = vec![AgentRow { exit, ..row.clone() }];
        Ok(DirectoryChange { written, floor: self.floor, ..DirectoryChange::default() })
    }

    /// Applies a decision and returns the ids of the changed agents. It must be the latest decision taken.
    pub fn apply(&mut self, change: DirectoryChange, now: NodeTime) -> Vec<AgentId> {
        self.record_damping(&change, now);
        self.floor = self.floor.max(change.floor);
        self.expiry.recent.extend(std::iter::repeat_n(now, change.expired));
        for id in &change.forgotten {
            if let Some(agent) = self.agents.remove(id) {
                self.gone_index.remove(&agent.row.card);
            }
        }
        let mut changed = Vec::new();
        for row in change.written {
            let liveness = match self.agents.get(&row.card.agent_id) {
                Some(agent) if agent.row.incarnation == row.incarnation && row.exit.is_none() => Liveness {
                    last_seen: agent.liveness.last_seen.max(now),
                    is_suspect: false,
                    is_extended: false,
                    ..agent.liveness.clone()
                },
                Some(agent) if row.exit.is_some() => {
                    Liveness { running: 0, sent: SentCounts::new(), ..agent.liveness.clone() }
                }
                Some(_) | None => Liveness::new(now),
            };
            changed.push(row.card.agent_id.clone());
            self.insert(row, liveness);
        }
        changed
    }

    /// How many more agents fit before departed ones have to be forgotten.
    pub fn free_slots(&self) -> usize {
        self.config.max_agents.saturating_sub(self.agents.len())
    }

    /// Counts and flags for `/state` and metrics.
    pub fn stats(&self) -> DirectoryStats {
        let suspect = self.agents.values().filter(|agent| agent.presence() == Presence::Suspect).count();
        let (live, gone) = (self.live_index.len(), self.gone_index.len());
        let (flapping, self_preserving) = (self.flapping.count(), self.expiry.self_preserving);
        DirectoryStats { alive: live - suspect, suspect, gone, flapping, self_preserving }
    }

    /// The row of `id`, if `incarnation` is its current one.
    fn row_of(&self, id: &AgentId, incarnation: u64) -> Result<&AgentRow, DirectoryError> {
        let row = self.agents.get(id).map(|agent| &agent.row);
        match row {
            Some(row) if row.incarnation == incarnation => Ok(row),
            Some(row) if row.incarnation > incarnation => {
                Err(DirectoryError::Stale { id: id.clone(), current: row.incarnation })
            }
            Some(_) | None => Err(DirectoryError::Unknown(id.clone())),
        }
    }

    fn floor_without(&self, forgotten: &[AgentId]) -> u64 {
        let incarnations = forgotten.iter().filter_map(|id| Some(self.agents.get(id)?.row.incarnation));
        incarnations.fold(self.floor, u64::max)
    }

    fn insert(&mut self, row: AgentRow, liveness: Liveness) {
        let id = row.card.agent_id.clone();
        if let Some(old) = self.agents.remove(&id) {
            let index = if old.row.exit.is_some() { &mut self.gone_index } else { &mut self.live_index };
            index.remove(&old.row.card);
        }
        let index = if row.exit.is_some() { &mut self.gone_index } else { &mut self.live_index };
        index.add(&row.card);
        self.agents.insert(id, TrackedAgent { row, liveness });
    }
}
