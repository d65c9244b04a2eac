//! The store in one SQLite file: one writer that commits in groups, readers beside it.

mod ahead;
mod conditional;
mod lock;
mod presence;
mod queue;
mod reader;
mod schema;
mod transaction;
mod trim;
mod writer;

pub use schema::OpenError;

use super::follow;
use super::tail::Tail;
use super::{Batch, Error, Filter, Key, Lane, Pending, Record, Revision, Shared, Snapshot, Store, Watch};
use presence::Presence;
use queue::{Commit, Queue};
use reader::Readers;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};
use tokio::sync::oneshot;

/// How much an embedded store takes on.
#[derive(Debug, Clone)]
pub struct Options {
    /// The most batches that wait in the lane of work in progress.
    pub progress: usize,
    /// The most batches that wait in the lane of new work.
    pub admission: usize,
    /// The most bytes that wait in both lanes.
    pub waiting_bytes: usize,
    /// The most batches in one transaction.
    pub group: usize,
    /// The most connections that read at once.
    pub readers: usize,
    /// The largest the file may grow, in pages of 4 KiB; none: as the device allows.
    pub pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { progress: 4096, admission: 1024, waiting_bytes: 64 << 20, group: 512, readers: 4, pages: None }
    }
}

/// The store in `dir`, created if there is none. One process at a time holds it.
pub fn open(dir: &Path, options: Options) -> Result<Shared, OpenError> {
    open_gauged(dir, options).map(|(store, _)| store)
}

/// How full a store is.
#[derive(Clone)]
pub struct Gauge {
    queue: Arc<Queue>,
    dir: PathBuf,
}

impl Gauge {
    /// Commits that wait for the writer.
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Bytes of its files, the log of what is not yet in its place included.
    pub fn bytes(&self) -> u64 {
        schema::files(&self.dir).iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    }
}

/// The same, and how full it is from then on.
pub fn open_gauged(dir: &Path, options: Options) -> Result<(Shared, Gauge), OpenError> {
    let lock = lock::Lock::acquire(dir)?;
    let opened = schema::open(dir, &options)?;
    let tail = Arc::new(Tail::new(opened.revision));
    let topics = Arc::new(schema::Topics::new(opened.topics.clone()));
    let presence = Presence::of(&opened.connection, dir)
        .map_err(|error| OpenError::Damaged { dir: dir.to_owned(), why: error.to_string() })?;
    let readers = Arc::new(Readers::new(dir, options.readers, topics.clone(), presence.clone()));
    let queue = Arc::new(Queue::new(&options));
    let generation = opened.generation.clone();
    let (of_writer, head) = (queue.clone(), tail.clone());
    let writer = thread::Builder::new()
        .name("store-writer".into())
        .spawn(move || writer::run(opened, &of_writer, &head, &topics, &presence))
        .map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
    let gauge = Gauge { queue: queue.clone(), dir: dir.to_owned() };
    let store = Embedded { queue, readers, tail, generation, writer: Some(writer), _lock: lock };
    Ok((Arc::new(store), gauge))
}

struct Embedded {
    queue: Arc<Queue>,
    readers: Arc<Readers>,
    tail: Arc<Tail>,
    generation: String,
    writer: Option<thread::JoinHandle<()>>,
    /// Held to the end.
    _lock: lock::Lock,
}

impl Snapshot for Embedded {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.readers.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.readers.read(filter, after, limit.min(super::MOST_READ))
    }

    fn keys(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<(Revision, Key)>, Error> {
        self.readers.keys(filter, after, limit.min(super::MOST_READ))
    }

    fn head(&self) -> Revision {
        self.tail.head()
    }
}

impl Store for Embedded {
    fn commit(&self, lane: Lane, batch: Batch) -> Pending<Vec<Revision>> {
        let (done, outcome) = oneshot::channel();
        let queued =
            super::class::check(&batch).and_then(|()| self.queue.commit(lane, Commit { batch, done }));
        resolve(queued, outcome)
    }

    fn generation(&self) -> String {
        self.generation.clone()
    }

    fn watch(&self, filter: Filter, after: Revision) -> Result<Watch, Error> {
        follow::watch(self.readers.clone(), self.tail.clone(), filter, after)
    }

    fn trim(&self, filter: Filter, before: Revision) -> Pending<u64> {
        let (done, outcome) = oneshot::channel();
        resolve(self.queue.trim(trim::Trim::new(filter, before, done)), outcome)
    }
}

impl Drop for Embedded {
    /// What is queued is still written.
    fn drop(&mut self) {
        self.queue.close("it was closed");
        // The writer's connection should be the last: the last one to close leaves a whole file and no log beside it.
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
) -> Pending<T> {
    Box::pin(async move {
        queued?;
        outcome.await.unwrap_or_else(|_| Err(Error::Unknown("the writer is gone".into())))
    })
}

#[cfg(test)]
mod tests;
