//! Growth has an end: what is finished goes, each kind after its own time, journals past their bytes too (DESIGN §6).

mod content;

use super::{AgentActor, every};
use crate::conversation::{
    record::{DeadLetter, Reacted, Receipt, Step, TaskRow, Tombstone, keys},
    spill,
};
use actix::{Context, Handler, Message};
use blackboard::store::{Batch, Error, Filter, Lane, Record, Revision, Shared, Write};
use content::Round;
use protocol::{ids::AgentId, limits::Limits, time::WallTime};
use serde::Serialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// How many bytes an agent's journals take: counted once, kept up from then on.
#[derive(Debug, Default)]
pub(super) struct JournalBytes {
    bytes: AtomicU64,
    is_counted: AtomicBool,
}

impl JournalBytes {
    /// A record of `bytes` was added.
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What goes on from one sweep to the next. One sweep at a time holds the round.
#[derive(Debug, Default)]
pub(super) struct Sweeping {
    /// The search for content that nothing refers to.
    round: tokio::sync::Mutex<Round>,
    /// What was let go of since the start.
    gone: Gone,
}

#[derive(Debug, Default)]
struct Gone {
    records: AtomicU64,
    journal_lines: AtomicU64,
    contents: AtomicU64,
}

/// What an agent has let go of since it started.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Swept {
    /// Rows that were kept long enough.
    pub records: u64,
    /// Lines of journals.
    pub journal_lines: u64,
    /// Contents that nothing referred to any more, artifacts that were put among them.
    pub contents: u64,
}

impl Sweeping {
    /// What was let go of so far.
    pub(super) fn swept(&self) -> Swept {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Swept {
            records: read(&self.gone.records),
            journal_lines: read(&self.gone.journal_lines),
            contents: read(&self.gone.contents),
        }
    }
}

/// Asks an agent to let go of what has been kept long enough.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Sweep;

/// The most records of one kind looked at in one sweep; the rest waits for the next.
const MOST: usize = 10_000;
const PAGE: usize = 500;

/// Before which revision journals go, and how many bytes that frees.
type Trim = (Revision, u64);

/// One look over everything an agent keeps.
struct Broom {
    store: Shared,
    me: AgentId,
    limits: Arc<Limits>,
    wall: WallTime,
    /// Journals from here on belong to conversations that are open.
    open_from: Revision,
    journal_bytes: Arc<JournalBytes>,
    sweeping: Arc<Sweeping>,
    pulse: Arc<super::Pulse>,
}

impl Handler<Sweep> for AgentActor {
    type Result = ();

    fn handle(&mut self, _: Sweep, _: &mut Context<Self>) {
        let first = self.conversations.values().map(|conversation| conversation.first());
        let first = first.chain(self.parked.values().copied()).filter(|first| *first > 0);
        let broom = Broom {
            store: self.parts.store.clone(),
            me: self.me.clone(),
            limits: self.parts.limits.clone(),
            wall: self.parts.clock.wall(),
            open_from: first.min().unwrap_or(Revision::MAX),
            journal_bytes: self.journal_bytes.clone(),
            sweeping: self.sweeping.clone(),
            pulse: self.parts.pulse.clone(),
        };
        actix::spawn(async move {
            let me = broom.me.clone();
            if let Err(error) = broom.sweep().await {
                tracing::warn!(agent = %me, %error, "what is old could not be let go of");
            }
        });
    }
}

impl Broom {
    /// Lets go of everything that the limits no longer keep.
    async fn sweep(self) -> Result<(), Error> {
        let broom = Arc::new(self);
        // A sweep that takes longer than the pause between two of them is not run beside itself.
        let Ok(mut round) = broom.sweeping.round.try_lock() else { return Ok(()) };
        let looking = broom.clone();
        // Looking blocks for many pages: not on the agent's thread.
        let looked = tokio::task::spawn_blocking(move || looking.look()).await;
        let (deletes, trim_before) = looked.map_err(|error| Error::Refused(error.to_string()))??;
        let tasks = keys::all(&broom.me, "task");
        for chunk in deletes.chunks(256) {
            let batch = Batch { writes: chunk.to_vec(), expectations: Vec::new() };
            broom.store.commit(Lane::Admission, batch).await?;
            broom.sweeping.gone.records.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            if chunk.iter().any(|write| matches!(write, Write::Delete(key) if tasks.admits(key))) {
                broom.pulse.forget();
            }
            round.note_change();
        }
        if let Some((before, bytes)) = trim_before.filter(|(before, _)| round.allows_trim(*before)) {
            let trimmed = broom.store.trim(keys::all(&broom.me, "journal"), before).await?;
            broom.journal_bytes.bytes.fetch_sub(bytes, Ordering::Relaxed);
            broom.sweeping.gone.journal_lines.fetch_add(trimmed, Ordering::Relaxed);
            round.note_change();
        }
        broom.let_go_of_content(&mut round).await
    }

