//! Who is there: a pure table. Time is an argument; a decision is a value that is applied once it is durable.

mod change;
mod expiry;
mod flapping;
#[cfg(test)]
pub(crate) mod samples;
mod search;
mod skills;
mod suspicion;
#[cfg(test)]
mod tests;

pub use change::{Admitted, Change, Departure, Figures, Gone, Notice, Refused, Row};
pub use expiry::Swept;

use crate::{
    config::Config,
    entry::{Heartbeat, Presence},
};
use expiry::Expiry;
use flapping::Flapping;
use protocol::{card::Card, ids::AgentId, time::NodeTime};
use skills::Skills;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use suspicion::Suspicion;

/// How many former processes of an agent are remembered, so that a late repeat of theirs is recognised.
const SUPERSEDED: usize = 8;

/// What is known only while the registry runs.
#[derive(Debug, Clone, PartialEq)]
struct Pulse {
    seen: NodeTime,
    suspect: bool,
    running: u32,
    accepting: bool,
}

impl Pulse {
    fn new(now: NodeTime) -> Self {
        Self { seen: now, suspect: false, running: 0, accepting: true }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Known {
    row: Row,
    pulse: Pulse,
}

/// The table.
#[derive(Debug, Clone, PartialEq)]
pub struct Directory {
    config: Config,
    known: BTreeMap<AgentId, Known>,
    live: Skills,
    gone: Skills,
    floor: u64,
    expiry: Expiry,
    flapping: Flapping,
    suspicion: Suspicion,
}

impl Directory {
    /// The table as it was stored: everybody who was there gets a full lease from `now`.
    pub fn new(config: Config, rows: impl IntoIterator<Item = Row>, floor: u64, now: NodeTime) -> Self {
        let expiry = Expiry { recent: VecDeque::new(), grace_until: now, swept: now, preserving: false };
        let (live, gone) = (Skills::default(), Skills::default());
        let (flapping, suspicion) = Default::default();
        let known = BTreeMap::new();
        let mut directory = Self { config, known, live, gone, floor, expiry, flapping, suspicion };
        for mut row in rows {
            if let Some(gone) = &mut row.gone {
                gone.at = gone.at.min(now);
            }
            directory.write(row, Pulse::new(now));
        }
        if directory.live.len() > 0 {
            directory.extend_all(now);
        }
        directory
    }

    /// Whether `card`'s agent may register as the process `instance`, and what that changes.
    pub fn register(&self, card: Arc<Card>, instance: &str) -> Result<Admitted, Refused> {
        let id = card.agent_id.clone();
        let Some(Known { row, .. }) = self.known.get(&id) else { return self.first(card, instance) };
        if row.superseded.iter().any(|old| old == instance) {
            return Err(Refused::Stale { id, current: row.incarnation });
        }
        let mut change = Change { floor: self.floor, ..Change::default() };
        if row.gone.is_none() && row.instance == instance {
            let incarnation = row.incarnation;
            if row.card == card {
                return Ok(Admitted { incarnation, change: None });
            }
            change.written.push(Row { card, ..row.clone() });
            return Ok(Admitted { incarnation, change: Some(change) });
        }
        if row.gone.is_none() {
            change.notices.push(Notice::left(row, Departure::Superseded));
        }
        let incarnation = row.incarnation.max(self.floor) + 1;
        let mut superseded = row.superseded.clone();
        if row.instance != instance {
            superseded.push_back(row.instance.clone());
            superseded.drain(..superseded.len().saturating_sub(SUPERSEDED));
        }
        let row = Row { card, instance: instance.to_owned(), superseded, incarnation, gone: None };
        change.notices.push(Notice::joined(&row));
        change.written.push(row);
        Ok(Admitted { incarnation, change: Some(change) })
    }

    fn first(&self, card: Arc<Card>, instance: &str) -> Result<Admitted, Refused> {
        let mut forgotten = Vec::new();
        if self.known.len() >= self.config.max_agents {
            let gone =
                self.known.values().filter_map(|k| Some((k.row.gone.as_ref()?.at, &k.row.card.agent_id)));
            let (_, oldest) = gone.min().ok_or(Refused::Full(self.config.max_agents))?;
            forgotten.push(oldest.clone());
        }
        let floor = self.floor_without(&forgotten);
        let (instance, incarnation) = (instance.to_owned(), floor + 1);
        let row = Row { card, instance, superseded: VecDeque::new(), incarnation, gone: None };
        let notices = vec![Notice::joined(&row)];
        Ok(Admitted { incarnation, change: Some(Change { written: vec![row], forgotten, floor, notices }) })
    }

    /// Renews a lease. Whether anything but the time changed for those who watch.
    pub fn heartbeat(&mut self, id: &AgentId, beat: Heartbeat, now: NodeTime) -> Result<bool, Refused> {
        let row = self.speaking(id, beat.incarnation)?;
        if row.gone.is_some() {
            return Err(Refused::Unknown(id.clone()));
        }
        let Some(Known { pulse, .. }) = self.known.get_mut(id) else { return Ok(false) };
        let before = (pulse.suspect, pulse.running, pulse.accepting);
        let Heartbeat { running, accepting, .. } = beat;
        *pulse = Pulse { seen: pulse.seen.max(now), suspect: false, running, accepting };
        Ok(before != (false, running, accepting))
    }

    /// Whether that life of the agent may leave, and what that changes; nothing if it has left before.
    pub fn deregister(
        &self,
        id: &AgentId,
        incarnation: u64,
        why: Departure,
        now: NodeTime,
    ) -> Result<Option<Change>, Refused> {
        let row = self.speaking(id, incarnation)?;
        if row.gone.is_some() {
            return Ok(None);
        }
        let gone = Some(Gone { presence: Presence::Departed, at: now });
        let notices = vec![Notice::left(row, why)];
        let written = vec![Row { gone, ..row.clone() }];
        Ok(Some(Change { written, notices, floor: self.floor, ..Change::default() }))
    }

    /// Puts a decision in force; whom it changed. The decision must be the latest one that was taken.
    pub fn apply(&mut self, change: Change, now: NodeTime) -> Vec<AgentId> {
        self.floor = self.floor.max(change.floor);
        for id in &change.forgotten {
            if let Some(known) = self.known.remove(id) {
                self.gone.remove(&known.row.card);
            }
        }
        let mut changed = Vec::new();
        for row in change.written {
            let pulse = match self.known.get(&row.card.agent_id) {
                Some(known) if known.row.incarnation == row.incarnation && row.gone.is_none() => {
                    Pulse { seen: known.pulse.seen.max(now), suspect: false, ..known.pulse.clone() }
                }
                Some(known) if row.gone.is_some() => Pulse { running: 0, ..known.pulse.clone() },
                Some(_) | None => Pulse::new(now),
            };
            if row.gone.as_ref().is_some_and(|gone| gone.presence == Presence::Dead) {
                self.expiry.recent.push_back(now);
            }
            changed.push(row.card.agent_id.clone());
            self.write(row, pulse);
        }
        changed
    }

    /// How many more agents fit without one having to go for them.
    pub fn room(&self) -> usize {
        self.config.max_agents.saturating_sub(self.known.len())
    }

    /// Counts and flags for those who look at the registry.
    pub fn figures(&self) -> Figures {
        let suspect = self.known.values().filter(|known| known.presence() == Presence::Suspect).count();
        let (live, gone) = (self.live.len(), self.gone.len());
        let (flapping, self_preserving) = (self.flapping.count(), self.expiry.preserving);
        Figures { alive: live - suspect, suspect, gone, flapping, self_preserving }
    }

    /// The row that `incarnation` of `id` may speak for.
    fn speaking(&self, id: &AgentId, incarnation: u64) -> Result<&Row, Refused> {
        let row = self.known.get(id).map(|known| &known.row);
        match row {
            Some(row) if row.incarnation == incarnation => Ok(row),
            Some(row) if row.incarnation > incarnation => {
                Err(Refused::Stale { id: id.clone(), current: row.incarnation })
            }
            Some(_) | None => Err(Refused::Unknown(id.clone())),
        }
    }

    fn floor_without(&self, forgotten: &[AgentId]) -> u64 {
        let incarnations = forgotten.iter().filter_map(|id| Some(self.known.get(id)?.row.incarnation));
        incarnations.fold(self.floor, u64::max)
    }

    fn write(&mut self, row: Row, pulse: Pulse) {
        let id = row.card.agent_id.clone();
        if let Some(old) = self.known.remove(&id) {
            let index = if old.row.gone.is_some() { &mut self.gone } else { &mut self.live };
            index.remove(&old.row.card);
        }
        let index = if row.gone.is_some() { &mut self.gone } else { &mut self.live };
        index.add(&row.card);
        self.known.insert(id, Known { row, pulse });
    }
}
