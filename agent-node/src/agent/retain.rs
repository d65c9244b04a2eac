//! Growth has an end: what is finished goes, each kind after its own time, journals past their bytes too (DESIGN §6).

use super::{AgentActor, every};
use crate::conversation::{
    record::{DeadLetter, Receipt, Step, TaskRow, Tombstone, keys},
    spill,
};
use actix::{Context, Handler, Message};
use blackboard::store::{Batch, Error, Filter, Lane, Record, Revision, Shared, Write};
use protocol::{ids::AgentId, limits::Limits, time::WallTime};
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
}

impl Handler<Sweep> for AgentActor {
    type Result = ();

    fn handle(&mut self, _: Sweep, _: &mut Context<Self>) {
        let first =
            self.conversations.values().map(|conversation| conversation.first()).filter(|first| *first > 0);
        let broom = Broom {
            store: self.parts.store.clone(),
            me: self.me.clone(),
            limits: self.parts.limits.clone(),
            wall: self.parts.clock.wall(),
            open_from: first.min().unwrap_or(Revision::MAX),
            journal_bytes: self.journal_bytes.clone(),
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
        let looking = broom.clone();
        // Looking blocks for many pages: not on the agent's thread.
        let looked = tokio::task::spawn_blocking(move || looking.look()).await;
        let (deletes, trim_before) = looked.map_err(|error| Error::Refused(error.to_string()))??;
        for chunk in deletes.chunks(256) {
            let batch = Batch { writes: chunk.to_vec(), expectations: Vec::new() };
            broom.store.commit(Lane::Admission, batch).await?;
        }
        if let Some((before, bytes)) = trim_before {
            broom.store.trim(keys::all(&broom.me, "journal"), before).await?;
            broom.journal_bytes.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        Ok(())
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
mod tests {
    use super::*;
    use blackboard::store::{Key, memory};
    use protocol::{
        coordination::{Event, What},
        ids::ConversationId,
        time::NodeTime,
    };

    const HOUR: i64 = 3_600_000;

    fn me() -> AgentId {
        AgentId::parse("a").unwrap()
    }

    async fn journal(store: &Shared, conversation: &str, hours: i64) -> Revision {
        let event = Event { at: NodeTime(0), wall: WallTime(hours * HOUR), what: What::Started };
        let step = Step { step: 1, events: vec![event], effects: Vec::new() };
        let key = keys::journal(&me(), &ConversationId::parse(conversation).unwrap());
        let write = Write::Append(key, serde_json::to_vec(&step).unwrap().into());
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        store.commit(Lane::Progress, batch).await.unwrap()[0]
    }

    fn broom(store: &Shared, hours: i64, limits: Limits, open_from: Revision) -> Broom {
        let (store, limits) = (store.clone(), Arc::new(limits));
        Broom {
            store,
            me: me(),
            limits,
            wall: WallTime(hours * HOUR),
            open_from,
            journal_bytes: Arc::default(),
        }
    }

    fn left(store: &Shared) -> usize {
        store.read(&Filter::Below(Key::new(&["a", "journal"])), 0, 100).unwrap().len()
    }

    #[tokio::test]
    async fn journals_go_by_age_and_never_those_of_open_conversations() {
        let store = memory::new();
        journal(&store, "c1", 0).await;
        let open = journal(&store, "c2", 1).await;
        journal(&store, "c3", 2).await;
        journal(&store, "c4", 300).await;
        let limits = Limits { keep_journals_ms: 24 * 3_600_000, ..Limits::default() };
        broom(&store, 300, limits.clone(), open).sweep().await.unwrap();
        assert_eq!(left(&store), 3);
        broom(&store, 300, limits, Revision::MAX).sweep().await.unwrap();
        assert_eq!(left(&store), 1);
    }

    #[tokio::test]
    async fn tombstones_go_when_no_award_can_come_late_any_more() {
        let store = memory::new();
        let by = protocol::principal::Principal::Agent(me());
        for (task, hours) in [("t-1", 0), ("t-2", 20)] {
            let key = keys::tombstone(&me(), &protocol::ids::TaskId::parse(task).unwrap(), &by);
            let bytes = serde_json::to_vec(&Tombstone { epoch: 1, at: WallTime(hours * HOUR) }).unwrap();
            let batch = Batch { writes: vec![Write::Put(key, bytes.into())], expectations: Vec::new() };
            store.commit(Lane::Progress, batch).await.unwrap();
        }
        let left = || store.read(&keys::all(&me(), "tombstone"), 0, 100).unwrap().len();
        broom(&store, 24, Limits::default(), Revision::MAX).sweep().await.unwrap();
        assert_eq!(left(), 2);
        broom(&store, 26, Limits::default(), Revision::MAX).sweep().await.unwrap();
        assert_eq!(left(), 1);
    }

    #[tokio::test]
    async fn journals_go_past_their_bytes_the_oldest_first() {
        let store = memory::new();
        for at in 0..10 {
            journal(&store, &format!("c{at}"), 0).await;
        }
        let one =
            store.read(&Filter::Below(Key::new(&["a", "journal"])), 0, 1).unwrap()[0].value.len() as u64;
        let limits = Limits { keep_journal_bytes: 4 * one, ..Limits::default() };
        broom(&store, 0, limits, Revision::MAX).sweep().await.unwrap();
        assert_eq!(left(&store), 4);
    }
}
