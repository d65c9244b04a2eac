//! Decides which records are old enough to be deleted.

use crate::{
    content,
    faults::{self, PlantedFault},
    records::{TaskRow, keys},
    retention::state::PAGE,
};
use protocol::{ids::AgentId, limits::Limits, time::WallTime};
use store_types::{Error, Key, Snapshot, Write};

/// A topic whose records are deleted by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepTopic {
    Receipt,
    Reaction,
    Tombstone,
    DeadLetter,
    Task,
}

impl SweepTopic {
    /// The token of the topic in the keys of its records.
    pub(crate) fn token(self) -> &'static str {
        match self {
            Self::Receipt => "receipt",
            Self::Reaction => "reaction",
            Self::Tombstone => "tombstone",
            Self::DeadLetter => "dead",
            Self::Task => "task",
        }
    }
}

/// The age check of records: the store, the retention times and the wall time that it compares with.
pub(crate) struct Sweeper<'a> {
    pub(crate) store: &'a dyn Snapshot,
    pub(crate) me: &'a AgentId,
    pub(crate) limits: &'a Limits,
    pub(crate) wall: WallTime,
}

impl Sweeper<'_> {
    /// Whether `at` is at least `keep_ms` milliseconds ago.
    pub(crate) fn is_past(&self, at: WallTime, keep_ms: u64) -> bool {
        at <= self.until(keep_ms)
    }

    /// The time of `keep_ms` milliseconds ago.
    pub(crate) fn until(&self, keep_ms: u64) -> WallTime {
        WallTime(self.wall.0.saturating_sub(i64::try_from(keep_ms).unwrap_or(i64::MAX)))
    }

    /// How long records of a topic are kept, milliseconds.
    pub(crate) fn keep_ms(&self, topic: SweepTopic) -> u64 {
        match topic {
            SweepTopic::Receipt if faults::is_planted(PlantedFault::ShortDedup) => 1_000,
            SweepTopic::Receipt | SweepTopic::Tombstone => self.limits.dedup_ms,
            SweepTopic::Reaction => self.limits.keep_journals_ms,
            SweepTopic::DeadLetter | SweepTopic::Task => self.limits.keep_tasks_ms,
        }
    }

    /// Adds the deletion of a record, and of the records that belong to it.
    pub(crate) fn delete(&self, topic: SweepTopic, key: Key, writes: &mut Vec<Write>) -> Result<(), Error> {
        if topic == SweepTopic::Task
            && let Some(record) = self.store.latest(&key)?
        {
            let me = self.me;
            let row: TaskRow = content::decode(me, self.store, &record.value)?;
            writes.push(Write::Delete(keys::award(me, &row.task.conversation)));
            let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
            let delete_reader = |digest| Write::Delete(keys::reader(me, digest, task, owner));
            writes.extend(row.references.iter().map(delete_reader));
            let webhooks = self.store.keys(&keys::webhooks(me, task, owner), 0, PAGE)?;
            writes.extend(webhooks.into_iter().map(|(_, key)| Write::Delete(key)));
        }
        writes.push(Write::Delete(key));
        Ok(())
    }
}
