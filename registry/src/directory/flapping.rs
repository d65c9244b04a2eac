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

impl FlapDamping {
    /// The number of agents with a suppressed event.
    pub(super) fn count(&self) -> usize {
        self.0.values().filter(|history| history.suppressed_at.is_some()).count()
    }
}

impl AgentDirectory {
    /// Removes from `change` the events over the limit, and adds the state of agents that have settled.
    pub fn damp_flapping(&mut self, change: &mut DirectoryChange, now: NodeTime) {
        let window = Duration::from_millis(self.config.flap_window_ms);
        for history in self.flapping.0.values_mut() {
            history.recent.retain(|at| now.since(*at) < window);
        }
        self.flapping.0.retain(|_, history| !history.recent.is_empty() || history.suppressed_at.is_some());
        let limit = self.config.flap_limit.max(1);
        let flapping = &mut self.flapping.0;
        change.events.retain(|event| {
            let history = flapping.entry(event.id().clone()).or_default();
            if history.recent.len() >= limit || history.suppressed_at.is_some() {
                history.suppressed_at = Some(now);
                return false;
            }
            history.recent.push_back(now);
            history.last = Some(event.clone());
            true
        });
        let settled = self.settled(now);
        for (id, event) in settled {
            let Some(history) = self.flapping.0.get_mut(&id) else { continue };
            history.suppressed_at = None;
            if let Some(event) = event.filter(|event| history.last.as_ref() != Some(event)) {
                history.recent.push_back(now);
                history.last = Some(event.clone());
                change.events.push(event);
            }
        }
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
