//! An index of agents by capability.

use crate::entry::CapabilityMatch;
use protocol::{
    card::Card,
    ids::{AgentId, Capability},
};
use std::collections::{BTreeMap, BTreeSet};

/// Agents by skill id and by skill tag.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CapabilityIndex {
    agents: BTreeSet<AgentId>,
    by_capability: BTreeMap<Capability, BTreeSet<AgentId>>,
}

impl CapabilityIndex {
    /// Adds the agent of `card`.
    pub(super) fn add(&mut self, card: &Card) {
        self.agents.insert(card.agent_id.clone());
        for capability in capabilities(card) {
            self.by_capability.entry(capability.clone()).or_default().insert(card.agent_id.clone());
        }
    }

    /// Removes the agent of `card`, which must be the card it was added with.
    pub(super) fn remove(&mut self, card: &Card) {
        self.agents.remove(&card.agent_id);
        for capability in capabilities(card) {
            if let Some(agents) = self.by_capability.get_mut(capability) {
                agents.remove(&card.agent_id);
                if agents.is_empty() {
                    self.by_capability.remove(capability);
                }
            }
        }
    }

    /// The number of agents.
    pub(super) fn len(&self) -> usize {
        self.agents.len()
    }

    /// The agents that match `wanted`, by id; every agent if `wanted` is empty.
    pub(super) fn agents_with(&self, wanted: &[Capability], matching: CapabilityMatch) -> BTreeSet<&AgentId> {
        if wanted.is_empty() {
            return self.agents.iter().collect();
        }
        let sets = wanted.iter().map(|capability| self.by_capability.get(capability));
        match matching {
            CapabilityMatch::Any => sets.flatten().flatten().collect(),
            CapabilityMatch::All => {
                let Some(mut sets) = sets.collect::<Option<Vec<_>>>() else { return BTreeSet::new() };
                sets.sort_by_key(|set| set.len());
                let Some((smallest, others)) = sets.split_first() else { return BTreeSet::new() };
                smallest.iter().filter(|id| others.iter().all(|set| set.contains(*id))).collect()
            }
        }
    }
}

fn capabilities(card: &Card) -> impl Iterator<Item = &Capability> {
    card.skills.iter().flat_map(|skill| std::iter::once(&skill.id).chain(&skill.tags))
}
