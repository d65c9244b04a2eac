//! Shared by unit tests: a world without a registry, and an agent's configuration.

use crate::{PeerDirectory, PeerLocation, World, agent::EngineConfig};
use protocol::{
    ids::{AgentId, Capability},
    limits::Limits,
    patterns::Candidate,
    time::{NodeTime, WallTime},
};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

pub(crate) const HOUR: i64 = 3_600_000;

/// A world without a registry.
#[derive(Default)]
pub(crate) struct EmptyWorld {
    pub(crate) wall: WallTime,
    /// Agents of the same process.
    pub(crate) neighbours: BTreeSet<AgentId>,
    ids: u64,
}

impl World for EmptyWorld {
    fn now(&self) -> NodeTime {
        NodeTime(0)
    }

    fn wall(&self) -> WallTime {
        self.wall
    }

    fn uuid(&mut self) -> String {
        self.ids += 1;
        format!("id-{}", self.ids)
    }

    fn random(&mut self) -> u64 {
        0
    }

    fn samples(&self, _: Option<bool>, _: u128) -> bool {
        false
    }

    fn directory(&self) -> &dyn PeerDirectory {
        self
    }
}

impl PeerDirectory for EmptyWorld {
    fn candidates(&self, _: &Capability) -> Vec<Candidate> {
        Vec::new()
    }

    fn has(&self, _: &Capability) -> bool {
        false
    }

    fn skills(&self) -> BTreeSet<Capability> {
        BTreeSet::new()
    }

    fn knows(&self, _: &AgentId) -> bool {
        false
    }

    fn locate(&self, agent: &AgentId) -> PeerLocation {
        if self.neighbours.contains(agent) { PeerLocation::Here } else { PeerLocation::Unknown }
    }

    fn is_synced(&self) -> bool {
        true
    }
}

pub(crate) fn me() -> AgentId {
    AgentId::parse("a").unwrap()
}

/// The configuration of an agent without skills.
pub(crate) fn config(limits: Limits) -> EngineConfig {
    let card = json!({ "agentId": "a", "endpoint": "http://a", "skills": [] });
    EngineConfig {
        card: Arc::new(serde_json::from_value(card).unwrap()),
        limits: Arc::new(limits),
        subscribe: Vec::new(),
        auction: Default::default(),
        timeouts: Default::default(),
        is_direct: false,
    }
}
