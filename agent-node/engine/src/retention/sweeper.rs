//! Decides which records are old enough to be deleted.

use crate::{
    content, context_records,
    records::{ReactionReceipt, TaskRow, keys, lists},
    retention::state::PAGE,
};
use protocol::{
    ids::{AgentId, ConversationId},
    limits::Limits,
    time::WallTime,
};
use store_types::{Batch, Error, Expectation, Filter, Key, Revision, Snapshot, Write};

/// A topic whose records are deleted by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepTopic {
    Receipt,
    Reaction,
    Tombstone,
    DeadLetter,
    Context,
    Task,
    Expense,
}

impl SweepTopic {
    /// The token of the topic in the keys of its records.
    pub(crate) fn token(self) -> &'static str {
        match self {
            Self::Receipt => "receipt",
            Self::Reaction => "reaction",
            Self::Tombstone => "tombstone",
            Self::DeadLetter => "dead",
            Self::Context => "context",
            Self::Task => "task",
            Self::Expense => keys::EXPENSE,
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
            SweepTopic::Receipt | SweepTopic::Tombstone => self.limits.dedup_ms,
            SweepTopic::Reaction => self.limits.keep_journals_ms,
            SweepTopic::DeadLetter | SweepTopic::Task => self.limits.keep_tasks_ms,
            SweepTopic::Context => self.limits.keep_contexts_ms,
            SweepTopic::Expense => self.limits.keep_costs_ms,
        }
    }

    /// Adds the deletion of a record, and of the records that belong to it. The chunks of its artifacts are deleted before
    /// the record, a page at a time. Returns whether the record itself is in the batch.
    pub(crate) fn delete(&self, topic: SweepTopic, key: Key, batch: &mut Batch) -> Result<bool, Error> {
        let is_whole = match topic {
            SweepTopic::Receipt | SweepTopic::Tombstone | SweepTopic::DeadLetter | SweepTopic::Expense => {
                true
            }
            SweepTopic::Reaction => self.delete_parts_of_reaction(&key, batch)?,
            SweepTopic::Context => {
                let name = key.tokens().get(2).cloned().unwrap_or_default();
                batch.writes.push(Write::Delete(keys::handover(self.me, &name)));
                self.delete_chunks(keys::context_turns(self.me, &name), batch)?
            }
            SweepTopic::Task => self.delete_parts_of_task(&key, batch)?,
        };
        if is_whole {
            batch.writes.push(Write::Delete(key));
        }
        Ok(is_whole)
    }

    fn delete_parts_of_reaction(&self, key: &Key, batch: &mut Batch) -> Result<bool, Error> {
        let Some(record) = self.store.latest(key)? else { return Ok(true) };
        let receipt: ReactionReceipt = content::decode(self.me, self.store, &record.value)?;
        self.delete_chunks(keys::chunks_without_task(self.me, &receipt.conversation_id), batch)
    }

    fn delete_parts_of_task(&self, key: &Key, batch: &mut Batch) -> Result<bool, Error> {
        let Some(record) = self.store.latest(key)? else { return Ok(true) };
        let me = self.me;
        let row: TaskRow = content::decode(me, self.store, &record.value)?;
        // A new award of the same task, which the store does not show yet, has changed the row: then nothing is deleted.
        batch.expectations.push(Expectation::At(key.clone(), record.revision));
        let kept_until = context_records::kept_until(self.store, me, &row, self.limits)?
            .filter(|until| *until > self.wall);
        if let Some(until) = kept_until {
            // It is due again when nothing goes on from it any more.
            let mut entries = lists::of_task(me, key, &row);
            entries.retain(|entry| entry.list != lists::by_age(me, SweepTopic::Task.token()));
            let due = self.limits.keep_tasks_ms;
            entries.push(lists::aged(key, WallTime(until.0.saturating_sub_unsigned(due))));
            batch.writes.push(Write::PutListed(key.clone(), record.value, entries));
            return Ok(false);
        }
        let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
        if !self.delete_chunks(keys::chunks(me, task, owner), batch)? {
            return Ok(false);
        }
        let writes = &mut batch.writes;
        writes.extend(context_records::deletions_with(self.store, me, &row)?);
        writes.push(Write::Delete(keys::award(me, &row.task.conversation)));
        let delete_reader = |digest| Write::Delete(keys::reader(me, digest, task, owner));
        writes.extend(row.references.iter().map(delete_reader));
        let webhooks = self.store.keys(&keys::webhooks(me, task, owner), 0, PAGE)?;
        writes.extend(webhooks.into_iter().map(|(_, key)| Write::Delete(key)));
        Ok(true)
    }

    /// Adds the deletion of the checkpoints of a conversation without a task, if its journal ends before `before`. Those of a task
    /// are deleted with its row.
    pub(crate) fn delete_checkpoints(
        &self,
        id: &ConversationId,
        before: Revision,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        // The lines of a journal refer to checkpoints.
        let rest =
            self.store.keys(&Filter::Exactly(keys::journal(self.me, id)), before.saturating_sub(1), 1)?;
        if !rest.is_empty() {
            return Ok(());
        }
        let all = Filter::Below(keys::chunks_without_task(self.me, id));
        let mut after = 0;
        loop {
            let page = self.store.keys(&all, after, PAGE)?;
            let last = page.last().filter(|_| page.len() == PAGE).map(|(revision, _)| *revision);
            let checkpoints = page.into_iter().map(|(_, key)| key).filter(keys::is_checkpoint);
            batch.writes.extend(checkpoints.map(Write::Delete));
            match last {
                Some(revision) => after = revision,
                None => return Ok(()),
            }
        }
    }

    /// Adds the deletion of a page of the chunks below `prefix`. Returns whether these are the last ones.
    fn delete_chunks(&self, prefix: Key, batch: &mut Batch) -> Result<bool, Error> {
        let page = self.store.keys(&Filter::Below(prefix), 0, PAGE)?;
        let is_last = page.len() < PAGE;
        batch.writes.extend(page.into_iter().map(|(_, key)| Write::Delete(key)));
        Ok(is_last)
    }
}
