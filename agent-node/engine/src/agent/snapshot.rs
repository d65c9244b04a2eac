//! The observable state of an agent.

use crate::{
    agent::Agent,
    conversation::Conversation,
    counts::{AgentCounts, Removed},
    records::keys,
};
use patterns::{
    AnyPattern,
    session::{host_work::HOST_WORK, seat},
};
use protocol::{
    ids::{AgentId, ConversationId, MessageId},
    principal::{Principal, TaskRoot},
    spaces::{brief::BriefLayer, request::SessionScope},
    task::TaskSpec,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use store_types::{Filter, Revision};

/// The state of an agent, for `/state` and tests.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSnapshot {
    pub agent: AgentId,
    /// The number of open conversations, by pattern.
    pub conversations: BTreeMap<&'static str, usize>,
    /// The number of running tasks.
    pub running: u32,
    /// The number of brain turns that run or wait for a free slot.
    pub thinking: usize,
    /// The number of timers that are set.
    pub timers: usize,
    /// The number of undelivered messages, by recipient.
    pub outbox: BTreeMap<AgentId, usize>,
    /// The cursor of its subscription to the blackboard, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<Revision>,
    /// The generation of the blackboard to which this cursor belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board_generation: Option<String>,
    /// The number of offers that wait for a place.
    pub waiting_offers: usize,
    /// Counters since its start.
    pub counts: AgentCounts,
    /// What its retention sweeps have deleted since its start.
    #[serde(rename = "swept")]
    pub removed: Removed,
    /// Conversations that are parked until the next start, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parked: BTreeMap<ConversationId, String>,
}

/// What the brain of an agent may read of a space while its turns run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadableLayers {
    /// What it may read beside decisions; `None` for all.
    pub layers: Option<Vec<BriefLayer>>,
    /// Whose findings it sees.
    pub scope: SessionScope,
    /// The principals for whom its turns work.
    pub roots: BTreeSet<TaskRoot>,
}

impl Agent {
    /// A snapshot of its state.
    pub fn snapshot(&self) -> AgentSnapshot {
        let mut conversations = BTreeMap::new();
        for conversation in self.conversations.iter() {
            *conversations.entry(conversation.pattern.name()).or_default() += 1;
        }
        AgentSnapshot {
            agent: self.me.clone(),
            conversations,
            running: self.running(),
            thinking: self.turns.len(),
            timers: self.timers.len(),
            outbox: self.deliveries.waiting(),
            followed: self.subscription.cursor().map(|cursor| cursor.revision),
            board_generation: self.subscription.cursor().and_then(|cursor| cursor.generation.clone()),
            waiting_offers: self.offers.waiting(),
            counts: self.counts.clone(),
            removed: self.retention.removed(),
            parked: self.parked().map(|(id, why)| (id.clone(), why.clone())).collect(),
        }
    }

    /// What its brain may read of a space while it has turns: as a seat what the strictest of them may, and the findings of their session,
    /// if they agree on one. The turns that a host does itself are none of its brain.
    pub fn readable_layers(&self) -> ReadableLayers {
        let does_turn = |conversation: &&Conversation| {
            conversation.ended.is_none() && matches!(conversation.pattern, AnyPattern::Doing(_))
        };
        let running = self.turns.running().filter_map(|id| self.conversations.get(id));
        let roots = running.filter_map(Conversation::root).collect();
        let specs = self.conversations.iter().filter(does_turn).filter_map(|conversation| {
            let spec = &conversation.task.as_ref()?.task.spec;
            let is_host_work = spec.capability.as_ref().is_some_and(|wanted| wanted.as_str() == HOST_WORK);
            (!is_host_work).then_some(spec)
        });
        let specs: Vec<_> = specs.collect();
        let layers = specs.iter().filter_map(|spec| seat::readable_layers(spec.input.as_ref()));
        let layers = layers.reduce(|mut all, layers| {
            all.retain(|layer| layers.contains(layer));
            all
        });
        let scope_of = |spec: &TaskSpec| seat::scope(seat::session_of_findings(spec), spec.input.as_ref());
        let first = specs.first().map(|spec| scope_of(spec));
        let scope = first.filter(|first| specs.iter().all(|spec| scope_of(spec) == *first));
        ReadableLayers { layers, scope: scope.unwrap_or_default(), roots }
    }

    /// Whether a commit that records this message of `by` is under way. With `sent_as`, only a message whose `fromAgentId` is
    /// `sent_as` counts.
    pub fn is_recording(&self, message: &MessageId, by: &Principal, sent_as: Option<&AgentId>) -> bool {
        let receipts = match sent_as {
            Some(from) => Filter::Exactly(keys::receipt(&self.me, message, by, from)),
            None => keys::receipts(&self.me, message, by),
        };
        self.admission.is_recording(&receipts)
    }

    /// Whether every event is handled and recorded, and every message is delivered or given up.
    pub fn is_idle(&self) -> bool {
        let mut open = self.conversations.iter();
        let is_recorded =
            open.all(|conversation| !conversation.is_committing() && conversation.queue.is_empty());
        is_recorded && self.deliveries.is_empty()
    }

    /// Whether a conversation is open, or parked.
    pub fn has_open(&self, conversation: &ConversationId) -> bool {
        self.conversations.has(conversation)
    }
}
