//! Who is found, in which order.

use super::{Directory, Known};
use crate::entry::{Entry, Prefer, Presence, Query};
use protocol::{ids::AgentId, time::NodeTime};
use std::cmp::Ordering;

impl Directory {
    /// The agents that `query` asks for: alive before suspect before gone, those that accept work before those that
    /// don't, then by preference, then by id.
    pub fn find(&self, query: &Query, now: NodeTime) -> Vec<Entry> {
        let mut found: Vec<&Known> = self
            .live
            .with(&query.capabilities, query.matching)
            .into_iter()
            .filter_map(|id| self.known.get(id))
            .collect();
        if query.include_dead {
            let gone = self.gone.with(&query.capabilities, query.matching);
            found.extend(gone.into_iter().filter_map(|id| self.known.get(id)));
        }
        found.sort_by(|a, b| order(a, b, query.prefer));
        found.into_iter().map(|known| known.entry(now)).collect()
    }

    /// What is known of one agent, gone or not.
    pub fn look(&self, id: &AgentId, now: NodeTime) -> Option<Entry> {
        self.known.get(id).map(|known| known.entry(now))
    }
}

fn order(a: &Known, b: &Known, prefer: Prefer) -> Ordering {
    let rank = |known: &Known| (known.presence(), !known.pulse.accepting);
    let load = || load(a).cmp(&load(b));
    let cost = || a.row.card.terms.cost.get().total_cmp(&b.row.card.terms.cost.get());
    let preferred = || match prefer {
        Prefer::None => Ordering::Equal,
        Prefer::LeastLoaded => load(),
        Prefer::Cheapest => cost().then_with(load),
    };
    let id = || a.row.card.agent_id.cmp(&b.row.card.agent_id);
    rank(a).cmp(&rank(b)).then_with(preferred).then_with(id)
}

/// Tasks per place, in thousandths.
fn load(known: &Known) -> u64 {
    u64::from(known.pulse.running) * 1_000 / u64::from(known.row.card.terms.max_parallel.max(1))
}

impl Known {
    pub(super) fn presence(&self) -> Presence {
        match &self.row.gone {
            Some(gone) => gone.presence,
            None if self.pulse.suspect => Presence::Suspect,
            None => Presence::Alive,
        }
    }

    pub(super) fn entry(&self, now: NodeTime) -> Entry {
        Entry {
            card: self.row.card.clone(),
            incarnation: self.row.incarnation,
            state: self.presence(),
            running: self.pulse.running,
            accepting: self.pulse.accepting && self.row.gone.is_none(),
            last_seen_ms: u64::try_from(now.since(self.pulse.seen).as_millis()).unwrap_or(u64::MAX),
        }
    }
}
