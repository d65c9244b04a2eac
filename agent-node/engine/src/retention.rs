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
    commits::{Commits, PendingCommit},
    content as large_content,
    context::Context,
    conversations::Conversations,
    records::{StepTimes, keys, lists, scan},
    retention::{
        state::{JournalSweep, PAGE, Retention, SweepCommit, SweepStage},
        sweeper::{SweepTopic, Sweeper},
    },
};
use protocol::{
    ids::{AgentId, ConversationId},
    limits::Limits,
};
use std::collections::BTreeSet;
use store_types::{Batch, Error, Lane, ListQuery, Revision, Write};

/// The topics that are swept by age, in order.
const TOPICS: &[SweepTopic] = &[
    SweepTopic::Receipt,
    SweepTopic::Reaction,
    SweepTopic::Tombstone,
    SweepTopic::DeadLetter,
    SweepTopic::Context,
    SweepTopic::Task,
    SweepTopic::Expense,
];

/// What a sweep needs of the agent.
pub(crate) struct RetentionContext<'a> {
    pub(crate) me: &'a AgentId,
    pub(crate) limits: &'a Limits,
    pub(crate) conversations: &'a Conversations,
    pub(crate) commits: &'a mut Commits,
}

impl RetentionContext<'_> {
    fn commit(&mut self, batch: Batch, part: SweepCommit, cx: &mut Context<'_>) {
        self.commits.issue(Lane::Progress, batch, PendingCommit::Sweep(part), cx);
    }

    /// Whether the journal of a conversation must stay whole.
    fn keeps_journal(&self, id: &ConversationId) -> bool {
        self.conversations.has(id)
    }
}

impl Retention {
    /// Begins a sweep, unless one is under way.
    pub(crate) fn begin_sweep(&mut self, own: &mut RetentionContext<'_>, cx: &mut Context<'_>) {
        if self.stage == SweepStage::Idle {
            self.stage = SweepStage::Topic { at: 0 };
            self.continue_sweep(own, cx);
        }
    }

    /// Continues the sweep with one page.
    pub(crate) fn continue_sweep(&mut self, own: &mut RetentionContext<'_>, cx: &mut Context<'_>) {
        let swept = match self.stage {
            SweepStage::Idle => return,
            SweepStage::Topic { at } => self.sweep_topic(at, own, cx),
            SweepStage::CountingJournals { after, bytes } => self.count_journals(after, bytes, own, cx),
            SweepStage::Journals => self.sweep_journals(own, cx),
            SweepStage::Content => self.sweep_content(own, cx),
        };
        if let Err(error) = swept {
            self.end_sweep(&error, own);
        }
    }

    fn end_sweep(&mut self, error: &Error, own: &RetentionContext<'_>) {
        self.stage = SweepStage::Idle;
        tracing::warn!(agent = %own.me, %error, "old records could not be deleted");
    }

    fn sweep_topic(
        &mut self,
        at: usize,
        own: &mut RetentionContext<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let Some(&topic) = TOPICS.get(at) else {
            self.stage = match self.has_counted {
                true => SweepStage::Journals,
                false => SweepStage::CountingJournals { after: 0, bytes: 0 },
            };
            cx.out.push(Output::Continue);
            return Ok(());
        };
        let sweeper = Sweeper { store: cx.store, me: own.me, limits: own.limits, wall: cx.wall() };
        let until = Some(sweeper.until(sweeper.keep_ms(topic)).0);
        let due = ListQuery { until, ..ListQuery::oldest(lists::by_age(own.me, topic.token())) };
        let page = cx.store.list(&due, self.page)?;
        let (mut batch, mut is_last) = (Batch::default(), page.len() < self.page);
        for listed in page {
            // The rest is in the next page, which begins here.
            if batch.writes.len() >= PAGE || !sweeper.delete(topic, listed.key, &mut batch)? {
                is_last = false;
                break;
            }
        }
        if is_last {
            self.stage = SweepStage::Topic { at: at + 1 };
        }
        if batch.writes.is_empty() {
            cx.out.push(Output::Continue);
            return Ok(());
        }
        let deleted = SweepCommit::Records { records: batch.writes.len() as u64 };
        own.commit(batch, deleted, cx);
        Ok(())
    }

