//! Decides which records are old enough to be deleted.

use crate::{
    content,
    faults::{self, PlantedFault},
    records::{DeadLetter, ReactionReceipt, Receipt, TaskRow, Tombstone, keys},
    retention::state::PAGE,
};
use protocol::{ids::AgentId, limits::Limits, time::WallTime};
use std::time::Duration;
use store_types::{Error, Filter, Key, Record, Snapshot, Write};

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

/// The age of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordAge {
    /// It stays, and so do all newer ones.
    Young,
    /// It has passed its retention time.
    Old,
    /// The same, but it is deleted later: more records than fit into one commit belong to it.
    OldWithRest,
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
        at.plus(Duration::from_millis(keep_ms)) <= self.wall
    }

    /// Whether a record has passed its retention time. If so, adds the deletion of it and of the records that belong to it to
    /// `deletes`; an old task that has not ended stays. The chunks of its artifacts are deleted before the record, a page at
    /// a time.
    pub(crate) fn judge(
        &self,
        topic: SweepTopic,
        record: Record,
        deletes: &mut Vec<Write>,
    ) -> Result<RecordAge, Error> {
        let (me, limits, value) = (self.me, self.limits, &record.value);
        let is_old = match topic {
            SweepTopic::Receipt => {
                let receipt: Receipt = content::decode(me, self.store, value)?;
                let keep_ms =
                    if faults::is_planted(PlantedFault::ShortDedup) { 1_000 } else { limits.dedup_ms };
                self.is_past(receipt.at, keep_ms)
            }
            SweepTopic::Reaction => {
                let receipt: ReactionReceipt = content::decode(me, self.store, value)?;
                let is_old = self.is_past(receipt.at, limits.keep_journals_ms);
                let chunks = keys::chunks_without_task(me, &receipt.conversation_id);
                if is_old && !self.delete_chunks(chunks, deletes)? {
                    return Ok(RecordAge::OldWithRest);
                }
                is_old
            }
            SweepTopic::Tombstone => {
                let tombstone: Tombstone = content::decode(me, self.store, value)?;
                self.is_past(tombstone.at, limits.dedup_ms)
            }
            SweepTopic::DeadLetter => {
                let dead_letter: DeadLetter = content::decode(me, self.store, value)?;
                self.is_past(dead_letter.at, limits.keep_tasks_ms)
            }
            SweepTopic::Task => {
                let row: TaskRow = content::decode(me, self.store, value)?;
                let is_old = self.is_past(row.task.changed_at, limits.keep_tasks_ms);
                if is_old && row.ended_at.is_some() {
                    let chunks = keys::chunks(me, &row.task.spec.task_id, &row.task.owner);
                    if !self.delete_chunks(chunks, deletes)? {
                        return Ok(RecordAge::OldWithRest);
                    }
                    deletes.push(Write::Delete(keys::award(me, &row.task.conversation)));
                    let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
                    let delete_reader = |digest| Write::Delete(keys::reader(me, digest, task, owner));
                    deletes.extend(row.references.iter().map(delete_reader));
                    let webhooks = self.store.keys(&keys::webhooks(me, task, owner), 0, PAGE)?;
                    deletes.extend(webhooks.into_iter().map(|(_, key)| Write::Delete(key)));
                    deletes.push(Write::Delete(record.key));
                }
                return Ok(if is_old { RecordAge::Old } else { RecordAge::Young });
            }
        };
        if !is_old {
            return Ok(RecordAge::Young);
        }
        deletes.push(Write::Delete(record.key));
        Ok(RecordAge::Old)
    }

    /// Adds the deletion of a page of the chunks below `prefix` to `deletes`. Returns whether these are the last ones.
    fn delete_chunks(&self, prefix: Key, deletes: &mut Vec<Write>) -> Result<bool, Error> {
        let page = self.store.keys(&Filter::Below(prefix), 0, PAGE)?;
        let is_last = page.len() < PAGE;
        deletes.extend(page.into_iter().map(|(_, key)| Write::Delete(key)));
        Ok(is_last)
    }
}