    fn is_past(&self, at: WallTime, keep_ms: u64) -> bool {
        at.plus(Duration::from_millis(keep_ms)) <= self.wall
    }

    fn look(&self) -> Result<(Vec<Write>, Option<Trim>), Error> {
        let (store, me, limits) = (self.store.as_ref(), &self.me, &self.limits);
        let mut deletes = Vec::new();
        self.oldest("receipt", |record| {
            let receipt: Receipt = spill::decode(me, store, &record.value)?;
            Ok(self
                .is_past(receipt.at, limits.dedup_ms)
                .then(|| deletes.push(Write::Delete(record.key)))
                .is_some())
        })?;
        self.oldest("reaction", |record| {
            let reacted: Reacted = spill::decode(me, store, &record.value)?;
            Ok(self
                .is_past(reacted.at, limits.keep_journals_ms)
                .then(|| deletes.push(Write::Delete(record.key)))
                .is_some())
        })?;
        self.oldest("tombstone", |record| {
            let tombstone: Tombstone = spill::decode(me, store, &record.value)?;
            Ok(self
                .is_past(tombstone.at, limits.dedup_ms)
                .then(|| deletes.push(Write::Delete(record.key)))
                .is_some())
        })?;
        self.oldest("dead", |record| {
            let dead: DeadLetter = spill::decode(me, store, &record.value)?;
            Ok(self
                .is_past(dead.at, limits.keep_tasks_ms)
                .then(|| deletes.push(Write::Delete(record.key)))
                .is_some())
        })?;
        self.oldest("task", |record| {
            let row: TaskRow = spill::decode(me, store, &record.value)?;
            let is_old = self.is_past(row.task.changed_at, limits.keep_tasks_ms);
            if is_old && row.ended_at.is_some() {
                deletes.push(Write::Delete(keys::award(me, &row.task.conversation)));
                let (task, owner) = (&row.task.spec.task_id, &row.task.owner);
                let reader = |digest| Write::Delete(keys::reader(me, digest, task, owner));
                deletes.extend(row.references.iter().map(reader));
                every(store, &keys::webhooks(me, &row.task.spec.task_id, &row.task.owner), |webhook| {
                    deletes.push(Write::Delete(webhook.key));
                    Ok(())
                })?;
                deletes.push(Write::Delete(record.key));
            }
            Ok(is_old)
        })?;
        Ok((deletes, self.journals()?))
    }

    /// Up to where journals may go, and how many bytes that frees: the oldest first, by age and by bytes, never one of a
    /// conversation that is open.
    fn journals(&self) -> Result<Option<Trim>, Error> {
        let journals = keys::all(&self.me, "journal");
        if !self.journal_bytes.is_counted.swap(true, Ordering::Relaxed) {
            let mut bytes = 0;
            every(self.store.as_ref(), &journals, |record| {
                bytes += record.value.len() as u64;
                Ok(())
            })?;
            self.journal_bytes.bytes.store(bytes, Ordering::Relaxed);
        }
        let mut excess =
            self.journal_bytes.bytes.load(Ordering::Relaxed).saturating_sub(self.limits.keep_journal_bytes);
        let (mut before, mut freed) = (None, 0);
        self.oldest("journal", |record| {
            let step: Step = spill::decode(&self.me, self.store.as_ref(), &record.value)?;
            let is_old =
                step.events.last().is_none_or(|event| self.is_past(event.wall, self.limits.keep_journals_ms));
            let goes = record.revision < self.open_from && (is_old || excess > 0);
            if goes {
                let bytes = record.value.len() as u64;
                excess = excess.saturating_sub(bytes);
                freed += bytes;
                before = Some(record.revision + 1);
            }
            Ok(goes)
        })?;
        Ok(before.map(|before| (before, freed)))
    }

    /// Looks at records from the oldest on, until one is not old.
    fn oldest(
        &self,
        topic: &str,
        mut is_old: impl FnMut(Record) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let filter: Filter = keys::all(&self.me, topic);
        let mut after = 0;
        for _ in 0..MOST / PAGE {
            let page = self.store.read(&filter, after, PAGE)?;
            let Some(last) = page.last().map(|record| record.revision) else { return Ok(()) };
            for record in page {
                if !is_old(record)? {
                    return Ok(());
                }
            }
            after = last;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
