//! What an agent says of itself while it runs.

use crate::{
    agent::Agent,
    counts::{AgentCounts, Removed},
    records::keys,
};
use protocol::{
    ids::{AgentId, ConversationId, MessageId},
    principal::Principal,
};
use serde::Serialize;
use std::collections::BTreeMap;
use store_types::Revision;

/// What an agent is doing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSnapshot {
    /// Who.
    pub agent: AgentId,
    /// Open conversations by pattern.
    pub conversations: BTreeMap<&'static str, usize>,
    /// Tasks it is doing.
    pub running: u32,
    /// Turns being thought or waiting for a place.
    pub thinking: usize,
    /// Timers set.
    pub timers: usize,
    /// Messages on their way, by recipient.
    pub outbox: BTreeMap<AgentId, usize>,
    /// How far it has followed the board, if it subscribes to anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<Revision>,
    /// What it has done since it started.
    pub counts: AgentCounts,
    /// What it has deleted since it started.
    #[serde(rename = "swept")]
    pub removed: Removed,
    /// Conversations it can't go on with before its next start, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parked: BTreeMap<ConversationId, String>,
}

impl Agent {
    /// What it is doing.
    pub fn snapshot(&self) -> AgentSnapshot {
        let mut conversations = BTreeMap::new();
        for conversation in self.conversations.values() {
            *conversations.entry(conversation.pattern.name()).or_default() += 1;
        }
        AgentSnapshot {
            agent: self.me.clone(),
            conversations,
            running: self.running(),
            thinking: self.turns.len(),
            timers: self.timers.len(),
            outbox: self.deliveries.waiting(),
            followed: self.subscription.cursor(),
            counts: self.counts.clone(),
            removed: self.retention.removed(),
            parked: self.parked(),
        }
    }

    /// Whether a message of `by` is on its way into the store, under that name or under any.
    pub fn is_recording(&self, message: &MessageId, by: &Principal, sent_as: Option<&AgentId>) -> bool {
        match sent_as {
            Some(name) => self.in_flight.contains_key(&keys::receipt(&self.me, message, by, name)),
            None => {
                let all = keys::receipts(&self.me, message, by);
                self.in_flight.keys().any(|key| all.admits(key))
            }
        }
    }

    /// Whether every step is recorded and everything sent.
    pub fn is_idle(&self) -> bool {
        let is_recorded = self
            .conversations
            .values()
            .all(|conversation| !conversation.is_committing() && conversation.queue.is_empty());
        is_recorded && self.deliveries.is_empty()
    }

    /// Whether a conversation is open, or parked.
    pub fn has_open(&self, conversation: &ConversationId) -> bool {
        self.conversations.contains_key(conversation) || self.parked.has(conversation)
    }
}
