//! Events that the agent produced itself, on their way to their conversations.

use crate::records::EffectKey;
use patterns::EventKind;
use protocol::ids::ConversationId;
use std::collections::VecDeque;

/// An event of a conversation that the agent produced itself, and the effect whose result it is.
pub(crate) struct InternalEvent {
    pub(crate) conversation: ConversationId,
    pub(crate) closes: Option<EffectKey>,
    pub(crate) what: EventKind,
}

/// The events that are handled before the current call of the agent returns.
#[derive(Default)]
pub(crate) struct InternalEvents(VecDeque<InternalEvent>);

impl InternalEvents {
    pub(crate) fn push(&mut self, conversation: &ConversationId, closes: Option<EffectKey>, what: EventKind) {
        self.0.push_back(InternalEvent { conversation: conversation.clone(), closes, what });
    }

    pub(crate) fn pop(&mut self) -> Option<InternalEvent> {
        self.0.pop_front()
    }
}
