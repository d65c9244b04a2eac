//! One ordered log of keyed records. Everything else, tasks, claims, signals, is a view of it (DESIGN §6).

pub mod owned;

pub mod embedded;
pub mod memory;

pub mod probe;

mod checksum;
mod follow;
mod tail;

#[cfg(test)]
mod conformance;

pub use owned::Owned;
pub use store_types::{
    Batch, Error, Expectation, Filter, Key, Lane, MOST_READ, Record, Revision, Snapshot, Write, class, key,
};

use std::{future::Future, pin::Pin, sync::Arc};

/// What comes back later.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A store, shared.
pub type Shared = Arc<dyn Store>;

/// Promises, for every backend:
/// 1. When `commit` resolves, its records are durable (memory excepted) and visible to every later read.
/// 2. A batch is all or nothing. An expectation lets at most one of several racing commits win. An outcome that could
///    not be learnt is its own error, [`Error::Unknown`], and is settled by reading back.
/// 3. Every record has a revision of its own; revisions only grow, across restarts and deletions too. A watcher sees
///    every record of its filter once, in order, from its cursor on; a cursor below the floor gets [`Error::Trimmed`].
/// 4. A record that comes back is the record that went in: each carries its own checksum; one that does not fit is
///    [`Error::Corrupt`], never data.
pub trait Store: Snapshot + Send + Sync {
    /// Writes `batch`. Queued at the call, in order within its lane; refused with [`Error::Full`] when the lane is full.
    /// Resolves to the revision of each write, in the batch's order.
    fn commit(&self, lane: Lane, batch: Batch) -> Pending<Vec<Revision>>;

    /// Which life of the store this is: minted when it was created. A cursor of another generation means nothing here.
    fn generation(&self) -> String;

    /// Follows `filter` from `after` on. Holds no more than a page in memory, however slowly it is read. What was
    /// replaced or deleted before it was read is not shown, and a deletion itself never is.
    fn watch(&self, filter: Filter, after: Revision) -> Result<Watch, Error>;

    /// Deletes log records of `filter` with a revision below `before`; state keys are never touched. Resolves to how many.
    fn trim(&self, filter: Filter, before: Revision) -> Pending<u64>;
}

/// A follower of a filter. It pulls: what it does not read costs nothing.
pub struct Watch(Box<dyn Follow>);

/// What a backend implements to be followed.
pub trait Follow: Send {
    /// The next records, oldest first, at least one; waits until there are any.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Vec<Record>, Error>> + Send + '_>>;
}

impl Watch {
    /// A watch that a backend provides.
    pub fn new(follow: impl Follow + 'static) -> Self {
        Self(Box::new(follow))
    }

    /// The next records, oldest first, at least one; waits until there are any.
    pub async fn next(&mut self) -> Result<Vec<Record>, Error> {
        self.0.next().await
    }
}
