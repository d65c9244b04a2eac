//! The store in one SQLite file: one writer that commits in groups, and concurrent readers.

mod check;
mod conditional_writes;
mod found_damage;
mod health;
mod list_entries;
mod lock;
mod queue;
mod reader;
mod row_positions;
mod schema;
#[cfg(test)]
pub(super) mod steps;
mod transaction;
mod trim;
mod wal;
mod writer;

pub use check::{StoreCheck, check};
pub use schema::OpenError;
pub use wal::LostCommits;

use super::blobs::BlobFolder;
use super::follower;
use super::tail::LogTail;
use super::{
    Batch, Error, Filter, Key, Lane, ListQuery, ListedKey, Record, Revision, SharedBlobs, SharedStore,
    Snapshot, Store, StoreFuture, StoreWatch,
};
use found_damage::FoundDamage;
use health::WriterHealth;
use queue::{QueuedCommit, WriteQueue};
use reader::ReaderPool;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};
use tokio::sync::oneshot;

/// The folder of the blobs, in the store's.
const BLOBS: &str = "blobs";

/// Limits of an embedded store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The most queued batches of work in progress.
    pub progress: usize,
    /// The most queued batches of new work.
    pub admission: usize,
    /// The most queued bytes of both lanes.
    pub waiting_bytes: usize,
    /// The most batches in one transaction.
    pub group: usize,
    /// The most connections that read at once.
    pub readers: usize,
    /// The largest size of the file, in pages of 2 KiB; without it, the device is the limit.
    pub pages: Option<u32>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { progress: 4096, admission: 1024, waiting_bytes: 64 << 20, group: 512, readers: 4, pages: None }
    }
}

/// Opens the store in `dir`, or creates it. Only one process at a time can hold it.
pub fn open(dir: &Path, options: StoreOptions) -> Result<SharedStore, OpenError> {
    open_with_gauge(dir, options).map(|(store, _)| store)
}

/// The load and the size of a store.
#[derive(Clone)]
pub struct StoreGauge {
    queue: Arc<WriteQueue>,
    health: Arc<WriterHealth>,
    dir: PathBuf,
}

impl StoreGauge {
    /// Commits in the writer's queue.
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// The number of transactions that the device did not take.
    pub fn refused(&self) -> u64 {
        self.health.refused()
    }

    /// Waits until the store has failed for good; returns why. A store that is closed does not fail.
    pub async fn failed(&self) -> String {
        self.health.failed().await
    }

    /// Bytes of its files, with the write-ahead log.
    pub fn bytes(&self) -> u64 {
        schema::files(&self.dir).iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    }
}

/// As [`open`], with a gauge of the store.
pub fn open_with_gauge(dir: &Path, options: StoreOptions) -> Result<(SharedStore, StoreGauge), OpenError> {
    let lock = lock::DataDirLock::acquire(dir)?;
    let opened = schema::open(dir, &options)?;
    let blobs = BlobFolder::open(&dir.join(BLOBS));
    let blobs = Arc::new(blobs.map_err(|source| OpenError::Io { dir: dir.join(BLOBS), source })?);
    let tail = Arc::new(LogTail::new(opened.revision));
    let topics = Arc::new(schema::Topics::new(opened.topics.clone()));
    let damage = Arc::new(FoundDamage::default());
    let readers = Arc::new(ReaderPool::new(dir, options.readers, topics.clone(), damage.clone()));
    let queue = Arc::new(WriteQueue::new(&options));
    let generation = opened.generation.clone();
    let health = Arc::new(WriterHealth::new());
    let (writer_queue, writer_tail, writer_health) = (queue.clone(), tail.clone(), health.clone());
    let writer = thread::Builder::new()
        .name("store-writer".into())
        .spawn(move || writer::run(opened, &writer_queue, &writer_tail, &topics, &writer_health))
        .map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
    let gauge = StoreGauge { queue: queue.clone(), health, dir: dir.to_owned() };
    let store =
        EmbeddedStore { queue, readers, damage, tail, generation, blobs, writer: Some(writer), _lock: lock };
    Ok((Arc::new(store), gauge))
}

struct EmbeddedStore {
    queue: Arc<WriteQueue>,
    readers: Arc<ReaderPool>,
    damage: Arc<FoundDamage>,
    tail: Arc<LogTail>,
    generation: String,
    blobs: SharedBlobs,
    writer: Option<thread::JoinHandle<()>>,
    _lock: lock::DataDirLock,
}

impl Snapshot for EmbeddedStore {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.readers.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.readers.read(filter, after, limit.min(super::MAX_READ))
    }

    fn keys(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<(Revision, Key)>, Error> {
        self.readers.keys(filter, after, limit.min(super::MAX_READ))
    }

    fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
        self.readers.list(query, limit.min(super::MAX_READ))
    }

    fn count(&self, query: &ListQuery) -> Result<u64, Error> {
        self.readers.count(query)
    }

    fn head(&self) -> Revision {
        self.tail.head()
    }
}

impl Store for EmbeddedStore {
    fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
        let (done, outcome) = oneshot::channel();
        let queued =
            super::class::check(&batch).and_then(|()| self.queue.commit(lane, QueuedCommit { batch, done }));
        resolve(queued, outcome)
    }

    fn generation(&self) -> String {
        self.generation.clone()
    }

    fn watch(&self, filter: Filter, after: Revision) -> Result<StoreWatch, Error> {
        follower::watch(self.readers.clone(), self.tail.clone(), filter, after)
    }

    fn trim(&self, filter: Filter, before: Revision) -> StoreFuture<u64> {
        let (done, outcome) = oneshot::channel();
        resolve(self.queue.trim(trim::TrimJob::new(filter, before, done)), outcome)
    }

    fn blobs(&self) -> SharedBlobs {
        self.blobs.clone()
    }

    fn damage(&self) -> Vec<String> {
        self.damage.list()
    }
}

impl Drop for EmbeddedStore {
    /// Queued batches are still written.
    fn drop(&mut self) {
        self.queue.close("it was closed");
        // The last connection to close moves the write-ahead log into the file; this should be the writer's.
        self.readers.close();
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
    }
}

fn resolve<T: Send + 'static>(
    queued: Result<(), Error>,
    outcome: oneshot::Receiver<Result<T, Error>>,
) -> StoreFuture<T> {
    Box::pin(async move {
        queued?;
        outcome.await.unwrap_or_else(|_| Err(Error::Unknown("the writer is gone".into())))
    })
}

#[cfg(test)]
mod tests;
