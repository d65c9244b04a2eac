//! Retention: ended work is deleted, each kind of record after its own time, journals also by size (DESIGN §6).
//!
//! A sweep reads the topics one page at a time and handles other inputs in between. It deletes the old records of a page in
//! one commit and reads the next page once that has settled.

mod content;
pub(crate) mod state;
mod sweeper;
#[cfg(test)]
mod tests;

use crate::{
    CommitId, Observation, Output,
    agent::Agent,
    commits::PendingCommit,
    content as large_content,
    context::Context,
    records::{Step, keys},
    retention::{
        state::{SweepCommit, SweepStage},
        sweeper::{RecordAge, SweepTopic, Sweeper},
    },
};
use protocol::ids::AgentId;
use store_types::{Batch, Error, Filter, Lane, Revision};

/// The most records of one topic looked at in one sweep; the rest waits for the next.
const MOST: usize = 10_000;

/// The topics that are swept by age, in order; each is ordered by age.
const TOPICS: &[SweepTopic] = &[
    SweepTopic::Receipt,
    SweepTopic::Reaction,
    SweepTopic::Tombstone,
    SweepTopic::DeadLetter,
    SweepTopic::Task,
];

impl Agent {
    /// Begins a sweep, unless one is under way.
    pub(crate) fn begin_sweep(&mut self, cx: &mut Context<'_>) {
        if self.retention.stage == SweepStage::Idle {
            self.retention.stage = SweepStage::Topic { at: 0, after: 0, looked: 0 };
            self.continue_sweep(cx);
        }
    }

    /// Continues the sweep with one page.
    pub(crate) fn continue_sweep(&mut self, cx: &mut Context<'_>) {
        let swept = match self.retention.stage {
            SweepStage::Idle => return,
            SweepStage::Topic { at, after, looked } => self.sweep_topic(at, after, looked, cx),
            SweepStage::CountingJournals { after, bytes } => self.count_journals(after, bytes, cx),
            SweepStage::Journals { after, looked, before, freed } => {
                self.sweep_journals(after, looked, before, freed, cx)
            }
            SweepStage::Content => self.sweep_content(cx),
        };
        if let Err(error) = swept {
            self.end_sweep(&error);
        }
    }

    fn end_sweep(&mut self, error: &Error) {
        self.retention.stage = SweepStage::Idle;
        tracing::warn!(agent = %self.me, %error, "old records could not be deleted");
    }

    fn sweep_topic(
        &mut self,
        at: usize,
        after: Revision,
        looked: usize,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let Some(&topic) = TOPICS.get(at) else {
            self.retention.stage = match self.retention.has_counted {
                true => SweepStage::Journals { after: 0, looked: 0, before: 0, freed: 0 },
                false => SweepStage::CountingJournals { after: 0, bytes: 0 },
            };
            cx.out.push(Output::Continue);
            return Ok(());
        };
        let page = cx.store.read(&keys::all(&self.me, topic.token()), after, self.retention.page)?;
        let last = page.last().map(|record| record.revision);
        let (mut deletes, mut is_done) =
            (Vec::new(), page.len() < self.retention.page || looked + self.retention.page >= MOST);
        let sweeper = Sweeper { store: cx.store, me: &self.me, limits: &self.config.limits, wall: cx.wall() };
        let mut next = last;
        for record in page {
            match sweeper.judge(topic, record, &mut deletes)? {
                RecordAge::Old => {}
                RecordAge::OldWithRest => {
                    // The same page again, unless the sweep has looked at enough.
                    (next, is_done) = (Some(after), looked + self.retention.page >= MOST);
                    break;
                }
                RecordAge::Young => {
                    is_done = true;
                    break;
                }
            }
        }
        self.retention.stage = match next.filter(|_| !is_done) {
            Some(after) => SweepStage::Topic { at, after, looked: looked + self.retention.page },
            None => SweepStage::Topic { at: at + 1, after: 0, looked: 0 },
        };
        if deletes.is_empty() {
            cx.out.push(Output::Continue);
            return Ok(());
        }
        let part =
            SweepCommit::Records { records: deletes.len() as u64, has_tasks: topic == SweepTopic::Task };
        let batch = Batch { writes: deletes, expectations: Vec::new() };
        self.commit(Lane::Admission, batch, PendingCommit::Sweep(part), cx);
        Ok(())
    }

