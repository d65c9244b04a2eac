//! Where an agent's records lie.

use protocol::{
    ids::{AgentId, ConversationId, Digest, MessageId, TaskId},
    principal::Principal,
};
use store_types::{Filter, Key};

/// The steps of a conversation (log).
pub fn journal(me: &AgentId, conversation: &ConversationId) -> Key {
    Key::new(&[me.as_str(), "journal", conversation.as_str()])
}

/// An open conversation (state).
pub fn state(me: &AgentId, conversation: &ConversationId) -> Key {
    Key::new(&[me.as_str(), "state", conversation.as_str()])
}

/// A task (state): an id belongs to its principal.
pub fn task(me: &AgentId, task: &TaskId, owner: &Principal) -> Key {
    Key::new(&[me.as_str(), "task", task.as_str(), &owner.to_string()])
}

/// A message that was taken (state).
pub fn receipt(me: &AgentId, message: &MessageId, by: &Principal, from: &AgentId) -> Key {
    Key::new(&[me.as_str(), "receipt", message.as_str(), &by.parts().concat(), from.as_str()])
}

/// The receipts of all that `by` sent under one message id, whatever name it was sent under.
pub fn receipts(me: &AgentId, message: &MessageId, by: &Principal) -> Filter {
    let of = Key::new(&[me.as_str(), "receipt", message.as_str(), &by.to_string()]);
    Filter::Below(of)
}

/// The name that the message of the receipt at `key` was sent under.
pub fn sent_as(key: &Key) -> Option<String> {
    key.tokens().into_iter().nth(4)
}

/// That a signal was reacted to (state), by the span that it was published under.
pub fn reaction(me: &AgentId, trace: u128, under: Option<u64>, conversation: &ConversationId) -> Key {
    let (trace, under) = (format!("{trace:032x}"), span(under));
    Key::new(&[me.as_str(), "reaction", &trace, &under, conversation.as_str()])
}

/// All reactions to what was published under a span, or in a whole trace.
pub fn reactions(me: &AgentId, trace: u128, under: Option<u64>) -> Filter {
    let (trace, under) = (format!("{trace:032x}"), under.map(|under| span(Some(under))));
    let tokens = [me.as_str(), "reaction", &trace].into_iter().chain(under.as_deref());
    Filter::Below(Key::new(&tokens.collect::<Vec<_>>()))
}

fn span(id: Option<u64>) -> String {
    format!("{:016x}", id.unwrap_or_default())
}

/// A claim on a task (state).
pub fn claim(me: &AgentId, task: &TaskId, conversation: &ConversationId) -> Key {
    Key::new(&[me.as_str(), "claim", task.as_str(), conversation.as_str()])
}

/// Why a bid won (state).
pub fn award(me: &AgentId, conversation: &ConversationId) -> Key {
    Key::new(&[me.as_str(), "award", conversation.as_str()])
}

/// How a peer kept its word (state).
pub fn track_record(me: &AgentId, peer: &AgentId) -> Key {
    Key::new(&[me.as_str(), "record", peer.as_str()])
}

/// A message that was given up (state).
pub fn dead_letter(me: &AgentId, message: &MessageId) -> Key {
    Key::new(&[me.as_str(), "dead", message.as_str()])
}

/// A cancel that came before its award (state).
pub fn tombstone(me: &AgentId, task: &TaskId, by: &Principal) -> Key {
    Key::new(&[me.as_str(), "tombstone", task.as_str(), &by.to_string()])
}

/// How far the board has been followed (state).
pub fn cursor(me: &AgentId) -> Key {
    Key::new(&[me.as_str(), "cursor", "board"])
}

/// How far the journal has been told in traces (state).
pub fn told(me: &AgentId) -> Key {
    Key::new(&[me.as_str(), "told", "traces"])
}

/// Content by digest (state).
pub fn content(me: &AgentId, digest: &Digest) -> Key {
    Key::new(&[me.as_str(), "content", &digest.to_string()])
}

/// Who may read an artifact that was put by reference (state).
pub fn artifact(me: &AgentId, digest: &Digest) -> Key {
    Key::new(&[me.as_str(), "artifact", &digest.to_string()])
}

/// The topics whose records may refer to content elsewhere.
pub const REFERRING: &[&str] = &["journal", "state", "task", "award", "record", "dead", "cursor"];

/// That a task began with an artifact that was put (state).
pub fn reader(me: &AgentId, artifact: &Digest, task: &TaskId, owner: &Principal) -> Key {
    Key::new(&[me.as_str(), "reader", &artifact.to_string(), task.as_str(), &owner.to_string()])
}

/// Where a task's events are pushed to (state).
pub fn webhook(me: &AgentId, task: &TaskId, owner: &Principal, id: &str) -> Key {
    Key::new(&[me.as_str(), "webhook", task.as_str(), &owner.to_string(), id])
}

/// All webhooks of a task.
pub fn webhooks(me: &AgentId, task: &TaskId, owner: &Principal) -> Filter {
    let of = Key::new(&[me.as_str(), "webhook", task.as_str(), &owner.to_string()]);
    Filter::Below(of)
}

/// Everything of one topic.
pub fn all(me: &AgentId, topic: &str) -> Filter {
    Filter::Below(Key::new(&[me.as_str(), topic]))
}
