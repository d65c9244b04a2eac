//! Offers of open tasks that have a conversation and no claim yet.

use crate::{AttemptId, conversation::Conversation};
use protocol::ids::ConversationId;
use std::collections::{BTreeSet, VecDeque};

/// How many offers may wait for a place; the next one waits on the board, and so do the signals behind it.
const MAX_WAITING: usize = 4_096;

#[derive(Default)]
pub(crate) struct Offers {
    /// The claim requests that wait for a place.
    waiting: VecDeque<AttemptId>,
    /// The conversations whose claim has been requested. Each takes a place.
    claiming: BTreeSet<ConversationId>,
}

impl Offers {
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }

    /// A claim request waits for a place.
    pub(crate) fn wait(&mut self, request: AttemptId) {
        self.waiting.push_back(request);
    }

    pub(crate) fn next_waiting(&mut self) -> Option<AttemptId> {
        self.waiting.pop_front()
    }

    /// The conversations whose claim has been requested.
    pub(crate) fn claiming(&self) -> impl Iterator<Item = &ConversationId> {
        self.claiming.iter()
    }

    /// Whether the claim of a conversation may be requested. If so, it takes a place.
    pub(crate) fn may_claim(&mut self, id: &ConversationId, has_place: bool) -> bool {
        let may = self.claiming.contains(id) || has_place;
        if may {
            self.claiming.insert(id.clone());
        }
        may
    }

    /// Gives the place of a conversation back unless its claim is still pending.
    pub(crate) fn note(&mut self, id: &ConversationId, conversation: Option<&Conversation>) {
        let task = conversation.and_then(|open| open.pattern.view().open_task);
        if !task.is_some_and(|task| task.is_pending) {
            self.claiming.remove(id);
        }
    }
}
