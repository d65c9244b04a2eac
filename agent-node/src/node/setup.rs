//! Everything [`super::start`] needs.

use super::{advertise::AdvertiseConfig, card_retry};
use crate::{
    brain::{Brain, exec::access::BrainAccessCell, peer::PeerBrain, result_checker::AgentAcceptance},
    config::MeshConfig,
    http::edge::IssuedTokens,
    outbox::outbound_client::OutboundClient,
    services::ServiceLocation,
    signing_keys::SigningKeys,
    telemetry::Telemetry,
    tool_login::ToolLogins,
    triggers::Trigger,
    workspace::{WorkspaceHost, WorkspaceRights},
};
use engine::{schedule::Schedule, settings::AgentSettings};
use protocol::{ids::AgentId, principal::MeshService, signature::Secret};
use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc};
use store::SharedStore;
use transport::key_ring::KeyRing;

/// One agent to run.
#[derive(Clone)]
pub struct AgentSpec {
    pub id: AgentId,
    pub settings: AgentSettings,
    pub brain: Arc<dyn Brain>,
    /// What it demands of results before they count.
    pub acceptance: AgentAcceptance,
    /// The schedules of its file, by name.
    pub schedules: BTreeMap<String, Schedule>,
    /// Its triggers, by name.
    pub triggers: Arc<BTreeMap<String, Trigger>>,
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
    /// The logins of its agents at tool servers.
    pub logins: ToolLogins,
    /// Keys with which agents sign their cards.
    pub keys: SigningKeys,
    /// Where it keeps which signed requests it has taken; without it, in memory.
    pub requests: Option<PathBuf>,
    /// Measures the store, if it is on disk.
    pub gauge: Option<store::embedded::StoreGauge>,
    /// Webhooks that foreign agents call.
    pub hooks: crate::outbox::a2a::callbacks::CallbackRegistry,
    /// Traces, metrics and logs.
    pub telemetry: Telemetry,
    /// The tokens that the process accepts: its brains', and the person's once it is known.
    pub tokens: IssuedTokens,
}

impl NodeSetup {
    /// The keys of the agents and services of this process.
    pub(super) fn own_keys(&self) -> anyhow::Result<KeyRing> {
        let keys = KeyRing::new(self.secret.clone(), self.keys.dir.clone());
        let is_local = [
            (MeshService::Registry, self.registry == Some(ServiceLocation::Local)),
            (MeshService::Board, self.board == ServiceLocation::Local),
        ];
        for (service, _) in is_local.into_iter().filter(|(_, is_local)| *is_local) {
            let (key, history) = self.keys.service(&AgentId::parse(service.name())?)?;
            keys.set_own_service(key, history);
        }
        for spec in &self.agents {
            keys.set_own(self.keys.identity(&spec.id)?);
        }
        Ok(keys)
    }
}
