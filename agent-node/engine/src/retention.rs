//! Retention: ended work is deleted, each kind of record after its own time, journals also by size (DESIGN §6).
//!
//! A sweep reads one page of what is due, deletes it in one commit, and goes on once that has settled, until nothing is
//! due. It handles other inputs in between. What is due costs a sweep time, and nothing else does: rows are found by a list
//! of their ages, journals from where the last sweep stopped.

mod content;
pub(crate) mod state;
mod sweeper;
#[cfg(test)]
mod tests;

use crate::{
    Output,
    agent::Agent,
    commits::PendingCommit,
    content as large_content,
    context::Context,
    faults::{self, PlantedFault},
    records::{StepTimes, keys, lists, scan},
    retention::{
        state::{JournalSweep, PAGE, SweepCommit, SweepStage},
        sweeper::{SweepTopic, Sweeper},
    },
};
use protocol::ids::ConversationId;
use std::collections::BTreeSet;
use store_types::{Batch, Error, Lane, ListQuery, Revision, Write};

/// The topics that are swept by age, in order.
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
            self.retention.stage = SweepStage::Topic { at: 0 };
            self.continue_sweep(cx);
        }
    }

    /// Continues the sweep with one page.
    pub(crate) fn continue_sweep(&mut self, cx: &mut Context<'_>) {
        let swept = match self.retention.stage {
            SweepStage::Idle => return,
            SweepStage::Topic { at } => self.sweep_topic(at, cx),
            SweepStage::CountingJournals { after, bytes } => self.count_journals(after, bytes, cx),
            SweepStage::Journals => self.sweep_journals(cx),
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

    fn sweep_topic(&mut self, at: usize, cx: &mut Context<'_>) -> Result<(), Error> {
        let Some(&topic) = TOPICS.get(at) else {
            self.retention.stage = match self.retention.has_counted {
                true => SweepStage::Journals,
                false => SweepStage::CountingJournals { after: 0, bytes: 0 },
            };
            cx.out.push(Output::Continue);
            return Ok(());
        };
        let sweeper = Sweeper { store: cx.store, me: &self.me, limits: &self.config.limits, wall: cx.wall() };
        let until = Some(sweeper.until(sweeper.keep_ms(topic)).0);
        let due = ListQuery { until, ..ListQuery::oldest(lists::by_age(&self.me, topic.token())) };
        let page = cx.store.list(&due, self.retention.page)?;
        let (mut batch, mut is_last) = (Batch::default(), page.len() < self.retention.page);
        for listed in page {
            // The rest is in the next page, which begins here.
            if batch.writes.len() >= PAGE || !sweeper.delete(topic, listed.key, &mut batch)? {
                is_last = false;
                break;
            }
        }
        if is_last {
            self.retention.stage = SweepStage::Topic { at: at + 1 };
        }
        if batch.writes.is_empty() {
            cx.out.push(Output::Continue);
            return Ok(());
        }
        let deleted = SweepCommit::Records { records: batch.writes.len() as u64 };
        self.commit_sweep(batch, deleted, cx);
        Ok(())
    }

    fn commit_sweep(&mut self, batch: Batch, part: SweepCommit, cx: &mut Context<'_>) {
        self.commit(Lane::Progress, batch, PendingCommit::Sweep(part), cx);
    }

    pub(crate) fn sweep_settled(
        &mut self,
        part: SweepCommit,
        result: Result<(), Error>,
        cx: &mut Context<'_>,
    ) {
        match (part, result) {
            (SweepCommit::Content { digest, revision }, result) => {
                return self.content_settled(digest, revision, result, cx);
            }
            (SweepCommit::Records { .. } | SweepCommit::Journals(_), Err(error)) => {
                return self.end_sweep(&error);
            }
            (SweepCommit::Records { records }, Ok(())) => self.retention.removed.records += records,
            (SweepCommit::Journals(sweep), Ok(())) => self.retention.apply(sweep),
        }
        self.retention.search.note_change();
        self.continue_sweep(cx);
    }

    fn count_journals(&mut self, after: Revision, bytes: u64, cx: &mut Context<'_>) -> Result<(), Error> {
        let page = cx.store.read(&keys::all(&self.me, "journal"), after, self.retention.page)?;
        let bytes = bytes + page.iter().map(|record| record.value.len() as u64).sum::<u64>();
        self.retention.stage = match page.last().filter(|_| page.len() == self.retention.page) {
            Some(last) => SweepStage::CountingJournals { after: last.revision, bytes },
            None => {
                self.retention.has_counted = true;
                self.retention.journal_bytes = bytes;
                SweepStage::Journals
            }
        };
        cx.out.push(Output::Continue);
        Ok(())
    }

    /// Deletes one page of journals by age and by size, the oldest records first. Those of open conversations stay until
    /// the conversations have ended.
    fn sweep_journals(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let (limit, mut before) = (self.retention.page, self.retention.journals_swept + 1);
        let mut sweep = JournalSweep { until: self.retention.journals_swept, ..JournalSweep::default() };
        let mut ended: BTreeSet<ConversationId> = BTreeSet::new();
        if self.retention.search.allows_trim(before) {
            let passed = self.retention.passed.keys().filter(|id| !self.keeps_journal(id));
            ended = passed.take(limit).cloned().collect();
            sweep.ended.extend(ended.iter().cloned());
        }
        let mut is_done = false;
        if ended.is_empty() {
            is_done = self.find_old_journals(&mut sweep, &mut ended, cx)?;
            before = sweep.until + 1;
        }
        if ended.is_empty() {
            self.retention.apply(sweep);
            if is_done {
                self.retention.stage = SweepStage::Content;
            }
            cx.out.push(Output::Continue);
            return Ok(());
        }
        let mut batch = Batch::default();
        let limits = &self.config.limits;
        let sweeper = Sweeper { store: cx.store, me: &self.me, limits, wall: cx.wall() };
        for id in &ended {
            batch.writes.push(Write::Trim(keys::journal(&self.me, id), before));
            sweeper.delete_checkpoints(id, before, &mut batch)?;
        }
        self.commit_sweep(batch, SweepCommit::Journals(sweep), cx);
        Ok(())
    }

    /// Reads a page of journal records from where the last one ended, up to the first that stays. Adds the conversations
    /// whose records are deleted to `ended`. Returns true if no more records are due.
    fn find_old_journals(
        &self,
        sweep: &mut JournalSweep,
        ended: &mut BTreeSet<ConversationId>,
        cx: &Context<'_>,
    ) -> Result<bool, Error> {
        let page = cx.store.read(&keys::all(&self.me, "journal"), sweep.until, self.retention.page)?;
        let is_last = page.len() < self.retention.page;
        let limits = &self.config.limits;
        let sweeper = Sweeper { store: cx.store, me: &self.me, limits, wall: cx.wall() };
        let until = sweeper.until(limits.keep_journals_ms);
        let open = self.conversations.values().map(|conversation| conversation.first());
        let oldest_open = open.filter(|first| *first > 0).min().unwrap_or(Revision::MAX);
        for record in page {
            let step: StepTimes = large_content::outline(&record.value)?;
            let is_old = step.events.last().is_none_or(|event| event.wall <= until);
            let kept = limits.keep_journal_bytes.saturating_add(sweep.freed);
            let is_excess = self.retention.journal_bytes > kept;
            let is_pinned =
                faults::is_planted(PlantedFault::PinnedJournals) && record.revision >= oldest_open;
            if is_pinned || !(is_old || is_excess) || !self.retention.search.allows_trim(record.revision + 1)
            {
                return Ok(true);
            }
            sweep.until = record.revision;
            let Some(id) = scan::conversation_id(&record.key) else { continue };
            let bytes = record.value.len() as u64;
            if self.keeps_journal(&id) {
                sweep.passed.push((id, bytes));
            } else {
                sweep.freed += bytes;
                sweep.lines += 1;
                ended.insert(id);
            }
        }
        Ok(is_last)
    }

    /// Whether the journal of a conversation must stay whole.
    fn keeps_journal(&self, id: &ConversationId) -> bool {
        #[cfg(test)]
        if self.retention.kept_for_tests.contains(id) {
            return true;
        }
        self.has_open(id)
    }
}
