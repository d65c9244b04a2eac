//! How the agents of one node take messages from each other and from the routes, without a socket.

use actix::{Message, Recipient};
use dashmap::DashMap;
use engine::{Ack, IncomingMessage};
use protocol::{ids::AgentId, problem::Problem};

/// Takes a message in. Answered when it is durable.
#[derive(Debug, Message)]
#[rtype(result = "Result<Ack, Problem>")]
pub struct TakeMessage(pub IncomingMessage);

/// The agents of this node, reached without a socket; each by the same admission as over HTTP.
#[derive(Default)]
pub struct Locals(DashMap<AgentId, Recipient<TakeMessage>>);

impl Locals {
    /// Takes an agent in.
    pub fn add(&self, agent: AgentId, inbox: Recipient<TakeMessage>) {
        self.0.insert(agent, inbox);
    }

    /// The inbox of an agent of this node.
    pub fn get(&self, agent: &AgentId) -> Option<Recipient<TakeMessage>> {
        self.0.get(agent).map(|inbox| inbox.clone())
    }
}
