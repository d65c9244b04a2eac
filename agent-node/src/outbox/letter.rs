//! A message as it leaves: made of the effect that decided it, so that a repeat after a crash is the same to the byte.

use crate::conversation::record::{Open, Place};
use protocol::{
    coordination::{Effect, Tell},
    envelope::Envelope,
    ids::{AgentId, ConversationId, EffectId, MessageId},
    time::WallTime,
    trace::TraceContext,
};
use serde_json::Map;

/// A message on its way.
#[derive(Debug, Clone)]
pub struct Letter {
    /// The conversation that decided it; none for an answer that nothing depends on.
    pub origin: Option<(ConversationId, Place)>,
    /// What its pattern calls it.
    pub label: String,
    /// The recipient.
    pub to: AgentId,
    /// The message.
    pub envelope: Envelope,
    /// Whether it is tried once only.
    pub best_effort: bool,
    /// The trace it belongs to.
    pub trace: Option<TraceContext>,
}

impl Letter {
    /// The task and the trace it belongs to, as logs name them.
    pub fn known(&self) -> (Option<String>, Option<String>) {
        let task = self.envelope.payload.task_id().map(ToString::to_string);
        (task, self.trace.as_ref().map(TraceContext::trace))
    }
}

/// The message an open effect sends, if it sends one.
pub fn of(me: &AgentId, conversation: &ConversationId, place: Place, open: &Open) -> Option<Envelope> {
    match &open.effect {
        Effect::Tell(tell) => Some(envelope(me, conversation, place, tell, open.at)),
        Effect::Resend(letter) => Some(letter.as_ref().clone()),
        Effect::Think { .. }
        | Effect::StopThinking
        | Effect::Publish { .. }
        | Effect::Claim { .. }
        | Effect::Release { .. }
        | Effect::ClaimOpen { .. }
        | Effect::RenewOpen { .. }
        | Effect::CloseOpen { .. }
        | Effect::ReleaseOpen { .. }
        | Effect::TakeOn { .. }
        | Effect::FindPeers { .. }
        | Effect::WakeAt { .. }
        | Effect::Forget { .. }
        | Effect::AskHuman { .. }
        | Effect::Update(_)
        | Effect::Assign { .. }
        | Effect::Finish(_) => None,
    }
}

/// The id of an effect's message.
pub fn message_id(me: &AgentId, conversation: &ConversationId, place: Place) -> MessageId {
    EffectId { agent: me.clone(), conversation: conversation.clone(), step: place.0, index: place.1 }
        .message_id()
}

/// The envelope of a `tell` that was decided at `at`.
pub fn envelope(
    me: &AgentId,
    conversation: &ConversationId,
    place: Place,
    tell: &Tell,
    at: WallTime,
) -> Envelope {
    Envelope {
        message_id: message_id(me, conversation, place),
        from_agent_id: me.clone(),
        to_agent_id: tell.to.clone(),
        payload: tell.payload.clone(),
        timestamp: Some(at),
        conversation_id: tell.conversation.clone(),
        in_reply_to: tell.in_reply_to.clone(),
        reply_conversation_id: Some(conversation.clone()),
        reply_to: None,
        expires_at: tell.expires,
        path: tell.path.clone(),
        extra: Map::new(),
    }
}
