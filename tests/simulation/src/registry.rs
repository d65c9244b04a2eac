//! The simulated registry: its pure directory and its durable rows; and each agent's copy of the directory.

use engine::{PeerDirectory, PeerLocation};
use patterns::Candidate;
use protocol::{
    card::Card,
    ids::{AgentId, Capability},
    time::NodeTime,
};
use registry::{
    config::Config,
    directory::{AgentRow, Departure, DirectoryChange},
    entry::{AgentEntry, AgentQuery, Heartbeat, Presence},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The registry.
#[derive(Debug)]
pub(crate) struct SimulatedRegistry {
    table: registry::directory::AgentDirectory,
    rows: BTreeMap<AgentId, AgentRow>,
    floor: u64,
    /// Grows with every change.
    pub version: u64,
}

impl SimulatedRegistry {
    pub(crate) fn new() -> Self {
        let table = registry::directory::AgentDirectory::new(Config::default(), [], 0, NodeTime(0));
        Self { table, rows: BTreeMap::new(), floor: 0, version: 1 }
    }

    /// Restarts from the durable rows; every registered agent gets a full lease.
    pub(crate) fn restart(&mut self, now: NodeTime) {
        let rows = self.rows.values().cloned();
        self.table = registry::directory::AgentDirectory::new(Config::default(), rows, self.floor, now);
        self.version += 1;
    }

    fn apply(&mut self, change: DirectoryChange, now: NodeTime) {
        for row in &change.written {
            self.rows.insert(row.card.agent_id.clone(), row.clone());
        }
        change.forgotten.iter().for_each(|id| drop(self.rows.remove(id)));
        self.floor = self.floor.max(change.floor);
        self.table.apply(change, now);
        self.version += 1;
    }

    pub(crate) fn register(&mut self, card: Arc<Card>, instance: &str, now: NodeTime) -> Option<u64> {
        let admitted = self.table.register(card, instance).ok()?;
        if let Some(change) = admitted.change {
            self.apply(change, now);
        }
        Some(admitted.incarnation)
    }

    /// Renews the lease of an agent; false if that incarnation is unknown.
    pub(crate) fn heartbeat(&mut self, id: &AgentId, incarnation: u64, running: u32, now: NodeTime) -> bool {
        let beat = Heartbeat::new(incarnation, running, true);
        match self.table.heartbeat(id, beat, now) {
            Ok(has_changed) => {
                self.version += u64::from(has_changed);
                true
            }
            Err(_) => false,
        }
    }

    pub(crate) fn leave(&mut self, id: &AgentId, incarnation: u64, now: NodeTime) {
        if let Ok(Some(change)) = self.table.deregister(id, incarnation, Departure::Drained, now) {
            self.apply(change, now);
        }
    }

    pub(crate) fn sweep(&mut self, now: NodeTime) {
        let swept = self.table.sweep(now);
        if !swept.suspected.is_empty() {
            self.version += 1;
        }
        if let Some(change) = swept.change {
            self.apply(change, now);
        }
    }

    pub(crate) fn all(&self, now: NodeTime) -> Vec<AgentEntry> {
        self.table.find(&AgentQuery { include_dead: true, ..AgentQuery::default() }, now)
    }
}

/// An agent's copy of the registry's entries.
#[derive(Debug, Default)]
pub(crate) struct RegistryCache {
    entries: BTreeMap<AgentId, AgentEntry>,
    /// The version of the registry at the last update; 0 before the first.
    pub version: u64,
}

impl RegistryCache {
    pub(crate) fn update(&mut self, entries: Vec<AgentEntry>, version: u64) {
        self.entries = entries.into_iter().map(|entry| (entry.id().clone(), entry)).collect();
        self.version = version;
    }
}

impl PeerDirectory for RegistryCache {
    fn candidates(&self, capability: &Capability) -> Vec<Candidate> {
        let matching = self
            .entries
            .values()
            .filter(|entry| entry.state != Presence::Departed && entry.card.support(capability) > 0.0);
        let candidate = |entry: &AgentEntry| Candidate {
            running: entry.running,
            is_alive: entry.state.is_live(),
            ..Candidate::new(&entry.card, capability)
        };
        matching.map(candidate).collect()
    }

    fn has(&self, capability: &Capability) -> bool {
        !self.candidates(capability).is_empty()
    }

    fn skills(&self) -> BTreeSet<Capability> {
        let skills = self.entries.values().flat_map(|entry| entry.card.skills.iter());
        skills.map(|skill| skill.id.clone()).collect()
    }

    fn knows(&self, agent: &AgentId) -> bool {
        self.entries.contains_key(agent)
    }

    fn locate(&self, agent: &AgentId) -> PeerLocation {
        match self.entries.get(agent) {
            Some(entry) if entry.state == Presence::Departed => PeerLocation::Left,
            Some(entry) => PeerLocation::At(entry.card.endpoint.clone()),
            None => PeerLocation::Unknown,
        }
    }

    fn is_synced(&self) -> bool {
        self.version > 0
    }
}
