//! How a conversation came to be, as its journal's first step keeps it: enough to tell its part of the trace later,
//! whoever reads the journal.

use protocol::{
    envelope::Envelope,
    ids::{AgentId, Capability, ConversationId, MessageId, TaskId, ThreadId},
    message::MessageKind,
    patterns::AnyPattern,
    principal::Principal,
    trace::{SpanName, TraceContext},
};
use serde::{Deserialize, Serialize};

/// What began a conversation, and the trace that it is a part of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The trace; its span is what the first span here hangs under, or that span itself if the trace begins here.
    pub trace: TraceContext,
    /// The pattern's name.
    pub pattern: String,
    /// The pattern's state before its first event: a replay begins with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<Box<AnyPattern>>,
    /// The message that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<OpeningMessage>,
    /// The signal that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<OpeningSignal>,
    /// The task it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The collaboration it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The ability that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
}

/// A message that came, as far as a trace tells of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpeningMessage {
    /// The message.
    pub id: MessageId,
    /// Who was proven to have sent it.
    pub by: Principal,
    /// What name the sender gave itself.
    pub from: AgentId,
    /// What kind it was.
    pub kind: MessageKind,
}

/// A signal that was reacted to, as far as a trace tells of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpeningSignal {
    /// Its id.
    pub id: String,
    /// Who published it first.
    pub from: AgentId,
}

impl OpeningMessage {
    /// What a trace tells of `envelope`, which `by` sent.
    pub fn of(envelope: &Envelope, by: &Principal) -> Self {
        Self {
            id: envelope.message_id.clone(),
            by: by.clone(),
            from: envelope.from_agent_id.clone(),
            kind: envelope.kind(),
        }
    }
}

impl Origin {
    /// The origin of `conversation` without a task. `join` makes the trace, given the name of the first span.
    pub fn new(
        me: &AgentId,
        conversation: &ConversationId,
        pattern: &AnyPattern,
        message: Option<OpeningMessage>,
        join: impl FnOnce(u64) -> TraceContext,
    ) -> Self {
        let first = first_span(me, conversation, message.is_some());
        Self {
            trace: join(first),
            pattern: pattern.name().to_owned(),
            initial: Some(Box::new(pattern.clone())),
            message,
            signal: None,
            task: None,
            thread: None,
            capability: None,
        }
    }

    /// The span that all this hangs under; none if the trace begins here.
    pub fn parent(&self, me: &AgentId, conversation: &ConversationId) -> Option<u64> {
        let first = first_span(me, conversation, self.message.is_some());
        (self.trace.span_id != first).then_some(self.trace.span_id)
    }
}

fn first_span(me: &AgentId, conversation: &ConversationId, comes_with_message: bool) -> u64 {
    match comes_with_message {
        true => SpanName::Opening(me, conversation).id(),
        false => SpanName::Conversation(me, conversation).id(),
    }
}
