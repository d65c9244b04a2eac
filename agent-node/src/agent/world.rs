//! The engine's world on a node: clocks, randomness, sampling and the directory.

use super::{AgentParts, turns};
use crate::outbox::Transports;
use engine::{InstantAnswer, PeerDirectory, PeerLocation, World};
use patterns::{Candidate, turn::Prompt};
use protocol::{
    ids::{AgentId, Capability},
    time::{NodeTime, WallTime},
};
use std::collections::BTreeSet;

pub(super) struct NodeWorld<'a>(pub(super) &'a AgentParts);

impl World for NodeWorld<'_> {
    fn now(&self) -> NodeTime {
        self.0.clock.node()
    }

    fn wall(&self) -> WallTime {
        self.0.clock.wall()
    }

    fn uuid(&mut self) -> String {
        uuid::Uuid::now_v7().to_string()
    }

    fn random(&mut self) -> u64 {
        uuid::Uuid::new_v4().as_u64_pair().1
    }

    fn samples(&self, parent: Option<bool>, trace: u128) -> bool {
        self.0.telemetry.samples(parent, trace)
    }

    fn directory(&self) -> &dyn PeerDirectory {
        &self.0.transports
    }

    fn answer_at_once(&self, prompt: &Prompt) -> Option<InstantAnswer> {
        turns::answer_at_once(self.0, prompt)
    }
}

impl PeerDirectory for Transports {
    fn candidates(&self, capability: &Capability) -> Vec<Candidate> {
        self.peers.candidates(capability)
    }

    fn has(&self, capability: &Capability) -> bool {
        self.peers.has(capability)
    }

    fn skills(&self) -> BTreeSet<Capability> {
        self.peers.skills()
    }

    fn knows(&self, agent: &AgentId) -> bool {
        self.peers.knows(agent) || self.locals.knows(agent)
    }

    fn locate(&self, agent: &AgentId) -> PeerLocation {
        match self.locals.get(agent) {
            Some(_) => PeerLocation::Here,
            None => self.peers.locate(agent),
        }
    }

    fn is_synced(&self) -> bool {
        self.peers.is_synced()
    }
}
