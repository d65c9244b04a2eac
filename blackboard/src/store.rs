//! One ordered log of keyed records. Everything else, tasks, claims, signals, is a view of it (DESIGN §6).

pub mod key;
pub mod owned;

pub mod embedded;
pub mod memory;

pub mod probe;

mod checksum;
mod class;
mod follow;
mod tail;

#[cfg(test)]
mod conformance;

pub use key::{Filter, Key};
pub use owned::Owned;

use bytes::Bytes;
use std::{future::Future, pin::Pin, sync::Arc};

/// A record's place in the store's one order. Starts at 1; 0 is "before everything".
pub type Revision = u64;

/// What comes back later.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// The most records that one read brings.
pub const MOST_READ: usize = 1_000;

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
pub trait Store: Send + Sync {
    /// Writes `batch`. Queued at the call, in order within its lane; refused with [`Error::Full`] when the lane is full.
    /// Resolves to the revision of each write, in the batch's order.
    fn commit(&self, lane: Lane, batch: Batch) -> Pending<Vec<Revision>>;

    /// The latest record under `key`, log or state. Blocks for one point lookup.
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error>;

    /// Up to `limit` records (at most 1,000) that `filter` admits with a revision above `after`, oldest first. For a
    /// state key, only its latest record is there. Blocks for one page.
    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error>;

    /// Where the records that [`Store::read`] would bring stand, and their keys, without their content.
    fn keys(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<(Revision, Key)>, Error> {
        let records = self.read(filter, after, limit)?;
        Ok(records.into_iter().map(|record| (record.revision, record.key)).collect())
    }

    /// The highest revision that is durable.
    fn head(&self) -> Revision;

    /// Which life of the store this is: minted when it was created. A cursor of another generation means nothing here.
    fn generation(&self) -> String;

    /// Follows `filter` from `after` on. Holds no more than a page in memory, however slowly it is read. What was
    /// replaced or deleted before it was read is not shown, and a deletion itself never is.
    fn watch(&self, filter: Filter, after: Revision) -> Result<Watch, Error>;

    /// Deletes log records of `filter` with a revision below `before`; state keys are never touched. Resolves to how many.
    fn trim(&self, filter: Filter, before: Revision) -> Pending<u64>;
}

/// Which queue a commit waits in: work in progress goes before new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Work in progress.
    Progress,
    /// Something new; refused first.
    Admission,
}

/// Writes that happen together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// In order.
    pub writes: Vec<Write>,
    /// What must hold, or nothing is written.
    pub expectations: Vec<Expectation>,
}

/// One write. A topic (the first two tokens of a key, [`Key::topic`]) holds either log keys or state keys, for good: the
/// first write decides.
#[derive(Debug, Clone)]
pub enum Write {
    /// Adds a record to a log key; all before it stay.
    Append(Key, Bytes),
    /// Replaces a state key's record.
    Put(Key, Bytes),
    /// Removes a state key's record; takes a revision of its own.
    Delete(Key),
}

/// A condition on the latest record of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    /// There is none.
    Absent(Key),
    /// It has this revision.
    At(Key, Revision),
    /// It has a later one: a batch given before this one, and not yet known to have been done, has been.
    Beyond(Key, Revision),
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place in the order.
    pub revision: Revision,
    /// Its key.
    pub key: Key,
    /// Its content.
    pub value: Bytes,
}

/// Why a store did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another commit was first: the key stands at this revision (0: it is absent).
    #[error("{key} stands at revision {actual}, not where it was expected")]
    Conflict {
        /// Which key.
        key: Key,
        /// Where it stands.
        actual: Revision,
    },
    /// The write queue is full; nothing was written.
    #[error("the store's write queue is full")]
    Full,
    /// No room on the device; nothing was written. Reading goes on.
    #[error("no room left on the device that holds the store")]
    StorageFull,
    /// The cursor is below what is kept.
    #[error("records up to revision {floor} have been trimmed")]
    Trimmed {
        /// The lowest cursor that misses nothing.
        floor: Revision,
    },
    /// A record is not what was written.
    #[error("the record at revision {revision} under {key} is damaged")]
    Corrupt {
        /// Where.
        revision: Revision,
        /// Which key.
        key: String,
    },
    /// Whether it was written could not be learnt; read back.
    #[error("whether the commit was written is unknown: {0}")]
    Unknown(String),
    /// The store is closed, or failed for good; nothing more will be written.
    #[error("the store takes no writes: {0}")]
    Closed(String),
    /// The key does not belong to the handle's owner, or is used as the other class.
    #[error("{0}")]
    Refused(String),
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
