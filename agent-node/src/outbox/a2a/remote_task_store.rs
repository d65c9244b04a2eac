//! Durable records of the foreign tasks that work for an agent. A restart resumes these tasks instead of sending them again,
//! and the end of their conversation cancels them.

use super::remote_memory::RemoteMemory;
use crate::outbox::random_fraction;
use protocol::{
    a2a::{card::AgentCard, card_validation::ValidatedCard, remote_task::RemoteTaskLimits},
    ids::{AgentId, ConversationId, Digest},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};
use store::{Batch, Filter, Key, Lane, SharedStore, Write};

/// The topic of the tasks of a foreign agent that is a peer.
const PEER_TASKS: &str = "remote-task";
/// The topic of the tasks of foreign agents that have seats in a session.
const SESSION_TASKS: &str = "seat-task";
/// All topics of records.
pub const TOPICS: [&str; 2] = [PEER_TASKS, SESSION_TASKS];

/// The records of one agent, in its own store.
#[derive(Clone)]
pub struct RemoteTaskStore {
    agent: AgentId,
    store: SharedStore,
    topic: &'static str,
    cancelling: Arc<Mutex<BTreeSet<String>>>,
}

/// A foreign task that works for a conversation or waits for its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteTaskRecord {
    /// Its id at the foreign agent.
    pub task_id: String,
    /// The card of the foreign agent. Absent if the agent has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Box<AgentCard>>,
}

impl RemoteTaskStore {
    /// The records of a foreign agent that is a peer.
    pub fn of_peer(agent: AgentId, store: SharedStore) -> Self {
        Self { agent, store, topic: PEER_TASKS, cancelling: Arc::default() }
    }

    /// The records of the sessions that `agent` hosts.
    pub fn of_host(agent: AgentId, store: SharedStore) -> Self {
        Self { agent, store, topic: SESSION_TASKS, cancelling: Arc::default() }
    }

    /// What the agent remembers of the foreign agent with this card, for a task of `ours` that follows those of `earlier`.
    pub fn memory(&self, card: &ValidatedCard, ours: String, earlier: Vec<String>) -> RemoteMemory {
        RemoteMemory::new(&self.agent, self.store.clone(), card, ours, earlier)
    }

    /// The records of one conversation.
    pub fn for_conversation(&self, conversation: &ConversationId) -> ConversationRemoteTasks {
        ConversationRemoteTasks { tasks: self.clone(), conversation: conversation.clone() }
    }
}

/// The records of one conversation.
#[derive(Clone)]
pub struct ConversationRemoteTasks {
    tasks: RemoteTaskStore,
    conversation: ConversationId,
}

impl ConversationRemoteTasks {
    fn key(&self, effect: &str) -> Key {
        let name = Digest::of(effect.as_bytes()).to_string();
        Key::new(&[self.tasks.agent.as_str(), self.tasks.topic, self.conversation.as_str(), &name])
    }

    /// The id of the task that `effect` has started. Fails if the record can't be read: a retry would start the task twice.
    pub(super) fn remote_id(&self, effect: &str) -> Result<Option<String>, String> {
        let unreadable = |error: &dyn std::fmt::Display| {
            self.warn(error);
            format!("the record of its task can't be read: {error}")
        };
        let Some(record) = self.tasks.store.latest(&self.key(effect)).map_err(|error| unreadable(&error))?
        else {
            return Ok(None);
        };
        let record =
            serde_json::from_slice::<RemoteTaskRecord>(&record.value).map_err(|error| unreadable(&error))?;
        Ok(Some(record.task_id))
    }

