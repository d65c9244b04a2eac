//! Delivery to destinations outside of the process: peers, the board, foreign agents and webhooks.

pub mod a2a;
pub(crate) mod environment_proxy;
pub mod outbound_client;
pub(crate) mod retry_after;
pub(crate) mod sse_parser;
pub mod webhooks;

use crate::{
    clock::NodeClock, inbox::LocalAgents, peers::Peers, sent_messages::SentMessages, telemetry::Telemetry,
};
use blackboard::client::Blackboard;
use protocol::limits::Limits;
use std::{sync::Arc, time::Duration};
use store::SharedStore;
use transport::http_client::HttpClient;

/// The clients that an agent sends through.
#[derive(Clone)]
pub struct Transports {
    pub locals: Arc<LocalAgents>,
    /// Agents on other nodes.
    pub peers: Arc<Peers>,
    /// The HTTP client, which signs as this agent.
    pub wire: HttpClient,
    pub board: Blackboard,
    pub limits: Arc<Limits>,
    /// The counters of attempts.
    pub telemetry: Telemetry,
    /// What has reached other agents.
    pub sent: Arc<SentMessages>,
    /// The agent's own store.
    pub store: SharedStore,
    pub clock: NodeClock,
}

/// The pause after attempt number `attempt` (from 0), with full jitter.
pub(crate) fn pause(attempt: u32) -> Duration {
    engine::pause(attempt, uuid::Uuid::new_v4().as_u64_pair().1)
}

/// A random number from 0 to 1.
pub(crate) fn random_fraction() -> f64 {
    let bits = u16::from_le_bytes([uuid::Uuid::new_v4().as_bytes()[0], uuid::Uuid::new_v4().as_bytes()[15]]);
    f64::from(bits) / f64::from(u16::MAX)
}
