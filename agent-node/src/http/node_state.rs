//! The state that request handlers share: the node's agents, peers, services, limits and checks.

use super::{
    a2a::facade::AgentFacade,
    bulk_runs::BulkRuns,
    connections::Connections,
    drain::DrainSignal,
    edge::{AddressedAgent, ConsoleSessions, IssuedTokens, PublicUrls, StreamLimit},
    hosted_peer::HostedPeer,
    listener::ListenerAddress,
    mcp_endpoint::McpEndpoint,
    registry_calls::RegistryCalls,
};
use crate::{
    agent::{AgentActor, AgentStatus},
    artifacts::ArtifactQuota,
    clock::NodeClock,
    inbox::LocalAgents,
    outbox::{
        a2a::callbacks::CallbackRegistry,
        outbound_client::OutboundClient,
        webhooks::{Pusher, Seal},
    },
    peers::Peers,
    schedules::Schedules,
    services::ServiceLocator,
    shared_cell::SharedCell,
    signing_keys::SigningKeys,
    telemetry::Telemetry,
    triggers::Trigger,
};
use actix::Addr;
use actix_web::{HttpMessage as _, HttpRequest};
use blackboard::client::Blackboard;
use engine::PeerLocation;
use protocol::{
    a2a::card_signature::SigningKey,
    card::Card,
    ids::AgentId,
    limits::Limits,
    problem::{Problem, Reason},
    words,
};
use registry::{client::Registry, pinned_keys::KeyCursor, registrar::SupervisedRegistry};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
    time::Duration,
};
use store::SharedStore;
use transport::http_client::HttpClient;
use transport::key_ring::KeyRing;

/// One agent of this node, as the routes see it.
#[derive(Clone)]
pub struct HostedAgent {
    pub id: AgentId,
    pub actor: Addr<AgentActor>,
    pub store: SharedStore,
    /// An HTTP client that signs as this agent.
    pub wire: HttpClient,
    pub card: SharedCell<Card>,
    /// Its status, readable without a message to the actor.
    pub status: Arc<AgentStatus>,
    pub key: SharedCell<SigningKey>,
    /// Seals the webhooks in its store.
    pub seal: Seal,
    /// The registry, if the process uses one.
    pub registry: Option<Registry>,
    pub board: Blackboard,
    /// Its A2A policy and cards.
    pub facade: SharedCell<AgentFacade>,
    /// The actor that calls its tasks' webhooks.
    pub pusher: Addr<Pusher>,
    /// The client for webhooks, with its address policy.
    pub outside: OutboundClient,
    /// Calls the `replyTo` of the local user.
    pub callbacks: OutboundClient,
    /// When tasks of its own begin.
    pub schedules: Schedules,
    /// How other systems begin tasks of it, by name.
    pub triggers: Arc<BTreeMap<String, Trigger>>,
    /// Its process, if that speaks for itself.
    pub peer: Option<Arc<HostedPeer>>,
}