    /// Calls `act` with all records: at once, or later if they can't be read now. Gives up after some retries.
    pub fn with_all(self, act: impl FnOnce(Vec<RemoteTaskRecord>) + Send + 'static) {
        let records =
            |rows: Vec<(Key, RemoteTaskRecord)>| rows.into_iter().map(|(_, record)| record).collect();
        if let Some(rows) = self.rows() {
            return act(records(rows));
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        drop(runtime.spawn(async move {
            for failures in 1..RemoteTaskLimits::default().attempts {
                tokio::time::sleep(RemoteTaskLimits::pause(failures, None, random_fraction())).await;
                if let Some(rows) = self.rows() {
                    return act(records(rows));
                }
            }
        }));
    }

    /// All records with their keys; `None` if the store can't be read now. Logs and skips a record that does not parse.
    fn rows(&self) -> Option<Vec<(Key, RemoteTaskRecord)>> {
        let prefix = [self.tasks.agent.as_str(), self.tasks.topic, self.conversation.as_str()];
        let rows = self.tasks.store.read(&Filter::Below(Key::new(&prefix)), 0, MAX_TASKS);
        let rows = rows.map_err(|error| self.warn(&error)).ok()?;
        let read = |row: store::Record| match serde_json::from_slice(&row.value) {
            Ok(record) => Some((row.key, record)),
            Err(error) => {
                self.warn(&error);
                None
            }
        };
        Some(rows.into_iter().filter_map(read).collect())
    }

    fn warn(&self, error: &dyn std::fmt::Display) {
        tracing::warn!(
            agent = %self.tasks.agent, conversation = %self.conversation, %error,
            "the record of a foreign task can't be read: the foreign agent may go on with that task"
        );
    }

    async fn write(&self, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        let batch = Batch { writes, expectations: Vec::new() };
        if let Err(error) = self.tasks.store.commit(Lane::Progress, batch).await {
            tracing::warn!(agent = %self.tasks.agent, %error, "the record of a foreign task was not saved");
        }
    }

    pub(super) async fn save(&self, effect: &str, task_id: &str, card: &AgentCard) {
        let card = (self.tasks.topic != PEER_TASKS).then(|| Box::new(card.clone()));
        match serde_json::to_vec(&RemoteTaskRecord { task_id: task_id.to_owned(), card }) {
            Ok(bytes) => self.write(vec![Write::Put(self.key(effect), bytes.into())]).await,
            Err(error) => {
                tracing::warn!(agent = %self.tasks.agent, %error, "the record of a foreign task was not saved");
            }
        }
    }

    pub(super) async fn delete(&self, task_id: &str) {
        let rows =
            self.rows().unwrap_or_default().into_iter().filter(|(_, record)| record.task_id == task_id);
        self.write(rows.map(|(key, _)| Write::Delete(key)).collect()).await;
    }

    /// Marks a task as being cancelled; `false` if it is already.
    pub(super) fn begin_cancel(&self, task_id: &str) -> bool {
        self.tasks.cancelling.lock().unwrap_or_else(PoisonError::into_inner).insert(task_id.to_owned())
    }

    pub(super) fn end_cancel(&self, task_id: &str) {
        self.tasks.cancelling.lock().unwrap_or_else(PoisonError::into_inner).remove(task_id);
    }
}

const MAX_TASKS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use store::{Error, ListQuery, ListedKey, Record, Revision, Store, StoreFuture, StoreWatch, memory};

    /// A store whose next reads fail, as many as the number says.
    struct FailingReads(SharedStore, AtomicUsize);

    impl FailingReads {
        fn reads<T>(&self, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
            let decrement = |left: usize| left.checked_sub(1);
            match self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement) {
                Ok(_) => Err(Error::StorageFull),
                Err(_) => read(),
            }
        }
    }

    impl store::Snapshot for FailingReads {
        fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
            self.reads(|| self.0.latest(key))
        }

        fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
            self.reads(|| self.0.read(filter, after, limit))
        }

        fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
            self.0.list(query, limit)
        }

        fn count(&self, query: &ListQuery) -> Result<u64, Error> {
            self.0.count(query)
        }

        fn head(&self) -> Revision {
            self.0.head()
        }
    }

    impl Store for FailingReads {
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

        fn blobs(&self) -> store::SharedBlobs {
            self.0.blobs()
        }
    }

    async fn one_task() -> (Arc<FailingReads>, ConversationRemoteTasks) {
        let store = Arc::new(FailingReads(memory::new(), AtomicUsize::new(0)));
        let tasks = RemoteTaskStore::of_peer(AgentId::parse("a-01").unwrap(), store.clone());
        let tasks = tasks.for_conversation(&"01890000-0000-7000-8000-000000000000".parse().unwrap());
        let record = RemoteTaskRecord { task_id: "there".to_owned(), card: None };
        tasks.write(vec![Write::Put(tasks.key("e"), serde_json::to_vec(&record).unwrap().into())]).await;
        (store, tasks)
    }

    #[tokio::test]
    async fn a_failed_read_is_an_error_and_not_an_absent_record() {
        let (store, tasks) = one_task().await;
        store.1.store(1, Ordering::SeqCst);
        assert!(tasks.remote_id("e").is_err());
        assert_eq!(tasks.remote_id("e"), Ok(Some("there".to_owned())));
        assert_eq!(tasks.remote_id("other"), Ok(None));

        store.1.store(3, Ordering::SeqCst);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        tasks.with_all(move |records| drop(sender.send(records)));
        let ids: Vec<_> = receiver.await.unwrap().into_iter().map(|record| record.task_id).collect();
        assert_eq!(ids, ["there"]);
    }
}
