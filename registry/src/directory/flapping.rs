//! An agent that comes and goes all the time is told of a few times, and then once it has settled. Peers that watch see
//! every change; it is the board, which keeps what it hears, that is spared.

use super::{Change, Departure, Directory, Notice};
use crate::entry::Presence;
use protocol::{ids::AgentId, time::NodeTime};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// What was told of whom, as far as it matters for what may be told next.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Flapping(BTreeMap<AgentId, Told>);

#[derive(Debug, Clone, PartialEq, Default)]
struct Told {
    recent: VecDeque<NodeTime>,
    last: Option<Notice>,
    /// When something was last kept back, if anything is.
    kept_back: Option<NodeTime>,
}

impl Flapping {
    /// Of how many agents something is kept back.
    pub(super) fn count(&self) -> usize {
        self.0.values().filter(|told| told.kept_back.is_some()).count()
    }
}

impl Directory {
    /// Takes out of `change` what would be told too often, and adds what can be told of those who have settled.
    pub fn damp(&mut self, change: &mut Change, now: NodeTime) {
        let window = Duration::from_millis(self.config.flap_window_ms);
        for told in self.flapping.0.values_mut() {
            told.recent.retain(|at| now.since(*at) < window);
        }
        self.flapping.0.retain(|_, told| !told.recent.is_empty() || told.kept_back.is_some());
        let limit = self.config.flap_limit.max(1);
        let flapping = &mut self.flapping.0;
        change.notices.retain(|notice| {
            let told = flapping.entry(notice.id().clone()).or_default();
            if told.recent.len() >= limit || told.kept_back.is_some() {
                told.kept_back = Some(now);
                return false;
            }
            told.recent.push_back(now);
            told.last = Some(notice.clone());
            true
        });
        let settled = self.settled(now);
        for (id, notice) in settled {
            let Some(told) = self.flapping.0.get_mut(&id) else { continue };
            told.kept_back = None;
            if let Some(notice) = notice.filter(|notice| told.last.as_ref() != Some(notice)) {
                told.recent.push_back(now);
                told.last = Some(notice.clone());
                change.notices.push(notice);
            }
        }
    }

    /// Whether something that was kept back can be told by now.
    pub fn has_settled(&self, now: NodeTime) -> bool {
        !self.settled(now).is_empty()
    }

    /// Of whom something was kept back that has not changed for a while, and how they are.
    fn settled(&self, now: NodeTime) -> Vec<(AgentId, Option<Notice>)> {
        let calm = Duration::from_millis(self.config.flap_calm_ms);
        let due =
            self.flapping.0.iter().filter(|(_, told)| told.kept_back.is_some_and(|at| now.since(at) >= calm));
        due.map(|(id, _)| (id.clone(), self.standing(id))).collect()
    }

    fn standing(&self, id: &AgentId) -> Option<Notice> {
        let row = &self.known.get(id)?.row;
        Some(match row.gone.as_ref().map(|gone| gone.presence) {
            None => Notice::joined(row),
            Some(Presence::Dead) => Notice::left(row, Departure::Expired),
            Some(Presence::Departed | Presence::Alive | Presence::Suspect) => {
                Notice::left(row, Departure::Deregistered)
            }
        })
    }
}
