//! The conversations that are parked until the next start.

use protocol::{
    ids::{ConversationId, TaskId},
    principal::Principal,
};
use std::collections::BTreeMap;

/// The task of a conversation and the task's owner, as far as its records tell.
pub(crate) type RecordedTask = Option<(TaskId, Principal)>;

/// The parked conversations, and why each is parked.
#[derive(Default)]
pub(crate) struct ParkedConversations(pub(crate) BTreeMap<ConversationId, String>);

impl ParkedConversations {
    pub(crate) fn has(&self, id: &ConversationId) -> bool {
        self.0.contains_key(id)
    }
}
