//! The types of a store: keys, batches, errors, the read trait, and the reference store as plain data.
//! Pure: no I/O, no runtime, no clock.
//!
//! A store is one ordered log of keyed records. A *log* key keeps every record until it is trimmed; a *state* key keeps
//! only the latest. A topic (the first two tokens of a key) holds one of the two kinds. State records may stand in lists.

pub mod key;

pub mod class;
pub mod list;
pub mod memory;

pub use key::{Filter, Key};
pub use list::{ListEntry, ListOrder, ListPosition, ListQuery, ListedKey};
pub use memory::MemoryState;

use bytes::Bytes;
use protocol::problem::{Problem, Reason};

/// The position of a record in the store's order. Starts at 1; as a cursor, 0 is before the first record.
pub type Revision = u64;

/// The most records that one read returns.
pub const MAX_READ: usize = 1_000;

/// Reads of a store. It may show commits whose outcome is not reported yet.
pub trait Snapshot {
    /// The latest record under `key`, log or state. Blocks for one point lookup.
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error>;

    /// Up to `limit` records (at most 1,000) that `filter` admits with a revision above `after`, oldest first. A
    /// state key has only its latest record. Blocks for one page.
    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error>;

    /// The revisions and keys of the records that [`Self::read`] returns, without their values.
    fn keys(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<(Revision, Key)>, Error> {
        let records = self.read(filter, after, limit)?;
        Ok(records.into_iter().map(|record| (record.revision, record.key)).collect())
    }

    /// The first `limit` entries (at most 1,000) of a list. Blocks for one page.
    fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error>;

    /// The number of entries that match `query`. Reads each entry, and no record.
    fn count(&self, query: &ListQuery) -> Result<u64, Error>;

    /// The highest revision that is durable.
    fn head(&self) -> Revision;
}

/// Which queue a commit waits in: work in progress goes before new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    Progress,
    /// New work; refused first.
    Admission,
}

/// Writes that are committed together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub writes: Vec<Write>,
    /// If one does not hold, nothing is written.
    pub expectations: Vec<Expectation>,
}

/// One write. A topic (the first two tokens of a key, [`Key::topic`]) holds either log keys or state keys; its first
/// write decides which.
#[derive(Debug, Clone)]
pub enum Write {
    /// Adds a record to a log key.
    Append(Key, Bytes),
    /// Replaces a state key's record. Its list entries stay as they are.
    Put(Key, Bytes),
    /// Replaces a state key's record and its list entries, which are of different lists.
    PutListed(Key, Bytes, Vec<ListEntry>),
    /// The same with a text for searches ([`ListQuery::text`]). The other puts leave the text as it is.
    PutIndexed(Key, Bytes, Vec<ListEntry>, String),
    /// Removes a state key's record, its list entries and its text; takes a revision of its own.
    Delete(Key),
    /// Removes the records of a log key below a revision; takes a revision of its own.
    Trim(Key, Revision),
}

/// A condition on the latest record of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expectation {
    Absent(Key),
    /// It has this revision.
    At(Key, Revision),
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its position in the store's order.
    pub revision: Revision,
    pub key: Key,
    pub value: Bytes,
}

/// Why a store refused or failed an operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another commit was first: the key has this revision (0: it is absent).
    #[error("{key} stands at revision {actual}, not where it was expected")]
    Conflict { key: Key, actual: Revision },
    /// The write queue is full; nothing was written.
    #[error("the store's write queue is full")]
    Full,
    /// No room on the device; nothing was written. Reads still work.
    #[error("no room left on the device that holds the store")]
    StorageFull,
    /// Records above the cursor were trimmed.
    #[error("records up to revision {floor} have been trimmed")]
    Trimmed {
        /// The lowest cursor that misses nothing.
        floor: Revision,
    },
    /// A record does not match its checksum.
    #[error("the record at revision {revision} under {key} is damaged")]
    Corrupt { revision: Revision, key: String },
    /// Whether the commit was written is unknown; the caller reads back.
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
