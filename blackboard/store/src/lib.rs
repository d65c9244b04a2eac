//! The store: one ordered log of keyed records. Tasks, claims and signals are views of it (DESIGN §6).

pub mod blobs;
pub mod owned_store;

pub mod embedded;
pub mod memory;

pub mod probe;

mod checksum;
mod follower;
mod tail;

#[cfg(test)]
mod conformance;

pub use blobs::SharedBlobs;
pub use owned_store::OwnedStore;
pub use store_types::{
    Batch, Error, Expectation, Filter, Key, Lane, ListEntry, ListOrder, ListPosition, ListQuery, ListedKey,
    MAX_READ, Record, Revision, Snapshot, Write, class, key, list::words,
};

use std::{future::Future, pin::Pin, sync::Arc};

/// The outcome of a queued write.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A shared store.
pub type SharedStore = Arc<dyn Store>;

/// Promises, for every backend:
/// 1. When `commit` resolves, its records are durable (memory excepted) and visible to every later read.
/// 2. A batch is all or nothing. An expectation lets at most one of several racing commits win. An unknown outcome is
///    an error of its own, [`Error::Unknown`]; the caller reads back.
/// 3. Every record has a revision of its own; revisions only grow, across restarts and deletions too. A watcher sees
///    every record of its filter once, in order, from its cursor on; a cursor below the floor gets [`Error::Trimmed`].
/// 4. A record is read as it was written: each has its own checksum; a mismatch is [`Error::Corrupt`], never data.
pub trait Store: Snapshot + Send + Sync {
    /// Writes `batch`. Queued at the call, in order within its lane; refused with [`Error::Full`] when the lane is full.
    /// Resolves to the revision of each write, in the batch's order.
    fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>>;

    /// The store's generation, minted when it was created. A cursor of another generation is invalid.
    fn generation(&self) -> String;

    /// Watches `filter` after `after`. Holds at most one page in memory. A record that is replaced or deleted before it
    /// is read is not delivered; deletions are not delivered.
    fn watch(&self, filter: Filter, after: Revision) -> Result<StoreWatch, Error>;

    /// Deletes log records of `filter` with a revision below `before`; state keys are not deleted. Resolves to their number.
    fn trim(&self, filter: Filter, before: Revision) -> StoreFuture<u64>;

    /// What is kept beside the records.
    fn blobs(&self) -> SharedBlobs;

    /// What reads have found damaged since the store was opened, at most 100, each once.
    fn damage(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A watch of a filter. It pulls records; unread ones use no memory.
pub struct StoreWatch(Box<dyn RecordSource>);

/// The records of a watch, as a backend provides them.
pub trait RecordSource: Send {
    /// Waits for the next records: at least one, oldest first.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Vec<Record>, Error>> + Send + '_>>;
}

impl StoreWatch {
    /// A watch that a backend provides.
    pub fn new(source: impl RecordSource + 'static) -> Self {
        Self(Box::new(source))
    }

    /// Waits for the next records: at least one, oldest first.
    pub async fn next(&mut self) -> Result<Vec<Record>, Error> {
        self.0.next().await
    }
}
