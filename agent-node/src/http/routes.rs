//! What a node answers: each file one thing, each handler translates, calls once, translates.

pub mod artifacts;
pub mod dead_letters;
pub mod health;
pub mod hooks;
pub mod keys;
pub mod messages;
pub mod metrics;
pub mod tasks;
pub mod traces;

use crate::agent::{AgentActor, Pulse};
use crate::clock::Clock;
use crate::http::a2a::{Face, Listed};
use crate::http::server::Door;
use crate::latest::Latest;
use crate::outbox::{outside::Outside, webhooks::Pusher};
use crate::peers::{Locals, Peers, Whereabouts};
use crate::telemetry::Telemetry;
use actix::Addr;
use actix_web::{HttpRequest, web};
use blackboard::{resource::resource, store::Shared, wire::Wire};
use protocol::{
    a2a::card_signature::SigningKey,
    card::Card,
    ids::AgentId,
    limits::Limits,
    problem::{Problem, Reason},
    routes,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// One agent of this node, as the routes reach it.
#[derive(Clone)]
pub struct Local {
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
    pub pulse: Arc<Pulse>,
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

/// Everything the routes need; shared by all workers.
pub struct Node {
    /// Its agents.
    pub agents: BTreeMap<AgentId, Local>,
    /// Which of them answers on which port when nobody is named.
    pub by_port: BTreeMap<u16, AgentId>,
    /// Everyone else.
    pub peers: Arc<Peers>,
    /// The agents of this process.
    pub locals: Arc<Locals>,
    /// What is told of it.
    pub telemetry: Telemetry,
    /// What is measured of it beside its agents.
    pub looked: metrics::Looked,
    /// What it takes.
    pub limits: Arc<Limits>,
    /// Who reads how many streams.
    pub readers: Arc<crate::http::edge::Readers>,
    /// Whether it leaves.
    pub leaving: crate::http::leaving::Leaving,
    /// Where the registry and the board are.
    pub services: Arc<crate::node::services::Known>,
    /// Where foreign agents call back.
    pub hooks: crate::outbox::a2a::hooks::Hooks,
    /// Its clocks.
    pub clock: Clock,
    /// What it looks at to say whether it is ready.
    pub checks: health::Checks,
    /// Whether it was ready once.
    pub was_ready: AtomicBool,
}

impl Node {
    /// The agent of the port that a request came in at; that of the registry and the board is nobody's.
    fn of_port(&self, request: &HttpRequest) -> Option<&Local> {
        let Door(address) = request.conn_data()?;
        self.agents.get(self.by_port.get(&address.port())?)
    }

    /// The agent that a request without a name is for: the one of the port it came in at.
    pub(super) fn host(&self, request: &HttpRequest) -> Result<&Local, Problem> {
        self.of_port(request)
            .or_else(|| self.agents.values().next())
            .ok_or_else(|| Problem::new(Reason::AgentNotFound, "no agent lives here"))
    }

    /// The port's agent first, then the others: where to look for something that has no agent's name on it.
    fn in_turn(&self, request: &HttpRequest) -> Vec<&Local> {
        let host = self.host(request).ok();
        let others = self.agents.values().filter(|local| host.is_none_or(|host| host.id != local.id));
        host.into_iter().chain(others).collect()
    }

    /// The agent of that name, or where it is instead.
    fn agent(&self, id: &AgentId) -> Result<&Local, Problem> {
        if let Some(local) = self.agents.get(id) {
            return Ok(local);
        }
        Err(match self.peers.whereabouts(id) {
            Whereabouts::At(endpoint) => {
                let message = format!("{id} is at {endpoint}, not here");
                Problem::new(Reason::RegisteredElsewhere, message).with("endpoint", endpoint)
            }
            Whereabouts::Departed => Problem::new(Reason::AgentDeparted, format!("{id} has left")),
            Whereabouts::Unknown => Problem::new(Reason::AgentNotFound, format!("no agent {id} is known")),
        })
    }

    fn ack(&self) -> Duration {
        self.limits.ack()
    }
}

/// The route that every message of a peer takes.
pub fn messages(config: &mut web::ServiceConfig) {
    config.service(resource(routes::MESSAGES, [(actix_web::http::Method::POST, web::to(messages::post))]));
}

/// The other routes of agents.
pub fn agents(config: &mut web::ServiceConfig) {
    use actix_web::http::Method;
    let tasks = routes::TASKS;
    let dead = routes::DEAD_LETTERS;
    config
        .service(resource(&format!("{}/{{id}}", routes::MESSAGES), [(Method::GET, web::to(messages::get))]))
        .service(resource(tasks, [(Method::GET, web::to(tasks::list))]))
        .service(resource(&format!("{tasks}/{{id}}"), [(Method::GET, web::to(tasks::get))]))
        .service(resource(&format!("{tasks}/{{id}}/events"), [(Method::GET, web::to(tasks::events))]))
        .service(resource(&format!("{tasks}/{{id}}/award"), [(Method::GET, web::to(tasks::award))]))
        .service(resource(&format!("{tasks}/{{id}}/trace"), [(Method::GET, web::to(traces::of_task))]))
        .service(resource(
            &format!("{}/{{id}}/trace", routes::MESSAGES),
            [(Method::GET, web::to(traces::of_message))],
        ))
        .service(resource(
            &format!("{}/{{id}}/trace", routes::CONVERSATIONS),
            [(Method::GET, web::to(traces::of_conversation))],
        ))
        .service(resource(
            &format!("{}/{{trace}}/reactions", routes::TRACES),
            [(Method::GET, web::to(traces::reactions::answer))],
        ))
        .service(resource(&format!("{tasks}/{{id}}/cancel"), [(Method::POST, web::to(tasks::cancel))]))
        .service(resource(&format!("{tasks}/{{id}}/answer"), [(Method::POST, web::to(tasks::answer))]))
        .service(resource(routes::ARTIFACTS, [(Method::PUT, web::to(artifacts::put))]))
        .service(resource(
            &format!("{}/{{sha256}}", routes::ARTIFACTS),
            [(Method::GET, web::to(artifacts::get))],
        ))
        .service(resource(dead, [(Method::GET, web::to(dead_letters::list))]))
        .service(resource(&format!("{dead}/{{id}}"), [(Method::GET, web::to(dead_letters::get))]))
        .service(resource(
            &format!("{dead}/{{id}}/redrive"),
            [(Method::POST, web::to(dead_letters::redrive))],
        ))
        .service(resource(&format!("{}/{{id}}", routes::HOOKS), [(Method::POST, web::to(hooks::post))]))
        .service(resource(routes::JWKS, [(Method::GET, web::to(keys::jwks))]))
        .service(resource(routes::CARD, [(Method::GET, web::to(health::card))]));
}

/// The routes of every process.
pub fn process(config: &mut web::ServiceConfig) {
    use actix_web::http::Method;
    config
        .service(resource(routes::HEALTH, [(Method::GET, web::to(health::health))]))
        .service(resource(routes::READY, [(Method::GET, web::to(health::ready))]))
        .service(resource(routes::SERVICES, [(Method::GET, web::to(health::services))]))
        .service(resource(routes::METRICS, [(Method::GET, web::to(metrics::metrics))]))
        .service(resource(routes::STATE, [(Method::GET, web::to(health::state))]));
}

/// An id in a path, or which id it is that is none.
fn id<T: std::str::FromStr<Err = protocol::ids::BadId>>(text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error: protocol::ids::BadId| Problem::new(Reason::InvalidField, error.to_string()))
}
