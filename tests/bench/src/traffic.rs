//! The sent messages: the request that opens a task, and the measured updates.

use crate::load::Requests;
use protocol::{
    ids::{AgentId, Digest},
    routes,
    signature::{MESSAGE_ID, RECIPIENT, SignedParts},
    task::TaskState,
};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};
use transport::http_client::Signer;

/// The sender of a message.
#[derive(Debug, Clone)]
pub(crate) enum Sender {
    /// The local user, without a signature.
    LocalUser,
    /// An agent, with its signature.
    Agent(Signer),
}

impl Sender {
    /// The name in `fromAgentId`.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::LocalUser => "me",
            Self::Agent(signer) => signer.me.as_str(),
        }
    }

    /// Adds a message for `to` to `requests`.
    pub(crate) fn post(&self, to: &AgentId, message: &str, body: &str, requests: &mut Requests) {
        let Self::Agent(signer) = self else { return requests.post(routes::MESSAGES, &[], body) };
        let parts = SignedParts {
            method: "POST",
            path_and_query: routes::MESSAGES,
            recipient: to.as_str(),
            message_id: Some(message),
            digest: Digest::of(body.as_bytes()),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let Ok(proof) = signer.keys.sign_request(&signer.me, &parts, now) else {
            unreachable!("the keys of both sides are known")
        };
        let proof = proof.into_pairs();
        let mut headers = vec![(RECIPIENT, to.as_str()), (MESSAGE_ID, message)];
        headers.extend(proof.iter().map(|(name, value)| (*name, value.as_str())));
        requests.post(routes::MESSAGES, &headers, body);
    }
}

/// The request that opens task `task` at `to`.
pub(crate) fn request(sender: &Sender, to: &AgentId, task: &str) -> Requests {
    let message = format!("open-{task}");
    let body = json!({
        "messageId": message, "fromAgentId": sender.name(), "toAgentId": to, "type": "task-request",
        "payload": { "taskId": task, "description": "Stay open until the benchmark is over." },
    });
    let mut requests = Requests::default();
    sender.post(to, &message, &body.to_string(), &mut requests);
    requests
}

/// An open conversation to send updates to.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    /// The task it is about.
    pub(crate) task: String,
    /// The conversation's id at the recipient.
    pub(crate) id: String,
}

/// `count` updates, the first one with number `first`, over the conversations in turn.
pub(crate) fn updates(
    sender: &Sender,
    to: &AgentId,
    open: &[Conversation],
    first: usize,
    count: usize,
) -> Requests {
    let mut requests = Requests::default();
    for (number, Conversation { task, id }) in (first..first + count).zip(open.iter().cycle()) {
        let message = format!("update-{number:09}");
        let body = json!({
            "messageId": message, "fromAgentId": sender.name(), "toAgentId": to, "type": "task-update",
            "timestamp": "2026-11-21T08:00:00Z", "conversationId": id,
            "payload": {
                "taskId": task, "seq": number + 1,
                "status": { "state": TaskState::Working, "message": "half way there" },
            },
        });
        sender.post(to, &message, &body.to_string(), &mut requests);
    }
    requests
}
