//! The conversations that are parked until the next start.

use protocol::{
    ids::{ConversationId, TaskId},
    principal::Principal,
};
use std::collections::BTreeMap;
use store_types::Revision;

/// Where the records of a conversation are.
#[derive(Default)]
pub(crate) struct JournalAndTask {
    /// The revision of the journal's first record, or of a damaged one; records from there on are not trimmed.
    pub(crate) first: Revision,
    /// Its task and the task's owner.
    pub(crate) task: Option<(TaskId, Principal)>,
}

/// The parked conversations: the first revision of each journal, and why it is parked.
#[derive(Default)]
pub(crate) struct ParkedConversations(pub(crate) BTreeMap<ConversationId, (Revision, String)>);

impl ParkedConversations {
    pub(crate) fn has(&self, id: &ConversationId) -> bool {
        self.0.contains_key(id)
    }

    /// The first revisions of their journals.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = Revision> + '_ {
        self.0.values().map(|(first, _)| *first)
    }
}
