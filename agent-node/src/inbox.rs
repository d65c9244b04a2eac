//! Delivery of messages to the agents of this node, from each other and from the routes, without a socket.

use actix::{Message, Recipient};
use dashmap::DashMap;
use engine::{Ack, IncomingMessage};
use protocol::{
    envelope::Envelope,
    ids::{Address, AgentId, BadId, Digest, MessageId, TaskId},
    message::{Payload, TaskRequest},
    principal::{Principal, SenderProof},
    problem::Problem,
    task::{TaskOrigin, TaskTerms},
};
use serde_json::Map;
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

/// The request for a task that a schedule or a trigger of the agent `me` begins, with the rights of `by`. The same `task` is the same
/// request.
pub fn own_request(
    me: &AgentId,
    (by, proof): (Principal, SenderProof),
    (task, terms): (TaskId, TaskTerms),
    origin: TaskOrigin,
) -> Result<IncomingMessage, BadId> {
    let digest = Digest::of(task.as_str().as_bytes());
    let envelope = Envelope {
        message_id: MessageId::parse(&format!("origin-{digest}"))?,
        from_agent_id: AgentId::parse("mesh")?,
        to_agent_id: Address::Agent(me.clone()),
        payload: Payload::TaskRequest(TaskRequest { task_id: Some(task), ..TaskRequest::new(terms) }),
        timestamp: None,
        conversation_id: None,
        in_reply_to: None,
        thread_id: None,
        space_id: None,
        reply_conversation_id: None,
        reply_to: None,
        expires_at: None,
        path: Vec::new(),
        extra: Map::new(),
    };
    Ok(IncomingMessage {
        envelope: Box::new(envelope),
        by,
        proof,
        digest,
        trace: None,
        contact: None,
        origin: Some(Box::new(origin)),
        approval: None,
    })
}

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
