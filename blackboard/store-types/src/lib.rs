//! What a store holds and how it is read: keys, batches, errors, the read trait, and the reference store as plain data.
//! Pure: no I/O, no runtime, no clock.
//!
//! A store is one ordered log of keyed records. A *log* key keeps every record until it is trimmed; a *state* key keeps
//! only the latest. A topic (the first two tokens of a key) holds one of the two kinds for good.

pub mod key;

pub mod class;
pub mod memory;

pub use key::{Filter, Key};
pub use memory::MemoryState;

use bytes::Bytes;
use protocol::problem::{Problem, Reason};

/// A record's place in the store's one order. Starts at 1; 0 is "before everything".
pub type Revision = u64;

/// The most records that one read brings.
pub const MOST_READ: usize = 1_000;

/// A consistent way to read a store. It may show commits whose outcome has not been reported yet.
pub trait Snapshot {
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

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let reason = match &error {
            Error::Full => Reason::Overloaded,
            Error::StorageFull => Reason::StorageFull,
            Error::Trimmed { .. } => Reason::Trimmed,
            Error::Unknown(_) | Error::Closed(_) => Reason::StoreUnavailable,
            Error::Conflict { .. } | Error::Corrupt { .. } | Error::Refused(_) => Reason::Internal,
        };
        let problem = Self::new(reason, error.to_string());
        match error {
            Error::Trimmed { floor } => problem.with("floor", floor),
            Error::Conflict { .. }
            | Error::Full
            | Error::StorageFull
            | Error::Corrupt { .. }
            | Error::Unknown(_)
            | Error::Closed(_)
            | Error::Refused(_) => problem,
        }
    }
}
