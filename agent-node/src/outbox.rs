//! What leaves the process: other agents, the board, and everything beyond the mesh.

pub mod a2a;
pub mod outside;
pub(crate) mod retry_after;
pub mod webhooks;

use crate::{inbox::LocalAgents, peers::Peers, telemetry::Telemetry};
use blackboard::{client::Blackboard, wire::Wire};
use protocol::limits::Limits;
use std::{sync::Arc, time::Duration};

/// What leaves the process goes through these.
#[derive(Clone)]
pub struct Transports {
    /// Agents on this node.
    pub locals: Arc<LocalAgents>,
    /// Everyone else.
    pub peers: Arc<Peers>,
    /// HTTP, signed as this agent.
    pub wire: Wire,
    /// The blackboard.
    pub board: Blackboard,
    /// Everything beyond the mesh.
    pub outside: outside::Outside,
    /// How long to try.
    pub limits: Arc<Limits>,
    /// Where tries are counted.
    pub telemetry: Telemetry,
}

/// The pause after attempt number `attempt` (from 0), with full jitter.
pub(crate) fn pause(attempt: u32) -> Duration {
    engine::pause(attempt, uuid::Uuid::new_v4().as_u64_pair().1)
}

/// Any number from 0 to 1.
pub(crate) fn chance() -> f64 {
    let bits = u16::from_le_bytes([uuid::Uuid::new_v4().as_bytes()[0], uuid::Uuid::new_v4().as_bytes()[15]]);
    f64::from(bits) / f64::from(u16::MAX)
}