    pub(crate) fn sweep_settled(
        &mut self,
        part: SweepCommit,
        result: Result<(), Error>,
        own: &mut RetentionContext<'_>,
        cx: &mut Context<'_>,
    ) {
        match (part, result) {
            (SweepCommit::Content { digest, revision }, result) => {
                return self.content_settled(digest, revision, result, own, cx);
            }
            (SweepCommit::Records { .. } | SweepCommit::Journals(_), Err(error)) => {
                return self.end_sweep(&error, own);
            }
            (SweepCommit::Records { records }, Ok(())) => self.removed.records += records,
            (SweepCommit::Journals(sweep), Ok(())) => self.apply(sweep),
        }
        self.search.note_change();
        self.continue_sweep(own, cx);
    }

    fn count_journals(
        &mut self,
        after: Revision,
        bytes: u64,
        own: &RetentionContext<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        let page = cx.store.read(&keys::all(own.me, "journal"), after, self.page)?;
        let bytes = bytes + page.iter().map(|record| record.value.len() as u64).sum::<u64>();
        self.stage = match page.last().filter(|_| page.len() == self.page) {
            Some(last) => SweepStage::CountingJournals { after: last.revision, bytes },
            None => {
                self.has_counted = true;
                self.journal_bytes = bytes;
                SweepStage::Journals
            }
        };
        cx.out.push(Output::Continue);
        Ok(())
    }

    /// Deletes one page of journals by age and by size, the oldest records first. Those of open conversations stay until
    /// the conversations have ended.
    fn sweep_journals(&mut self, own: &mut RetentionContext<'_>, cx: &mut Context<'_>) -> Result<(), Error> {
        let (limit, mut before) = (self.page, self.journals_swept + 1);
        let mut sweep = JournalSweep { until: self.journals_swept, ..JournalSweep::default() };
        let mut ended: BTreeSet<ConversationId> = BTreeSet::new();
        if self.search.allows_trim(before) {
            let passed = self.passed.keys().filter(|id| !own.keeps_journal(id));
            ended = passed.take(limit).cloned().collect();
            sweep.ended.extend(ended.iter().cloned());
        }
        let mut is_done = false;
        if ended.is_empty() {
            is_done = self.find_old_journals(&mut sweep, &mut ended, own, cx)?;
            before = sweep.until + 1;
        }
        if ended.is_empty() {
            self.apply(sweep);
            if is_done {
                self.stage = SweepStage::Content;
            }
            cx.out.push(Output::Continue);
            return Ok(());
        }
        let mut batch = Batch::default();
        let limits = own.limits;
        let sweeper = Sweeper { store: cx.store, me: own.me, limits, wall: cx.wall() };
        for id in &ended {
            batch.writes.push(Write::Trim(keys::journal(own.me, id), before));
            sweeper.delete_checkpoints(id, before, &mut batch)?;
        }
        own.commit(batch, SweepCommit::Journals(sweep), cx);
        Ok(())
    }

    /// Reads a page of journal records from where the last one ended, up to the first that stays. Adds the conversations
    /// whose records are deleted to `ended`. Returns true if no more records are due.
    fn find_old_journals(
        &self,
        sweep: &mut JournalSweep,
        ended: &mut BTreeSet<ConversationId>,
        own: &RetentionContext<'_>,
        cx: &Context<'_>,
    ) -> Result<bool, Error> {
        let page = cx.store.read(&keys::all(own.me, "journal"), sweep.until, self.page)?;
        let is_last = page.len() < self.page;
        let limits = own.limits;
        let sweeper = Sweeper { store: cx.store, me: own.me, limits, wall: cx.wall() };
        let until = sweeper.until(limits.keep_journals_ms);
        for record in page {
            let step: StepTimes = large_content::outline(&record.value)?;
            let is_old = step.events.last().is_none_or(|event| event.wall <= until);
            let kept = limits.keep_journal_bytes.saturating_add(sweep.freed);
            let is_excess = self.journal_bytes > kept;
            if !(is_old || is_excess) || !self.search.allows_trim(record.revision + 1) {
                return Ok(true);
            }
            sweep.until = record.revision;
            let Some(id) = scan::conversation_id(&record.key) else { continue };
            let bytes = record.value.len() as u64;
            if own.keeps_journal(&id) {
                sweep.passed.push((id, bytes));
            } else {
                sweep.freed += bytes;
                sweep.lines += 1;
                ended.insert(id);
            }
        }
        Ok(is_last)
    }
}
