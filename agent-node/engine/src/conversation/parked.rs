//! The conversations that are parked until the next start.

use protocol::ids::ConversationId;
use std::collections::BTreeMap;
use store_types::Revision;

/// The parked conversations: where the journal of each begins, and why it is parked.
#[derive(Default)]
pub(crate) struct ParkedConversations(pub(crate) BTreeMap<ConversationId, (Revision, String)>);

impl ParkedConversations {
    pub(crate) fn has(&self, id: &ConversationId) -> bool {
        self.0.contains_key(id)
    }

    /// Where their journals begin.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = Revision> + '_ {
        self.0.values().map(|(first, _)| *first)
    }
}
