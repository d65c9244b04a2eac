//! What a post or a change of an entry is decided to write, and what is answered.

use protocol::{
    ids::EntryId,
    spaces::{Entry, EntryLink, EntryState, Slug},
};
use serde::{Deserialize, Serialize};
use store::Batch;

/// What a post or a change left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryOutcome {
    pub id: EntryId,
    pub version: u64,
    pub state: EntryState,
    /// The slug that a proposal got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<Slug>,
    /// What a merged proposal became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub became: Option<EntryId>,
    /// Whether the same post was recorded before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub duplicate: bool,
}

impl EntryOutcome {
    /// What a write left that ended with `entry`.
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id.clone(),
            version: entry.version,
            state: entry.state,
            slug: entry.slug.clone(),
            became: entry.links.get(&EntryLink::Became).cloned(),
            duplicate: false,
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A decided write, or the outcome of the same post before.
#[derive(Debug)]
pub(crate) enum EntryDecision {
    /// Nothing has to be written.
    Done(EntryOutcome),
    /// This has to be committed.
    Write(Box<EntryWrite>),
}

/// A batch, and the entry as it is after it.
#[derive(Debug)]
pub(crate) struct EntryWrite {
    pub(crate) batch: Batch,
    pub(crate) entry: Entry,
    /// Whether its author has one entry more with it.
    pub(crate) is_new: bool,
}
