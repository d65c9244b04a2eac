//! The engine's world on a node: clocks, randomness, sampling and the directory.

use super::AgentActor;
use crate::{clock::NodeClock, inbox::LocalAgents, peers::Peers, telemetry::Telemetry};
use engine::{PeerDirectory, PeerLocation, World};
use protocol::{
    ids::{AgentId, Capability},
    patterns::Candidate,
    time::{NodeTime, WallTime},
};
use std::{collections::BTreeSet, sync::Arc};

/// The world of a node.
pub(super) struct NodeWorld {
    clock: NodeClock,
    telemetry: Telemetry,
    directory: NodeDirectory,
}

struct NodeDirectory {
    peers: Arc<Peers>,
    locals: Arc<LocalAgents>,
}

impl AgentActor {
    pub(super) fn world(&self) -> NodeWorld {
        let transports = &self.parts.transports;
        NodeWorld {
            clock: self.parts.clock,
            telemetry: self.parts.telemetry.clone(),
            directory: NodeDirectory { peers: transports.peers.clone(), locals: transports.locals.clone() },
        }
    }
}

impl World for NodeWorld {
    fn now(&self) -> NodeTime {
        self.clock.node()
    }

    fn wall(&self) -> WallTime {
        self.clock.wall()
    }

    fn uuid(&mut self) -> String {
        uuid::Uuid::now_v7().to_string()
    }

    fn random(&mut self) -> u64 {
        uuid::Uuid::new_v4().as_u64_pair().1
    }

    fn samples(&self, parent: Option<bool>, trace: u128) -> bool {
        self.telemetry.samples(parent, trace)
    }

    fn directory(&self) -> &dyn PeerDirectory {
        &self.directory
    }
}

impl PeerDirectory for NodeDirectory {
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
        self.locals.get(agent).is_some() || self.peers.knows(agent)
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
