//! What an agent remembers of the foreign tasks that work for it: a restart does not begin one twice, and whatever ends
//! their conversation ends them too.

use crate::outbox::chance;
use blackboard::store::{Batch, Filter, Key, Lane, SharedStore, Write};
use protocol::{
    a2a::{card::AgentCard, remote_task::RemoteTaskLimits},
    ids::{AgentId, ConversationId, Digest},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// Tasks of a foreign agent that is a peer.
const ERRAND: &str = "errand";
/// Tasks that the coordinator gave away.
const DELEGATED: &str = "delegated";
/// Everything that is noted.
pub const TOPICS: [&str; 2] = [ERRAND, DELEGATED];

/// The notes of one agent.
#[derive(Clone)]
pub struct Notes {
    agent: AgentId,
    store: SharedStore,
    topic: &'static str,
    ending: Arc<Mutex<BTreeSet<String>>>,
}

/// A foreign task that works for a conversation, or waits for its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// Its name over there.
    pub task_id: String,
    /// Whose task it is, if that does not follow from who noted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Box<AgentCard>>,
}

impl Notes {
    /// Of a foreign agent that is a peer, in its own store.
    pub fn of_peer(agent: AgentId, store: SharedStore) -> Self {
        Self { agent, store, topic: ERRAND, ending: Arc::default() }
    }

    /// Of `agent`'s coordinator, in its own store.
    pub fn of_coordinator(agent: AgentId, store: SharedStore) -> Self {
        Self { agent, store, topic: DELEGATED, ending: Arc::default() }
    }

    /// Those of one conversation.
    pub fn of(&self, conversation: &ConversationId) -> Page {
        Page { notes: self.clone(), conversation: conversation.clone() }
    }
}

/// The notes of one conversation.
#[derive(Clone)]
pub struct Page {
    notes: Notes,
    conversation: ConversationId,
}

impl Page {
    fn key(&self, errand: &str) -> Key {
        let name = Digest::of(errand.as_bytes()).to_string();
        Key::new(&[self.notes.agent.as_str(), self.notes.topic, self.conversation.as_str(), &name])
    }

    /// The task that the errand became, if it became one.
    ///
    /// # Errors
    /// If that can't be read: whoever began it again would begin it twice.
    pub(super) fn known(&self, errand: &str) -> Result<Option<String>, String> {
        let unread = |error: &dyn std::fmt::Display| {
            self.warn(error);
            format!("what was noted of its task can't be read: {error}")
        };
        let Some(record) = self.notes.store.latest(&self.key(errand)).map_err(|error| unread(&error))? else {
            return Ok(None);
        };
        let note = serde_json::from_slice::<Note>(&record.value).map_err(|error| unread(&error))?;
        Ok(Some(note.task_id))
    }

