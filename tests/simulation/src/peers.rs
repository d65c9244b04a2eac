//! The registry, its pure table with what it keeps, and what an agent knows of it.

use engine::{PeerDirectory, PeerLocation};
use protocol::{
    card::Card,
    ids::{AgentId, Capability},
    patterns::Candidate,
    time::NodeTime,
};
use registry::{
    config::Config,
    directory::{Change, Departure, Row},
    entry::{Entry, Heartbeat, Presence, Query},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Debug)]
pub(crate) struct Registry {
    table: registry::directory::Directory,
    rows: BTreeMap<AgentId, Row>,
    floor: u64,
    /// Grows with every change.
    pub version: u64,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let table = registry::directory::Directory::new(Config::default(), [], 0, NodeTime(0));
        Self { table, rows: BTreeMap::new(), floor: 0, version: 1 }
    }

    /// A restart: everybody who was there gets a full lease.
    pub(crate) fn restart(&mut self, now: NodeTime) {
        let rows = self.rows.values().cloned();
        self.table = registry::directory::Directory::new(Config::default(), rows, self.floor, now);
        self.version += 1;
    }

    fn apply(&mut self, change: Change, now: NodeTime) {
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

    /// Whether that life of the agent is known.
    pub(crate) fn heartbeat(&mut self, id: &AgentId, incarnation: u64, running: u32, now: NodeTime) -> bool {
        let beat = Heartbeat { incarnation, running, accepting: true };
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

    pub(crate) fn all(&self, now: NodeTime) -> Vec<Entry> {
        self.table.find(&Query { include_dead: true, ..Query::default() }, now)
    }
}

/// What an agent knows of its peers.
#[derive(Debug, Default)]
pub(crate) struct Known {
    entries: BTreeMap<AgentId, Entry>,
    /// The registry's version when it was asked last; 0 before that.
    pub version: u64,
}

impl Known {
    pub(crate) fn learn(&mut self, entries: Vec<Entry>, version: u64) {
        self.entries = entries.into_iter().map(|entry| (entry.id().clone(), entry)).collect();
        self.version = version;
    }
}

impl PeerDirectory for Known {
    fn candidates(&self, capability: &Capability) -> Vec<Candidate> {
        let having = self
            .entries
            .values()
            .filter(|entry| entry.state != Presence::Departed && entry.card.support(capability) > 0.0);
        let candidate = |entry: &Entry| Candidate {
            card: entry.card.as_ref().clone(),
            running: entry.running,
            is_alive: entry.state.is_live(),
            track_record: 0.0,
        };
        having.map(candidate).collect()
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
            Some(entry) if entry.state == Presence::Departed => PeerLocation::Departed,
            Some(entry) => PeerLocation::At(entry.card.endpoint.clone()),
            None => PeerLocation::Unknown,
        }
    }

    fn is_synced(&self) -> bool {
        self.version > 0
    }
}
