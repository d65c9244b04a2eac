//! Everything [`super::start`] needs.

use super::{advertise::AdvertiseConfig, card_retry, services::ServiceLocation, signing_keys};
use crate::{
    brain::{Brain, exec::access::BrainAccessCell, peer::PeerBrain, result_checker::AgentAcceptance},
    config::MeshConfig,
    http::edge::IssuedTokens,
    outbox::outbound_client::OutboundClient,
    telemetry::Telemetry,
    workspace::{WorkspaceHost, WorkspaceRights},
};
use blackboard::store::SharedStore;
use engine::settings::AgentSettings;
use protocol::{ids::AgentId, signature::Secret};
use std::{net::IpAddr, sync::Arc};

/// One agent to run.
#[derive(Clone)]
pub struct AgentSpec {
    pub id: AgentId,
    pub settings: AgentSettings,
    pub brain: Arc<dyn Brain>,
    /// What it demands of results before they count.
    pub acceptance: AgentAcceptance,
    /// Its port, if it has one of its own.
    pub port: Option<u16>,
    /// Its brain's access to the mesh, which the node sets when it listens.
    pub access: BrainAccessCell,
    /// The repositories of its sessions, and its clones of others'.
    pub workspaces: (WorkspaceHost, WorkspaceRights),
    /// Set if its foreign agent's card is still missing, so that its skills are unknown.
    pub pending_card: Option<card_retry::PendingCard>,
    /// Its brain, if that is a process which registers.
    pub peer: Option<Arc<PeerBrain>>,
}

impl AgentSpec {
    /// Why it takes no work at the start, if it takes none.
    pub(super) fn waits_for(&self) -> Option<String> {
        let card = self.pending_card.as_ref().map(|pending| pending.why.clone());
        card.or_else(|| self.peer.as_ref()?.process.absence())
    }
}

/// The parts and settings of a process.
pub struct NodeSetup {
    pub listen: IpAddr,
    /// Under which names others reach it.
    pub advertise: AdvertiseConfig,
    /// The port of the registry and the board, if they run here. Agents get the next free ports from it on. 0 takes any
    /// free ports.
    pub port: u16,
    /// The registry; `None` for a process without agents that is no registry itself.
    pub registry: Option<ServiceLocation>,
    pub board: ServiceLocation,
    pub agents: Vec<AgentSpec>,
    pub store: SharedStore,
    /// The store of the board's spaces, if the board runs here; without one, they are in `store`.
    pub space_store: Option<SharedStore>,
    /// The join secret, which signs messages between agents.
    pub secret: Secret,
    pub mesh: MeshConfig,
    /// The client for calls that leave the mesh.
    pub outside: OutboundClient,
    /// Keys with which agents sign their cards.
    pub keys: signing_keys::SigningKeys,
    /// Measures the store, if it is on disk.
    pub gauge: Option<blackboard::store::embedded::StoreGauge>,
    /// Webhooks that foreign agents call.
    pub hooks: crate::outbox::a2a::callbacks::CallbackRegistry,
    /// Traces, metrics and logs.
    pub telemetry: Telemetry,
    /// The tokens that the process accepts: its brains', and the person's once it is known.
    pub tokens: IssuedTokens,
}
