//! Delivery of messages to the agents of this node, from each other and from the routes, without a socket.

use actix::{Message, Recipient};
use dashmap::DashMap;
use engine::{Ack, IncomingMessage};
use protocol::{ids::AgentId, problem::Problem};
use store::SharedStore;

/// Delivers a message to an agent; answered when it is durable.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct TakeMessage(pub IncomingMessage);

/// Delivers messages of one request to an agent, in order. Each is answered; after a refusal that may be another one later, the
/// messages behind it are refused, too.
#[derive(Debug, Message)]
#[rtype(result = "Vec<Result<Ack, Problem>>")]
pub struct TakeMessages(pub Vec<IncomingMessage>);

/// The inboxes of this node's agents; admission is the same as over HTTP.
#[derive(Default)]
pub struct LocalAgents(DashMap<AgentId, LocalAgent>);

/// An agent of this node.
#[derive(Clone)]
pub struct LocalAgent {
    pub inbox: Recipient<TakeMessages>,
    /// The store of its keys.
    pub store: SharedStore,
}

impl LocalAgents {
    /// Adds or replaces an agent.
    pub fn add(&self, agent: AgentId, local: LocalAgent) {
        self.0.insert(agent, local);
    }

    /// Whether `label` is the name of an agent of this node, compared without case.
    pub fn knows(&self, label: &AgentId) -> bool {
        self.0.iter().any(|agent| agent.key().as_str().eq_ignore_ascii_case(label.as_str()))
    }

    /// The agent `agent`, if it runs on this node.
    pub fn get(&self, agent: &AgentId) -> Option<LocalAgent> {
        self.0.get(agent).map(|local| local.clone())
    }
}