    /// Has `end` take everything that is noted: at once, or as soon as it can be read.
    pub fn each(self, end: impl FnOnce(Vec<Note>) + Send + 'static) {
        let notes = |rows: Vec<(Key, Note)>| rows.into_iter().map(|(_, note)| note).collect();
        if let Some(rows) = self.rows() {
            return end(notes(rows));
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        drop(runtime.spawn(async move {
            for failures in 1..RemoteTaskLimits::default().attempts {
                tokio::time::sleep(RemoteTaskLimits::pause(failures, None, chance())).await;
                if let Some(rows) = self.rows() {
                    return end(notes(rows));
                }
            }
        }));
    }

    /// What is noted, or `None` if that can't be read now. What is there and makes no sense is left out, and told of.
    fn rows(&self) -> Option<Vec<(Key, Note)>> {
        let tokens = [self.notes.agent.as_str(), self.notes.topic, self.conversation.as_str()];
        let rows = self.notes.store.read(&Filter::Below(Key::new(&tokens)), 0, MOST);
        let rows = rows.map_err(|error| self.warn(&error)).ok()?;
        let read = |record: blackboard::store::Record| match serde_json::from_slice(&record.value) {
            Ok(note) => Some((record.key, note)),
            Err(error) => {
                self.warn(&error);
                None
            }
        };
        Some(rows.into_iter().filter_map(read).collect())
    }

    fn warn(&self, error: &dyn std::fmt::Display) {
        tracing::warn!(
            agent = %self.notes.agent, conversation = %self.conversation, %error,
            "a note about a foreign task can't be read: that task may go on over there"
        );
    }

    async fn write(&self, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        let batch = Batch { writes, expectations: Vec::new() };
        if let Err(error) = self.notes.store.commit(Lane::Progress, batch).await {
            tracing::warn!(agent = %self.notes.agent, %error, "a note about a foreign task was not kept");
        }
    }

    pub(super) async fn keep(&self, errand: &str, task_id: &str, card: &AgentCard) {
        let card = (self.notes.topic == DELEGATED).then(|| Box::new(card.clone()));
        match serde_json::to_vec(&Note { task_id: task_id.to_owned(), card }) {
            Ok(bytes) => self.write(vec![Write::Put(self.key(errand), bytes.into())]).await,
            // An empty note would say that nothing was begun.
            Err(error) => {
                tracing::warn!(agent = %self.notes.agent, %error, "a note about a foreign task was not kept");
            }
        }
    }

    /// Lets go of what was noted of a task: it is over.
    pub(super) async fn forget(&self, task_id: &str) {
        let rows = self.rows().unwrap_or_default().into_iter().filter(|(_, note)| note.task_id == task_id);
        self.write(rows.map(|(key, _)| Write::Delete(key)).collect()).await;
    }

    /// Whether nobody else is about to end that task.
    pub(super) fn begin_to_end(&self, task_id: &str) -> bool {
        self.notes.ending.lock().unwrap_or_else(PoisonError::into_inner).insert(task_id.to_owned())
    }

    /// Nobody is about to end that task any more.
    pub(super) fn has_ended(&self, task_id: &str) {
        self.notes.ending.lock().unwrap_or_else(PoisonError::into_inner).remove(task_id);
    }
}

/// The most foreign tasks of one conversation.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use blackboard::store::{Error, Record, Revision, Store, StoreFuture, StoreWatch, memory};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A store whose next so many reads fail.
    struct Ailing(SharedStore, AtomicUsize);

    impl Ailing {
        fn reads<T>(&self, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
            let ails = |left: usize| left.checked_sub(1);
            match self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, ails) {
                Ok(_) => Err(Error::StorageFull),
                Err(_) => read(),
            }
        }
    }

    impl blackboard::store::Snapshot for Ailing {
        fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
            self.reads(|| self.0.latest(key))
        }

        fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
            self.reads(|| self.0.read(filter, after, limit))
        }

        fn head(&self) -> Revision {
            self.0.head()
        }
    }

    impl Store for Ailing {
        fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
            self.0.commit(lane, batch)
        }

        fn generation(&self) -> String {
            self.0.generation()
        }

        fn watch(&self, filter: Filter, after: Revision) -> Result<StoreWatch, Error> {
            self.0.watch(filter, after)
        }

        fn trim(&self, filter: Filter, before: Revision) -> StoreFuture<u64> {
            self.0.trim(filter, before)
        }
    }

    async fn page() -> (Arc<Ailing>, Page) {
        let store = Arc::new(Ailing(memory::new(), AtomicUsize::new(0)));
        let notes = Notes::of_peer(AgentId::parse("a-01").unwrap(), store.clone());
        let page = notes.of(&"01890000-0000-7000-8000-000000000000".parse().unwrap());
        let note = Note { task_id: "there".to_owned(), card: None };
        page.write(vec![Write::Put(page.key("e"), serde_json::to_vec(&note).unwrap().into())]).await;
        (store, page)
    }

    #[tokio::test]
    async fn what_can_not_be_read_now_is_not_taken_for_nothing() {
        let (store, page) = page().await;
        store.1.store(1, Ordering::SeqCst);
        assert!(page.known("e").is_err());
        assert_eq!(page.known("e"), Ok(Some("there".to_owned())));
        assert_eq!(page.known("other"), Ok(None));

        store.1.store(3, Ordering::SeqCst);
        let (tell, told) = tokio::sync::oneshot::channel();
        page.each(move |notes| drop(tell.send(notes)));
        let told: Vec<_> = told.await.unwrap().into_iter().map(|note| note.task_id).collect();
        assert_eq!(told, ["there"]);
    }
}
