//! The state of retention sweeps.

use crate::{CommitId, counts::Removed};
use protocol::{ids::Digest, time::WallTime};
use std::collections::BTreeMap;
use store_types::Revision;

/// The most records looked at in one step of a sweep.
pub(crate) const PAGE: usize = 256;

/// The stage of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SweepStage {
    #[default]
    Idle,
    /// Deleting old records of a topic.
    Topic { at: usize, after: Revision, looked: usize },
    /// Counting the bytes of all journals: once, at the first sweep.
    CountingJournals { after: Revision, bytes: u64 },
    /// Finding journals to delete.
    Journals { after: Revision, looked: usize, before: Revision, freed: u64 },
    /// Searching for unreferenced content.
    Content,
}

/// What a commit of a sweep deleted.
pub(crate) enum SweepCommit {
    /// Records, and whether there are tasks among them.
    Records { records: u64, has_tasks: bool },
    /// One unreferenced content.
    Content { digest: protocol::ids::Digest, revision: Revision },
}

/// The state of the current sweep, and what later sweeps need.
pub(crate) struct Retention {
    /// The most records looked at in one step of a sweep.
    pub(crate) page: usize,
    pub(crate) stage: SweepStage,
    pub(crate) journal_bytes: u64,
    pub(crate) has_counted: bool,
    /// The running trim, and how many bytes it frees.
    pub(crate) trimming: Option<(CommitId, u64)>,
    pub(crate) search: ContentSearch,
    pub(crate) removed: Removed,
    /// Journals from this revision on are kept.
    #[cfg(test)]
    pub(crate) pinned_for_tests: Option<Revision>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            page: PAGE,
            stage: SweepStage::default(),
            journal_bytes: 0,
            has_counted: false,
            trimming: None,
            search: ContentSearch::default(),
            removed: Removed::default(),
            #[cfg(test)]
            pinned_for_tests: None,
        }
    }
}

impl Retention {
    /// Counts the bytes of a new journal record.
    pub(crate) fn add_journal_bytes(&mut self, bytes: usize) {
        self.journal_bytes += bytes as u64;
    }

    /// Deleted records since the start.
    pub(crate) fn removed(&self) -> Removed {
        self.removed
    }
}

/// Journals are read first: a reference that moves from a journal to another record during the search is then still found.
pub(crate) const JOURNAL: usize = 0;

/// The search for unreferenced content; it continues from sweep to sweep.
#[derive(Debug, Default)]
pub(crate) struct ContentSearch {
    pub(crate) stage: ContentSearchStage,
    /// Pages read in this sweep.
    pub(crate) pages: usize,
    /// Contents up to this revision have been checked.
    pub(crate) cursor: Revision,
    /// Contents without a known reference, with their revisions.
    pub(crate) unreferred: BTreeMap<Digest, Revision>,
    /// Whether records were deleted since the oldest content was listed.
    pub(crate) has_changed: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentSearchStage {
    #[default]
    Listing,
    /// Reading the records of a topic that may refer to content.
    Reading {
        topic: usize,
        after: Revision,
        /// Records after this revision refer to no listed content, or have written it again.
        until: Revision,
    },
    Deleting,
    Resting {
        until: WallTime,
    },
}

impl ContentSearch {
    /// Notes that records were deleted, so that content may have become unreferenced.
    pub(crate) fn note_change(&mut self) {
        self.has_changed = true;
        if matches!(self.stage, ContentSearchStage::Resting { .. }) {
            self.stage = ContentSearchStage::Listing;
        }
    }

    /// Whether journals below `before` may be deleted: while a round reads journals, only those that it has read.
    pub(crate) fn allows_trim(&self, before: Revision) -> bool {
        match self.stage {
            ContentSearchStage::Reading { topic: JOURNAL, after, until } => {
                before <= after.saturating_add(1) || after >= until
            }
            ContentSearchStage::Listing
            | ContentSearchStage::Reading { .. }
            | ContentSearchStage::Deleting
            | ContentSearchStage::Resting { .. } => true,
        }
    }
}
