//! Search by capability, and the order of results.

use super::{AgentDirectory, TrackedAgent};
use crate::entry::{AgentEntry, AgentQuery, Presence, SearchOrder};
use protocol::{ids::AgentId, time::NodeTime};
use std::cmp::Ordering;

impl AgentDirectory {
    /// The agents that match `query`: alive before suspect before gone, those that accept work first, then by
    /// `query.prefer`, then by id.
    pub fn find(&self, query: &AgentQuery, now: NodeTime) -> Vec<AgentEntry> {
        let mut found: Vec<&TrackedAgent> = self
            .live_index
            .agents_with(&query.capabilities, query.matching)
            .into_iter()
            .filter_map(|id| self.agents.get(id))
            .collect();
        if query.include_dead {
            let gone = self.gone_index.agents_with(&query.capabilities, query.matching);
            found.extend(gone.into_iter().filter_map(|id| self.agents.get(id)));
        }
        found.sort_by(|a, b| compare(a, b, query.prefer));
        found.into_iter().map(|agent| agent.entry(now)).collect()
    }

    /// The entry of one agent in any state; `None` if it is unknown.
    pub fn get(&self, id: &AgentId, now: NodeTime) -> Option<AgentEntry> {
        self.agents.get(id).map(|agent| agent.entry(now))
    }
}

fn compare(a: &TrackedAgent, b: &TrackedAgent, prefer: SearchOrder) -> Ordering {
    let rank = |agent: &TrackedAgent| (agent.presence(), !agent.liveness.accepting);
    let load = || load(a).cmp(&load(b));
    let cost = || a.row.card.terms.cost.get().total_cmp(&b.row.card.terms.cost.get());
    let preferred = || match prefer {
        SearchOrder::None => Ordering::Equal,
        SearchOrder::LeastLoaded => load(),
        SearchOrder::Cheapest => cost().then_with(load),
    };
    let id = || a.row.card.agent_id.cmp(&b.row.card.agent_id);
    rank(a).cmp(&rank(b)).then_with(preferred).then_with(id)
}

/// Running tasks divided by `maxParallel`, in thousandths.
fn load(agent: &TrackedAgent) -> u64 {
    u64::from(agent.liveness.running) * 1_000 / u64::from(agent.row.card.terms.max_parallel.max(1))
}

impl TrackedAgent {
    pub(super) fn presence(&self) -> Presence {
        match &self.row.exit {
            Some(exit) => exit.presence,
            None if self.liveness.is_suspect => Presence::Suspect,
            None => Presence::Alive,
        }
    }

    pub(super) fn entry(&self, now: NodeTime) -> AgentEntry {
        AgentEntry {
            card: self.row.card.clone(),
            incarnation: self.row.incarnation,
            state: self.presence(),
            has_lapsed: self.row.exit.as_ref().is_some_and(|exit| exit.has_lapsed),
            running: self.liveness.running,
            accepting: self.liveness.accepting && self.row.exit.is_none(),
            sent: self.liveness.sent.clone(),
            last_seen_ms: u64::try_from(now.since(self.liveness.last_seen).as_millis()).unwrap_or(u64::MAX),
            key: None,
        }
    }
}
