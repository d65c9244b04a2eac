//! When the steps of conversations are decided, if not at once.

use protocol::ids::ConversationId;
use std::collections::BTreeSet;

#[derive(Default)]
pub(crate) struct StepSchedule {
    /// Whether more messages of a request follow.
    is_holding: bool,
    /// Conversations with messages that are decided once all messages of a request are there.
    held: BTreeSet<ConversationId>,
    /// Conversations with deferred events, which wait for the next step or flush.
    deferred: BTreeSet<ConversationId>,
}

impl StepSchedule {
    /// More messages of a request follow, or the last one is there.
    pub(crate) fn hold(&mut self, is_holding: bool) {
        self.is_holding = is_holding;
    }

    /// A message of a request waits in its conversation.
    pub(crate) fn add(&mut self, conversation: ConversationId) {
        self.held.insert(conversation);
    }

    /// The next conversation whose messages are all there.
    pub(crate) fn next(&mut self) -> Option<ConversationId> {
        if self.is_holding { None } else { self.held.pop_first() }
    }

    /// Events of a conversation wait for its next step. Returns whether they are the first: then a flush is to follow.
    pub(crate) fn defer(&mut self, conversation: ConversationId) -> bool {
        let is_first = self.deferred.is_empty();
        self.deferred.insert(conversation);
        is_first
    }

    /// The conversations whose deferred events are to be committed.
    pub(crate) fn take_deferred(&mut self) -> BTreeSet<ConversationId> {
        std::mem::take(&mut self.deferred)
    }
}
