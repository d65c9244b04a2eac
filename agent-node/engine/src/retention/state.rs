//! How far the sweeps have come, kept from one sweep to the next.

use crate::{CommitId, counts::Removed};
use protocol::{ids::Digest, time::WallTime};
use std::collections::BTreeMap;
use store_types::Revision;

/// The most records looked at in one step of a sweep.
pub(crate) const PAGE: usize = 256;

/// Where a sweep is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SweepStage {
    #[default]
    Idle,
    /// Deleting old records of a topic.
    Topic { at: usize, after: Revision, looked: usize },
    /// Counting the bytes of all journals: once, at the first sweep.
    CountingJournals { after: Revision, bytes: u64 },
    /// Looking for journals that may go.
    Journals { after: Revision, looked: usize, before: Revision, freed: u64 },
    /// Searching for content that nothing refers to.
    Content,
}

/// What a commit of a sweep deleted.
pub(crate) enum SweepCommit {
    /// So many records, tasks among them or not.
    Records { records: u64, has_tasks: bool },
    /// One content.
    Content { digest: protocol::ids::Digest, revision: Revision },
}

/// What is kept up from one sweep to the next.
pub(crate) struct Retention {
    /// The most records looked at in one step of a sweep.
    pub(crate) page: usize,
    pub(crate) stage: SweepStage,
    pub(crate) journal_bytes: u64,
    pub(crate) has_counted: bool,
    /// The trim under way, and how many bytes it frees.
    pub(crate) trimming: Option<(CommitId, u64)>,
    pub(crate) search: ContentSearch,
    pub(crate) removed: Removed,
    /// Journals from here on belong to conversations that a test has open.
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
    /// A line of that many bytes was added to a journal.
    pub(crate) fn add_journal_bytes(&mut self, bytes: usize) {
        self.journal_bytes += bytes as u64;
    }

    /// What was deleted since the start.
    pub(crate) fn removed(&self) -> Removed {
        self.removed
    }
}

/// Journals are read before everything else: what they lose later is recorded in what is read later.
pub(crate) const JOURNAL: usize = 0;

/// The search for content that nothing refers to, carried on from sweep to sweep.
#[derive(Debug, Default)]
pub(crate) struct ContentSearch {
    pub(crate) stage: ContentSearchStage,
    /// Pages read in this sweep.
    pub(crate) pages: usize,
    /// Contents up to here have had their round.
    pub(crate) cursor: Revision,
    /// Contents nothing is known to refer to, where they stand.
    pub(crate) unreferred: BTreeMap<Digest, Revision>,
    /// Whether something was deleted since the oldest content was listed.
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
        /// What was written later refers to nothing that was listed, or has written it again.
        until: Revision,
    },
    Deleting,
    Resting {
        until: WallTime,
    },
}

impl ContentSearch {
    /// Something was deleted: content may have lost what referred to it.
    pub(crate) fn note_change(&mut self) {
        self.has_changed = true;
        if matches!(self.stage, ContentSearchStage::Resting { .. }) {
            self.stage = ContentSearchStage::Listing;
        }
    }

    /// Whether journals below `before` may go: while a round reads journals, only those that it has read.
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
