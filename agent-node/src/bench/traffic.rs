//! What is sent: the request that opens a task, and the updates that the measure consists of.

use super::load::Requests;
use protocol::{
    ids::{AgentId, Digest},
    routes,
    signature::{MESSAGE_ID, Parts, RECIPIENT, Signer},
    task::TaskState,
};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// Who speaks.
#[derive(Debug, Clone)]
pub(super) enum Speaker {
    /// `user:local`, without a proof.
    User,
    /// The agent that asked, by signature.
    Agent(Signer),
}

impl Speaker {
    /// The name in `fromAgentId`.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::User => "me",
            Self::Agent(signer) => signer.agent().as_str(),
        }
    }

    /// Adds a message to `to`.
    pub(super) fn say(&self, to: &AgentId, message: &str, body: &str, requests: &mut Requests) {
        let Self::Agent(signer) = self else { return requests.post(routes::MESSAGES, &[], body) };
        let parts = Parts {
            method: "POST",
            path_and_query: routes::MESSAGES,
            recipient: to.as_str(),
            message_id: Some(message),
            digest: Digest::of(body.as_bytes()),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let proof = signer.sign(&parts, now).into_pairs();
        let mut headers = vec![(RECIPIENT, to.as_str()), (MESSAGE_ID, message)];
        headers.extend(proof.iter().map(|(name, value)| (*name, value.as_str())));
        requests.post(routes::MESSAGES, &headers, body);
    }
}

/// The request that opens task `task` at `to`.
pub(super) fn request(speaker: &Speaker, to: &AgentId, task: &str) -> Requests {
    let message = format!("open-{task}");
    let body = json!({
        "messageId": message, "fromAgentId": speaker.name(), "toAgentId": to, "type": "task-request",
        "payload": { "taskId": task, "description": "Stay open until the benchmark is over." },
    });
    let mut requests = Requests::default();
    speaker.say(to, &message, &body.to_string(), &mut requests);
    requests
}

/// An open conversation to send updates to.
#[derive(Debug, Clone)]
pub(super) struct Open {
    /// The task it is about.
    pub(super) task: String,
    /// Its id at the recipient.
    pub(super) conversation: String,
}

/// So many updates from number `first` on, over the conversations in turn.
pub(super) fn updates(
    speaker: &Speaker,
    to: &AgentId,
    open: &[Open],
    first: usize,
    count: usize,
) -> Requests {
    let mut requests = Requests::default();
    for (number, Open { task, conversation }) in (first..first + count).zip(open.iter().cycle()) {
        let message = format!("update-{number:09}");
        let body = json!({
            "messageId": message, "fromAgentId": speaker.name(), "toAgentId": to, "type": "task-update",
            "timestamp": "2026-11-21T08:00:00Z", "conversationId": conversation,
            "payload": {
                "taskId": task, "seq": number + 1,
                "status": { "state": TaskState::Working, "message": "half way there" },
            },
        });
        speaker.say(to, &message, &body.to_string(), &mut requests);
    }
    requests
}
