//! The envelope of an outgoing message. It is built from the effect and the chunks that the effect names, so a repeat after
//! a crash has the same bytes.

use crate::{
    conversation::Conversation,
    records::{EffectKey, OpenEffect},
};
use patterns::{Effect, OutgoingMessage};
use protocol::{
    envelope::Envelope,
    ids::{AgentId, ConversationId, EffectId, ThreadId},
    time::WallTime,
};
use serde_json::Map;
use store_types::{Error, Snapshot};

/// The message an open effect sends, if it sends one.
pub(crate) fn of(
    me: &AgentId,
    conversation: &Conversation,
    key: EffectKey,
    open: &OpenEffect,
    store: &dyn Snapshot,
) -> Result<Option<Envelope>, Error> {
    match &open.effect {
        Effect::Send(message) => complete(me, conversation, key, message, open.at, store).map(Some),
        Effect::Resend { envelope, .. } => Ok(Some(envelope.as_ref().clone())),
        _ => Ok(None),
    }
}

/// The envelope of a message of `conversation` that was decided at `at`, with the chunks of artifacts that it names. It fails
/// if one of them is missing.
pub(crate) fn complete(
    me: &AgentId,
    conversation: &Conversation,
    key: EffectKey,
    message: &OutgoingMessage,
    at: WallTime,
    store: &dyn Snapshot,
) -> Result<Envelope, Error> {
    let mut envelope = envelope(me, &conversation.id, conversation.thread.clone(), key, message, at);
    envelope.space_id = match &conversation.task {
        Some(row) => row.task.spec.space.clone(),
        None => conversation.pattern.view().space.cloned(),
    };
    if let Some(recorded) = &message.recorded {
        let chunks = conversation.chunk_log(me).read_all(store, recorded.chunks)?;
        envelope.payload.add_chunks(chunks, &recorded.only);
    }
    Ok(envelope)
}

/// The envelope of a message decided at `at`. The message id is the effect id.
pub(crate) fn envelope(
    me: &AgentId,
    conversation: &ConversationId,
    thread: Option<ThreadId>,
    key: EffectKey,
    message: &OutgoingMessage,
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
        space_id: None,
        reply_conversation_id: Some(conversation.clone()),
        reply_to: None,
        expires_at: message.expires,
        path: message.path.clone(),
        extra: Map::new(),
    }
}
