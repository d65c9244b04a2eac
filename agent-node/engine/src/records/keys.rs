//! The keys of an agent's records.

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

/// A task (state). Task ids are unique per owner.
pub fn task(me: &AgentId, task: &TaskId, owner: &Principal) -> Key {
    Key::new(&[me.as_str(), "task", task.as_str(), &owner.to_string()])
}

/// The receipt of a message (state).
pub fn receipt(me: &AgentId, message: &MessageId, by: &Principal, from: &AgentId) -> Key {
    Key::new(&[me.as_str(), "receipt", message.as_str(), &by.parts().concat(), from.as_str()])
}

/// The receipts of all messages of `by` with this id, under any `fromAgentId`.
pub fn receipts(me: &AgentId, message: &MessageId, by: &Principal) -> Filter {
    let of = Key::new(&[me.as_str(), "receipt", message.as_str(), &by.to_string()]);
    Filter::Below(of)
}

/// The `fromAgentId` of the message whose receipt is at `key`.
pub fn sent_as(key: &Key) -> Option<String> {
    key.tokens().into_iter().nth(4)
}

/// The receipt of a reaction to a signal (state), by the span that published the signal.
pub fn reaction(me: &AgentId, trace: u128, under: Option<u64>, conversation: &ConversationId) -> Key {
    let (trace, under) = (format!("{trace:032x}"), span(under));
    Key::new(&[me.as_str(), "reaction", &trace, &under, conversation.as_str()])
}

/// All receipts of reactions to signals of a span, or of a whole trace.
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

/// The award record of a conversation (state).
pub fn award(me: &AgentId, conversation: &ConversationId) -> Key {
    Key::new(&[me.as_str(), "award", conversation.as_str()])
}

/// The track record of a peer (state).
pub fn track_record(me: &AgentId, peer: &AgentId) -> Key {
    Key::new(&[me.as_str(), "record", peer.as_str()])
}

/// A dead letter (state).
pub fn dead_letter(me: &AgentId, message: &MessageId) -> Key {
    Key::new(&[me.as_str(), "dead", message.as_str()])
}

/// The tombstone of a task cancelled before its award (state).
pub fn tombstone(me: &AgentId, task: &TaskId, by: &Principal) -> Key {
    Key::new(&[me.as_str(), "tombstone", task.as_str(), &by.to_string()])
}

/// The board cursor (state).
pub fn cursor(me: &AgentId) -> Key {
    Key::new(&[me.as_str(), "cursor", "board"])
}

/// Content by digest (state).
pub fn content(me: &AgentId, digest: &Digest) -> Key {
    Key::new(&[me.as_str(), "content", &digest.to_string()])
}

/// The chunks of a task's artifacts (state), of all awards.
pub fn chunks(me: &AgentId, task: &TaskId, owner: &Principal) -> Key {
    Key::new(&[me.as_str(), "chunk", task.as_str(), &owner.to_string()])
}

/// The chunks of all tasks and conversations of an agent.
pub fn chunks_of_all(me: &AgentId) -> Key {
    Key::new(&[me.as_str(), "chunk"])
}

/// The owner of the task whose chunk has this key; `None` for other keys.
pub fn owner_of_chunk(key: &Key) -> Option<String> {
    let tokens = key.tokens();
    let is_chunk = tokens.get(1).is_some_and(|kind| kind == "chunk");
    tokens.into_iter().nth(3).filter(|_| is_chunk)
}

/// The chunks of a task's artifacts under one award. A chunk's key has its number as a further token.
pub fn chunks_under(me: &AgentId, task: &TaskId, owner: &Principal, epoch: u64) -> Key {
    Key::new(&[me.as_str(), "chunk", task.as_str(), &owner.to_string(), &epoch.to_string()])
}

/// The chunks of a conversation without a task (state).
pub fn chunks_without_task(me: &AgentId, conversation: &ConversationId) -> Key {
    Key::new(&[me.as_str(), "chunk", conversation.as_str()])
}

/// The token in the keys of checkpoints.
pub(crate) const CHECKPOINT: &str = "checkpoint";

/// Whether `key` is that of a checkpoint.
pub(crate) fn is_checkpoint(key: &Key) -> bool {
    let tokens = key.tokens();
    tokens.len() >= 2 && tokens[tokens.len() - 2] == CHECKPOINT
}

/// The row of an uploaded artifact: its readers (state).
pub fn artifact(me: &AgentId, digest: &Digest) -> Key {
    Key::new(&[me.as_str(), "artifact", &digest.to_string()])
}

/// The topics whose records may refer to content by digest.
pub const REFERRING: &[&str] = &["journal", "state", "task", "chunk", "award", "record", "dead", "cursor"];

/// The use of an uploaded artifact as input of a task (state).
pub fn reader(me: &AgentId, artifact: &Digest, task: &TaskId, owner: &Principal) -> Key {
    Key::new(&[me.as_str(), "reader", &artifact.to_string(), task.as_str(), &owner.to_string()])
}

/// A context (state): when it was last used, and what is kept of turns that are long ago.
pub fn context(me: &AgentId, name: &str) -> Key {
    Key::new(&[me.as_str(), "context", name])
}

/// A turn of a context (state), by its conversation.
pub fn context_turn(me: &AgentId, name: &str, conversation: &ConversationId) -> Key {
    Key::new(&[me.as_str(), "context-turn", name, conversation.as_str()])
}

/// The turns of a context, in the order in which they have ended.
pub fn context_turns(me: &AgentId, name: &str) -> Key {
    Key::new(&[me.as_str(), "context-turn", name])
}

/// What a conversation has used in an hour (state). The hour is like `2026-11-29T20`.
pub fn expense(me: &AgentId, hour: &str, conversation: &str) -> Key {
    let (month, rest) = hour.split_at_checked(MONTH_CHARACTERS).unwrap_or((hour, ""));
    Key::new(&[me.as_str(), EXPENSE, month, rest, conversation])
}

/// All expenses of a month, such as `2026-11`.
pub fn expenses(me: &AgentId, month: &str) -> Filter {
    Filter::Below(Key::new(&[me.as_str(), EXPENSE, month]))
}

/// The topic of expenses.
pub(crate) const EXPENSE: &str = "expense";

/// The characters of a month in the text of a time.
const MONTH_CHARACTERS: usize = 7;

/// With whom a context goes on, if that is another agent (state).
pub fn handover(me: &AgentId, name: &str) -> Key {
    Key::new(&[me.as_str(), "handover", name])
}

/// A schedule (state).
pub fn schedule(me: &AgentId, name: &str) -> Key {
    Key::new(&[me.as_str(), "schedule", name])
}

/// A webhook of a task (state).
pub fn webhook(me: &AgentId, task: &TaskId, owner: &Principal, id: &str) -> Key {
    Key::new(&[me.as_str(), "webhook", task.as_str(), &owner.to_string(), id])
}

/// All webhooks of a task.
pub fn webhooks(me: &AgentId, task: &TaskId, owner: &Principal) -> Filter {
    let of = Key::new(&[me.as_str(), "webhook", task.as_str(), &owner.to_string()]);
    Filter::Below(of)
}

/// All records of one topic.
pub fn all(me: &AgentId, topic: &str) -> Filter {
    Filter::Below(Key::new(&[me.as_str(), topic]))
}
