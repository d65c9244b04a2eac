//! Limits the joined and left signals of an agent that flaps: a few, then one when its state is stable. Watchers still
//! get every change; only the board, which stores each signal, gets fewer.

use super::{AgentDirectory, Departure, DirectoryChange, MembershipEvent};
use crate::entry::Presence;
use protocol::{ids::AgentId, time::NodeTime};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// The recent signals of each agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct FlapDamping(BTreeMap<AgentId, NotificationHistory>);

#[derive(Debug, Clone, PartialEq, Default)]
struct NotificationHistory {
    recent: VecDeque<NodeTime>,
    last: Option<MembershipEvent>,
    /// When an event was last suppressed; `None` if none is.
    suppressed_at: Option<NodeTime>,
}

impl NotificationHistory {
    /// The number of signals within `window`.
    fn recent_within(&self, window: Duration, now: NodeTime) -> usize {
        self.recent.iter().filter(|at| now.since(**at) < window).count()
    }
}

impl FlapDamping {
    /// The number of agents with a suppressed event.
    pub(super) fn count(&self) -> usize {
        self.0.values().filter(|history| history.suppressed_at.is_some()).count()
    }
}

impl AgentDirectory {
    /// Removes from `change` the events over the limit, and adds the state of agents that have settled. Takes effect when
    /// the change is applied.
    pub fn damp_flapping(&self, change: &mut DirectoryChange, now: NodeTime) {
        let window = Duration::from_millis(self.config.flap_window_ms);
        let limit = self.config.flap_limit.max(1);
        let mut passed: BTreeMap<AgentId, usize> = BTreeMap::new();
        let suppressed = &mut change.suppressed;
        change.events.retain(|event| {
            let id = event.id();
            let history = self.flapping.0.get(id);
            let recent = history.map_or(0, |history| history.recent_within(window, now));
            let passed = passed.entry(id.clone()).or_default();
            let is_suppressed = suppressed.contains(id)
                || history.is_some_and(|history| history.suppressed_at.is_some())
                || recent + *passed >= limit;
            if is_suppressed {
                suppressed.insert(id.clone());
            } else {
                *passed += 1;
            }
            !is_suppressed
        });
        for (id, event) in self.settled(now) {
            if change.suppressed.contains(&id) {
                continue;
            }
            let last = self.flapping.0.get(&id).and_then(|history| history.last.as_ref());
            change.events.extend(event.filter(|event| last != Some(event)));
            change.settled.push(id);
        }
    }

    /// Records the signals of a change that is applied, and those that it suppresses.
    pub(super) fn record_damping(&mut self, change: &DirectoryChange, now: NodeTime) {
        let flapping = &mut self.flapping.0;
        for id in &change.settled {
            if let Some(history) = flapping.get_mut(id) {
                history.suppressed_at = None;
            }
        }
        for event in &change.events {
            let history = flapping.entry(event.id().clone()).or_default();
            history.recent.push_back(now);
            history.last = Some(event.clone());
        }
        for id in &change.suppressed {
            flapping.entry(id.clone()).or_default().suppressed_at = Some(now);
        }
        let window = Duration::from_millis(self.config.flap_window_ms);
        for history in flapping.values_mut() {
            history.recent.retain(|at| now.since(*at) < window);
        }
        flapping.retain(|_, history| !history.recent.is_empty() || history.suppressed_at.is_some());
    }

    /// Whether a suppressed agent has settled, so that its state can be signalled.
    pub fn has_settled(&self, now: NodeTime) -> bool {
        !self.settled(now).is_empty()
    }

    /// Agents with a suppressed event and a stable state, with the event of that state.
    fn settled(&self, now: NodeTime) -> Vec<(AgentId, Option<MembershipEvent>)> {
        let calm = Duration::from_millis(self.config.flap_calm_ms);
        let due = self
            .flapping
            .0
            .iter()
            .filter(|(_, history)| history.suppressed_at.is_some_and(|at| now.since(at) >= calm));
        due.map(|(id, _)| (id.clone(), self.current_event(id))).collect()
    }

    fn current_event(&self, id: &AgentId) -> Option<MembershipEvent> {
        let row = &self.agents.get(id)?.row;
        Some(match row.exit.as_ref().map(|exit| exit.presence) {
            None => MembershipEvent::joined(row),
            Some(Presence::Dead) => MembershipEvent::left(row, Departure::Expired),
            Some(Presence::Departed | Presence::Alive | Presence::Suspect) => {
                MembershipEvent::left(row, Departure::Deregistered)
            }
        })
    }
}
