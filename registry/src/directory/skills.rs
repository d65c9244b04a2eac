//! Which agents have a capability, without looking at all of them.

use crate::entry::Match;
use protocol::{
    card::Card,
    ids::{AgentId, Capability},
};
use std::collections::{BTreeMap, BTreeSet};

/// Agents by capability: skills and their tags.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Skills {
    agents: BTreeSet<AgentId>,
    by_capability: BTreeMap<Capability, BTreeSet<AgentId>>,
}

impl Skills {
    /// Adds the agent of `card`.
    pub(super) fn add(&mut self, card: &Card) {
        self.agents.insert(card.agent_id.clone());
        for capability in capabilities(card) {
            self.by_capability.entry(capability.clone()).or_default().insert(card.agent_id.clone());
        }
    }

    /// Removes it; `card` is the one it was added with.
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

    /// How many agents there are.
    pub(super) fn len(&self) -> usize {
        self.agents.len()
    }

    /// The agents with these capabilities, by id; with none named, every agent.
    pub(super) fn with(&self, wanted: &[Capability], matching: Match) -> BTreeSet<&AgentId> {
        if wanted.is_empty() {
            return self.agents.iter().collect();
        }
        let sets = wanted.iter().map(|capability| self.by_capability.get(capability));
        match matching {
            Match::Any => sets.flatten().flatten().collect(),
            Match::All => {
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
