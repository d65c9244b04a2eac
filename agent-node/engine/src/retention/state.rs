//! The state of retention sweeps.

use crate::counts::Removed;
use protocol::{
    ids::{ConversationId, Digest},
    time::WallTime,
};
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
    Topic {
        at: usize,
    },
    /// Counting the bytes of all journals: once, at the first sweep.
    CountingJournals {
        after: Revision,
        bytes: u64,
    },
    Journals,
    /// Searching for unreferenced content.
    Content,
}

/// What a commit of a sweep deleted.
pub(crate) enum SweepCommit {
    Records { records: u64 },
    Journals(JournalSweep),
    Content { digest: Digest, revision: Revision },
}

/// A page of journals.
#[derive(Debug, Default)]
pub(crate) struct JournalSweep {
    /// The records up to this revision are deleted or passed.
    pub(crate) until: Revision,
    /// Deleted records and their bytes, without those of `ended`.
    pub(crate) lines: u64,
    pub(crate) freed: u64,
    /// Records that stay because their conversation is open, with their bytes.
    pub(crate) passed: Vec<(ConversationId, u64)>,
    /// Conversations with passed records that have ended; their records are deleted.
    pub(crate) ended: Vec<ConversationId>,
}

/// The state of the current sweep, and what later sweeps need.
pub(crate) struct Retention {
    /// The most records looked at in one step of a sweep.
    pub(super) page: usize,
    pub(super) stage: SweepStage,
    pub(super) journal_bytes: u64,
    pub(super) has_counted: bool,
    /// The journals up to this revision hold only records that were passed.
    pub(super) journals_swept: Revision,
    /// Conversations with passed records: their number and bytes.
    pub(super) passed: BTreeMap<ConversationId, (u64, u64)>,
    pub(super) search: ContentSearch,
    pub(super) removed: Removed,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            page: PAGE,
            stage: SweepStage::default(),
            journal_bytes: 0,
            has_counted: false,
            journals_swept: 0,
            passed: BTreeMap::new(),
            search: ContentSearch::default(),
            removed: Removed::default(),
        }
    }
}

impl Retention {
    /// Counts the bytes of a new journal record.
    pub(crate) fn add_journal_bytes(&mut self, bytes: usize) {
        self.journal_bytes += bytes as u64;
    }

    /// Notes that a page of journals is deleted.
    pub(crate) fn apply(&mut self, sweep: JournalSweep) {
        let JournalSweep { until, mut lines, mut freed, passed, ended } = sweep;
        self.journals_swept = until;
        for (id, bytes) in passed {
            let records = self.passed.entry(id).or_default();
            *records = (records.0 + 1, records.1 + bytes);
        }
        for (more_lines, bytes) in ended.iter().filter_map(|id| self.passed.remove(id)) {
            lines += more_lines;
            freed += bytes;
        }
        self.removed.journal_lines += lines;
        self.journal_bytes = self.journal_bytes.saturating_sub(freed);
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
    /// The newest revision that was visible when a page of the current list was read.
    pub(crate) listed_until: Revision,
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
            _ => true,
        }
    }
}
