//! What every request handler reads: this node, its agents, and what is checked and measured of the node.

use super::{
    a2a::{face::Face, listed::Listed},
    edge::Readers,
    leaving::Leaving,
    server::Door,
};
use crate::{
    agent::{AgentActor, AgentStatus},
    clock::Clock,
    inbox::Locals,
    latest::Latest,
    node::services::Known,
    outbox::{a2a::hooks::Hooks, outside::Outside, webhooks::Pusher},
    peers::Peers,
    telemetry::Telemetry,
};
use actix::Addr;
use actix_web::HttpRequest;
use blackboard::{store::Shared, wire::Wire};
use engine::PeerLocation;
use protocol::{
    a2a::card_signature::SigningKey,
    card::Card,
    ids::AgentId,
    limits::Limits,
    problem::{Problem, Reason},
};
use registry::client::Registry;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// One agent of this node, as the routes reach it.
#[derive(Clone)]
pub struct HostedAgent {
    /// Its id.
    pub id: AgentId,
    /// The actor.
    pub actor: Addr<AgentActor>,
    /// Its store, for looking.
    pub store: Shared,
    /// HTTP, signed as this agent.
    pub wire: Wire,
    /// Its card.
    pub card: Latest<Card>,
    /// What can be known without asking it.
    pub status: Arc<AgentStatus>,
    /// What it signs its A2A card with.
    pub key: Arc<SigningKey>,
    /// What it shows to A2A clients.
    pub face: Latest<Face>,
    /// What tells webhooks of its tasks.
    pub pusher: Addr<Pusher>,
    /// Where webhooks may be.
    pub outside: Outside,
    /// The order in which its tasks are listed.
    pub listed: Listed,
}

/// One thing that must work: its name, and a look at it.
pub type Check =
    (&'static str, Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Value, String>>>> + Send + Sync>);

/// Everything that must work.
pub type Checks = Vec<Check>;

/// What of this process is looked at beside its agents.
#[derive(Clone, Default)]
pub struct Looked {
    /// The board, if it is here.
    pub board: Option<blackboard::board::Board>,
    /// The registry, if it is here.
    pub registry: Option<Registry>,
    /// The store's files and queue, if it has any.
    pub store: Option<blackboard::store::embedded::Gauge>,
}

/// Everything the routes need; shared by all workers.
pub struct Node {
    /// Its agents.
    pub agents: BTreeMap<AgentId, HostedAgent>,
    /// Which of them answers on which port when nobody is named.
    pub by_port: BTreeMap<u16, AgentId>,
    /// Everyone else.
    pub peers: Arc<Peers>,
    /// The agents of this process.
    pub locals: Arc<Locals>,
    /// What is told of it.
    pub telemetry: Telemetry,
    /// What is measured of it beside its agents.
    pub looked: Looked,
    /// What it takes.
    pub limits: Arc<Limits>,
    /// Who reads how many streams.
    pub readers: Arc<Readers>,
    /// Whether it leaves.
    pub leaving: Leaving,
    /// Where the registry and the board are.
    pub services: Arc<Known>,
    /// Where foreign agents call back.
    pub hooks: Hooks,
    /// Its clocks.
    pub clock: Clock,
    /// What it looks at to say whether it is ready.
    pub checks: Checks,
    /// Whether it was ready once.
    pub was_ready: AtomicBool,
}

impl Node {
    /// The agent of the port that a request came in at; that of the registry and the board is nobody's.
    pub(super) fn of_port(&self, request: &HttpRequest) -> Option<&HostedAgent> {
        let Door(address) = request.conn_data()?;
        self.agents.get(self.by_port.get(&address.port())?)
    }

    /// The agent that a request without a name is for: the one of the port it came in at.
    pub(super) fn host(&self, request: &HttpRequest) -> Result<&HostedAgent, Problem> {
        self.of_port(request)
            .or_else(|| self.agents.values().next())
            .ok_or_else(|| Problem::new(Reason::AgentNotFound, "no agent lives here"))
    }

    /// The port's agent first, then the others: where to look for something that has no agent's name on it.
    pub(super) fn in_turn(&self, request: &HttpRequest) -> Vec<&HostedAgent> {
        let host = self.host(request).ok();
        let others = self.agents.values().filter(|local| host.is_none_or(|host| host.id != local.id));
        host.into_iter().chain(others).collect()
    }

    /// The agent of that name, or where it is instead.
    pub(super) fn agent(&self, id: &AgentId) -> Result<&HostedAgent, Problem> {
        if let Some(local) = self.agents.get(id) {
            return Ok(local);
        }
        Err(match self.peers.locate(id) {
            PeerLocation::At(endpoint) => {
                let message = format!("{id} is at {endpoint}, not here");
                Problem::new(Reason::RegisteredElsewhere, message).with("endpoint", endpoint)
            }
            PeerLocation::Departed => Problem::new(Reason::AgentDeparted, format!("{id} has left")),
            PeerLocation::Here | PeerLocation::Unknown => {
                Problem::new(Reason::AgentNotFound, format!("no agent {id} is known"))
            }
        })
    }

    pub(super) fn ack(&self) -> Duration {
        self.limits.ack()
    }
}