/// A check of one dependency: its name and the probe. A probe fails with the reason.
pub type ReadinessCheck =
    (&'static str, Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Value, String>>>> + Send + Sync>);

/// The checks of a process.
pub type ReadinessChecks = Vec<ReadinessCheck>;

/// The services of this process that its metrics report on.
#[derive(Clone, Default)]
pub struct LocalServices {
    /// The board, if it runs in this process.
    pub board: Option<blackboard::board::Board>,
    /// The registry, if it runs in this process.
    pub registry: Option<Registry>,
    /// The gauge of the store's files and queue, if it has them.
    pub store: Option<store::embedded::StoreGauge>,
    /// The stores of this process.
    pub stores: Vec<SharedStore>,
}

/// The state of a node; shared by all workers.
pub struct NodeState {
    pub agents: BTreeMap<AgentId, HostedAgent>,
    /// The agent of each port, which answers requests that name no agent.
    pub by_port: BTreeMap<u16, AgentId>,
    /// The agents of other nodes.
    pub peers: Arc<Peers>,
    pub locals: Arc<LocalAgents>,
    /// Its metrics and traces.
    pub telemetry: Telemetry,
    /// Its services beside the agents.
    pub local_services: LocalServices,
    pub limits: Arc<Limits>,
    pub connections: Connections,
    /// How many bytes of artifacts each principal has.
    pub artifact_quota: ArtifactQuota,
    /// The open streams of each principal.
    pub streams: StreamLimit,
    pub tokens: IssuedTokens,
    /// Who is signed in at the console.
    pub console: ConsoleSessions,
    /// What its users do there with many tasks.
    pub bulk_runs: BulkRuns,
    /// Calls agents of other processes in the registry's name, for users of its console; `None` where the registry does not run.
    pub registry_calls: Option<RegistryCalls>,
    /// Agents of other processes whose word for a person's approval counts.
    pub approvers: Vec<AgentId>,
    pub keys: KeyRing,
    pub key_files: SigningKeys,
    /// Held while one of its keys is replaced.
    pub rotation: tokio::sync::Mutex<()>,
    /// How far the registry has told the key records to the board of this process.
    pub told_cursor: Mutex<Option<KeyCursor>>,
    /// The registry, if it runs in this process.
    pub registry: Option<SupervisedRegistry>,
    pub drain: DrainSignal,
    /// Where the registry and the board are.
    pub services: Arc<ServiceLocator>,
    /// The callbacks that foreign agents may call.
    pub hooks: CallbackRegistry,
    /// The logins of its agents at tool servers.
    pub logins: crate::tool_login::ToolLogins,
    /// Where browsers and clients reach the agents through a proxy.
    pub public_urls: PublicUrls,
    pub mcp: McpEndpoint,
    /// The OpenAPI document of its routes.
    pub openapi: OnceLock<Value>,
    pub clock: NodeClock,
    pub checks: ReadinessChecks,
    /// Whether it has been ready since its start.
    pub was_ready: AtomicBool,
}

impl NodeState {
    /// The agent of the public path or of the port that a request came in at; `None` on the port of the registry and the board.
    pub(super) fn agent_of_port(&self, request: &HttpRequest) -> Option<&HostedAgent> {
        if let Some(AddressedAgent(agent)) = request.extensions().get() {
            return self.agents.get(agent);
        }
        let ListenerAddress(address) = request.conn_data()?;
        self.agents.get(self.by_port.get(&address.port())?)
    }

    /// The agent for a request that names none: that of its port, else the first. Fails if the node has no agents.
    pub(super) fn default_agent(&self, request: &HttpRequest) -> Result<&HostedAgent, Problem> {
        self.agent_of_port(request)
            .or_else(|| self.agents.values().next())
            .ok_or_else(|| Problem::new(Reason::AgentNotFound, "no agent lives here"))
    }

    /// The port's agent, then the others: the order to look for an item whose agent the request does not name.
    pub(super) fn agents_in_lookup_order(&self, request: &HttpRequest) -> Vec<&HostedAgent> {
        let default = self.default_agent(request).ok();
        let others =
            self.agents.values().filter(|local| default.is_none_or(|default| default.id != local.id));
        default.into_iter().chain(others).collect()
    }

    /// The agent with this id. Fails with where it is if it is not here.
    pub(super) fn agent(&self, id: &AgentId) -> Result<&HostedAgent, Problem> {
        if let Some(local) = self.agents.get(id) {
            return Ok(local);
        }
        Err(match self.peers.locate(id) {
            PeerLocation::At(endpoint) => {
                let message = format!("{id} is at {endpoint}, not here");
                Problem::new(Reason::RegisteredElsewhere, message).with("endpoint", endpoint)
            }
            PeerLocation::Away { since } => engine::away(id, since),
            PeerLocation::Left => Problem::new(Reason::AgentDeparted, format!("{id} has left")),
            PeerLocation::Here | PeerLocation::Unknown => {
                let present = self.peers.present();
                let known = self.agents.keys().chain(present.keys()).map(AgentId::as_str);
                let hint =
                    words::nearest(id.as_str(), known).map(|nearest| format!("; did you mean {nearest}?"));
                let message = format!("no agent {id} is known{}", hint.unwrap_or_default());
                Problem::new(Reason::AgentNotFound, message)
            }
        })
    }

    pub(super) fn ack(&self) -> Duration {
        self.limits.ack()
    }
}
