//! The envelope of an outgoing message. It is built from the effect only, so a repeat after a crash has the same bytes.

use crate::{
    conversation::Conversation,
    records::{EffectKey, OpenEffect},
};
use protocol::{
    envelope::Envelope,
    ids::{AgentId, ConversationId, EffectId, ThreadId},
    patterns::{Effect, OutgoingMessage},
    time::WallTime,
};
use serde_json::Map;

/// The message an open effect sends, if it sends one.
#[expect(clippy::wildcard_enum_match_arm, reason = "only these send messages")]
pub(crate) fn of(
    me: &AgentId,
    conversation: &Conversation,
    key: EffectKey,
    open: &OpenEffect,
) -> Option<Envelope> {
    match &open.effect {
        Effect::Send(message) => {
            Some(envelope(me, &conversation.id, conversation.thread.clone(), key, message, open.at))
        }
        Effect::Resend { envelope, .. } => Some(envelope.as_ref().clone()),
        _ => None,
    }
}

/// The envelope of a message decided at `at`. The message id is the effect id.
pub(crate) fn envelope<L>(
    me: &AgentId,
    conversation: &ConversationId,
    thread: Option<ThreadId>,
    key: EffectKey,
    message: &OutgoingMessage<L>,
    at: WallTime,
) -> Envelope {
    let id = EffectId { agent: me.clone(), conversation: conversation.clone(), step: key.0, index: key.1 };
    Envelope {
        message_id: id.message_id(),
        from_agent_id: me.clone(),
        to_agent_id: message.to.clone(),
        payload: message.payload.clone(),
        timestamp: Some(at),
        conversation_id: message.conversation.clone(),
        in_reply_to: message.in_reply_to.clone(),
        thread_id: thread,
        reply_conversation_id: Some(conversation.clone()),
        reply_to: None,
        expires_at: message.expires,
        path: message.path.clone(),
        extra: Map::new(),
    }
}