    pub(crate) fn sweep_settled(
        &mut self,
        part: SweepCommit,
        result: Result<(), Error>,
        cx: &mut Context<'_>,
    ) {
        match (part, result) {
            (SweepCommit::Records { .. }, Err(error)) => self.end_sweep(&error),
            (SweepCommit::Records { records, has_tasks }, Ok(())) => {
                self.retention.removed.records += records;
                self.retention.search.note_change();
                if has_tasks {
                    cx.observe(Observation::TasksRemoved);
                }
                self.continue_sweep(cx);
            }
            (SweepCommit::Content { digest, revision }, result) => {
                self.content_settled(digest, revision, result, cx);
            }
        }
    }

    fn count_journals(&mut self, after: Revision, bytes: u64, cx: &mut Context<'_>) -> Result<(), Error> {
        let page = cx.store.read(&keys::all(&self.me, "journal"), after, self.retention.page)?;
        let bytes = bytes + page.iter().map(|record| record.value.len() as u64).sum::<u64>();
        self.retention.stage = match page.last().filter(|_| page.len() == self.retention.page) {
            Some(last) => SweepStage::CountingJournals { after: last.revision, bytes },
            None => {
                self.retention.has_counted = true;
                self.retention.journal_bytes = bytes;
                SweepStage::Journals { after: 0, looked: 0, before: 0, freed: 0 }
            }
        };
        cx.out.push(Output::Continue);
        Ok(())
    }

    /// Finds the revision below which journals are deleted: by age and by size, the oldest first, none of open conversations.
    fn sweep_journals(
        &mut self,
        after: Revision,
        looked: usize,
        mut before: Revision,
        mut freed: u64,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let open = self.conversations.values().map(|conversation| conversation.first());
        let open = open.chain(self.parked.firsts()).filter(|first| *first > 0);
        let open_from = open.min().unwrap_or(Revision::MAX);
        #[cfg(test)]
        let open_from = open_from.min(self.retention.pinned_for_tests.unwrap_or(Revision::MAX));
        let page = cx.store.read(&keys::all(&self.me, "journal"), after, self.retention.page)?;
        let last = page.last().map(|record| record.revision);
        let mut is_done = page.len() < self.retention.page || looked + self.retention.page >= MOST;
        let limits = &self.config.limits;
        let sweeper = Sweeper { store: cx.store, me: &self.me, limits, wall: cx.wall() };
        for record in page {
            let step: Step = large_content::decode(&self.me, cx.store, &record.value)?;
            let is_old =
                step.events.last().is_none_or(|event| sweeper.is_past(event.wall, limits.keep_journals_ms));
            let excess = self.retention.journal_bytes.saturating_sub(limits.keep_journal_bytes + freed);
            if record.revision >= open_from || !is_old && excess == 0 {
                is_done = true;
                break;
            }
            freed += record.value.len() as u64;
            before = record.revision + 1;
        }
        if let Some(after) = last.filter(|_| !is_done) {
            self.retention.stage =
                SweepStage::Journals { after, looked: looked + self.retention.page, before, freed };
            cx.out.push(Output::Continue);
            return Ok(());
        }
        self.retention.stage = SweepStage::Content;
        if before > 0 && self.retention.search.allows_trim(before) {
            let id = self.next_commit_id();
            self.retention.trimming = Some((id, freed));
            cx.out.push(Output::Trim(id, journal_filter(&self.me), before));
        } else {
            cx.out.push(Output::Continue);
        }
        Ok(())
    }

    pub(crate) fn trim_settled(&mut self, id: CommitId, result: Result<u64, Error>, cx: &mut Context<'_>) {
        let Some((_, freed)) = self.retention.trimming.take_if(|(trimming, _)| *trimming == id) else {
            return;
        };
        match result {
            Ok(lines) => {
                let retention = &mut self.retention;
                retention.journal_bytes = retention.journal_bytes.saturating_sub(freed);
                retention.removed.journal_lines += lines;
                retention.search.note_change();
                self.continue_sweep(cx);
            }
            Err(error) => self.end_sweep(&error),
        }
    }
}

fn journal_filter(me: &AgentId) -> Filter {
    keys::all(me, "journal")
}
