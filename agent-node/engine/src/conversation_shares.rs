//! How many conversations an agent may have open, and each principal's share of them.
//!
//! A principal may have as many open as there are places left: half of them if nobody else has any, a third each if two do, and
//! so on. So there is always a place for another one (the dynamic thresholds of Choudhury and Hahne, 1998).

use crate::{agent::Agent, conversation::Conversation};
use protocol::{
    ids::ConversationId,
    principal::Principal,
    problem::{Problem, Reason},
};
use std::collections::BTreeMap;

/// The number of open conversations of each principal. Those that signals have opened count together.
#[derive(Debug, Default)]
pub(crate) struct ConversationShares(BTreeMap<Option<Principal>, usize>);

impl Agent {
    /// Fails if no conversation may be opened, or none for `principal`. What this agent sends to itself belongs to a task that has
    /// its place already, so it needs no share.
    pub(crate) fn check_room(&self, principal: Option<&Principal>) -> Result<(), Problem> {
        let limit = self.config.limits.max_open_conversations;
        let free = limit.saturating_sub(self.conversations.len());
        let refused = |message: String| Err(Problem::new(Reason::Overloaded, message).with("limit", limit));
        if free == 0 {
            return refused(format!(
                "{limit} conversations are open, which is the limit (maxOpenConversations)"
            ));
        }
        match principal.map(|principal| (principal, self.open_of(Some(principal)))) {
            Some((principal, open)) if open >= free => refused(format!(
                "{principal} has {open} conversations open, and {free} of {limit} (maxOpenConversations) are left: one caller may \
                 have as many as are left"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a signal may open a conversation.
    pub(crate) fn has_room_for_signal(&self) -> bool {
        let free = self.config.limits.max_open_conversations.saturating_sub(self.conversations.len());
        self.open_of(None) < free
    }

    fn open_of(&self, principal: Option<&Principal>) -> usize {
        let ConversationShares(open) = &self.shares;
        open.get(&principal.cloned()).copied().unwrap_or_default()
    }

    /// Keeps an open conversation in memory.
    pub(crate) fn insert_open(&mut self, id: ConversationId, conversation: Conversation) {
        *self.shares.0.entry(conversation.principal.clone()).or_default() += 1;
        self.conversations.insert(id, Box::new(conversation));
    }

    /// Removes an open conversation from memory.
    pub(crate) fn take_open(&mut self, id: &ConversationId) -> Option<Conversation> {
        let conversation = *self.conversations.remove(id)?;
        if let Some(open) = self.shares.0.get_mut(&conversation.principal) {
            *open -= 1;
            if *open == 0 {
                self.shares.0.remove(&conversation.principal);
            }
        }
        Some(conversation)
    }
}
