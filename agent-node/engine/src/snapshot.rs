//! The observable state of an agent.

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

/// The state of an agent, for `/state` and tests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSnapshot {
    /// Its id.
    pub agent: AgentId,
    /// Open conversations by pattern.
    pub conversations: BTreeMap<&'static str, usize>,
    /// The number of running tasks.
    pub running: u32,
    /// Turns that run or wait.
    pub thinking: usize,
    /// Timers set.
    pub timers: usize,
    /// Queued messages, by recipient.
    pub outbox: BTreeMap<AgentId, usize>,
    /// The board cursor, if it subscribes to signals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<Revision>,
    /// Counters since its start.
    pub counts: AgentCounts,
    /// Deleted records since its start.
    #[serde(rename = "swept")]
    pub removed: Removed,
    /// Conversations that are parked until the next start, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parked: BTreeMap<ConversationId, String>,
}

impl Agent {
    /// A snapshot of its state.
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
            parked: self.parked().map(|(id, why)| (id.clone(), why.clone())).collect(),
        }
    }

    /// Whether a message of `by` is being recorded, under the name `sent_as` or any.
    pub fn is_recording(&self, message: &MessageId, by: &Principal, sent_as: Option<&AgentId>) -> bool {
        match sent_as {
            Some(name) => self.in_flight.contains_key(&keys::receipt(&self.me, message, by, name)),
            None => {
                let all = keys::receipts(&self.me, message, by);
                self.in_flight.keys().any(|key| all.admits(key))
            }
        }
    }

    /// Whether every step is recorded and every message delivered or given up.
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
