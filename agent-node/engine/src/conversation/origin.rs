//! The origin of a conversation, recorded in its journal's first step. The exporter builds the spans from it.

use crate::replay_start::{ReplayStart, of_these_rules};
use patterns::AnyPattern;
use protocol::{
    envelope::Envelope,
    ids::{AgentId, Capability, ConversationId, MessageId, TaskId, ThreadId},
    message::MessageKind,
    principal::Principal,
    trace::{SpanName, TraceContext},
};
use serde::{Deserialize, Serialize};

/// What opened a conversation, and its trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The trace context. Its span is the parent of the first span here, or the first span itself if the trace begins here.
    pub trace: TraceContext,
    pub pattern: String,
    /// The pattern's state before its first event; a replay starts from it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "of_these_rules")]
    pub initial: Option<Box<ReplayStart>>,
    /// The message that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<OpeningMessage>,
    /// The signal that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<OpeningSignal>,
    /// The task it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The thread it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
}

/// The attributes of a received message that spans show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpeningMessage {
    pub id: MessageId,
    pub by: Principal,
    pub from: AgentId,
    pub kind: MessageKind,
}

/// The attributes of a signal that spans show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpeningSignal {
    pub id: String,
    /// The publisher's name for itself: a label.
    pub from: AgentId,
    /// The first publisher; `None` in a record of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
}

impl OpeningMessage {
    /// The attributes of `envelope`, sent by `by`.
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
    /// The origin of `conversation` without a task. `join` returns the trace context, given the id of the first span.
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
            initial: Some(ReplayStart::of(pattern)),
            message,
            signal: None,
            task: None,
            thread: None,
            capability: None,
        }
    }

    /// The parent of the first span; `None` if the trace begins here.
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
