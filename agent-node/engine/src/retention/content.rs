//! Content by digest is deleted when no record refers to it; an uploaded artifact only after its retention time, too.
//!
//! A round lists some contents with the revisions they stand at, then reads every record that may refer to one, then
//! deletes those that none referred to, each in a batch of its own that expects the content where it was listed. A
//! batch with a new reference to content writes the content again, so either the content exists afterwards or the
//! deletion fails. The exception is a conversation that has written it before: its journal refers to it, and is not
//! trimmed past the revision up to which the round has read ([`ContentSearch::allows_trim`]).
//!
//! A round takes as many pages as it needs, and is not recorded: a restart begins with the oldest content again.

use crate::{
    Output,
    agent::Agent,
    artifacts,
    commits::PendingCommit,
    content,
    context::Context,
    records::keys,
    retention::{
        state::{ContentSearchStage, JOURNAL, SweepCommit, SweepStage},
        sweeper::Sweeper,
    },
};
use protocol::ids::Digest;
use std::time::Duration;
use store_types::{Batch, Error, Expectation, Lane, Revision, Write};

/// The most contents that one round checks.
const WINDOW: usize = 8_192;
/// The most pages of one sweep.
const PAGES: usize = 80;
/// The pause after a complete search, if no record is deleted meanwhile.
const REST: Duration = Duration::from_secs(3_600);

impl Agent {
    /// One page of the search, or one deletion.
    pub(crate) fn sweep_content(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        self.retention.search.pages += 1;
        if self.retention.search.pages > PAGES {
            return self.end_content_sweep();
        }
        match self.retention.search.stage {
            ContentSearchStage::Resting { until } if cx.wall() < until => return self.end_content_sweep(),
            ContentSearchStage::Resting { .. } => self.retention.search.stage = ContentSearchStage::Listing,
            ContentSearchStage::Listing => self.list_content(cx)?,
            ContentSearchStage::Reading { topic, after, until } => {
                self.read_referring(topic, after, until, cx)?
            }
            ContentSearchStage::Deleting => return self.delete_content(cx),
        }
        cx.out.push(Output::Continue);
        Ok(())
    }

    fn end_content_sweep(&mut self) -> Result<(), Error> {
        self.retention.search.pages = 0;
        self.retention.stage = SweepStage::Idle;
        Ok(())
    }

    /// Lists contents, the oldest first, until the window is full or none is left.
    fn list_content(&mut self, cx: &Context<'_>) -> Result<(), Error> {
        let limit = self.retention.page;
        let search = &mut self.retention.search;
        if search.cursor == 0 {
            search.has_changed = false;
        }
        let page = cx.store.keys(&keys::all(&self.me, "content"), search.cursor, limit)?;
        let is_last = page.len() < limit;
        for (revision, key) in page {
            search.cursor = revision;
            let digest = key.tokens().get(2).and_then(|text| Digest::parse(text).ok());
            search.unreferred.extend(digest.map(|digest| (digest, revision)));
        }
        if is_last {
            search.cursor = 0;
        }
        if is_last || search.unreferred.len() >= WINDOW {
            search.stage = ContentSearchStage::Reading { topic: JOURNAL, after: 0, until: cx.store.head() };
        }
        Ok(())
    }

    /// Reads a page of records and removes the contents they refer to from the list.
    fn read_referring(
        &mut self,
        topic: usize,
        after: Revision,
        until: Revision,
        cx: &Context<'_>,
    ) -> Result<(), Error> {
        let limit = self.retention.page;
        let search = &mut self.retention.search;
        let Some(name) = keys::REFERRING.get(topic).filter(|_| !search.unreferred.is_empty()) else {
            search.stage = ContentSearchStage::Deleting;
            return Ok(());
        };
        let page = cx.store.read(&keys::all(&self.me, name), after, limit)?;
        for record in &page {
            content::refers_to(&record.value, &mut |digest| {
                search.unreferred.remove(&digest);
            });
        }
        let last = page.last().map(|record| record.revision);
        search.stage = match last.filter(|last| page.len() == limit && *last < until) {
            Some(after) => ContentSearchStage::Reading { topic, after, until },
            None => ContentSearchStage::Reading { topic: topic + 1, after: 0, until },
        };
        Ok(())
    }

    /// Deletes the next unreferenced content, unless it is a recently uploaded artifact.
    fn delete_content(&mut self, cx: &mut Context<'_>) -> Result<(), Error> {
        let search = &mut self.retention.search;
        let Some((digest, revision)) = search.unreferred.pop_first() else {
            let rest = Duration::from_millis(self.config.limits.keep_artifacts_ms).min(REST);
            search.stage = match search.cursor == 0 && !search.has_changed {
                true => ContentSearchStage::Resting { until: cx.wall().plus(rest) },
                false => ContentSearchStage::Listing,
            };
            cx.out.push(Output::Continue);
            return Ok(());
        };
        let (content, artifact) = (keys::content(&self.me, &digest), keys::artifact(&self.me, &digest));
        let mut batch = Batch {
            writes: vec![Write::Delete(content.clone())],
            expectations: vec![Expectation::At(content, revision)],
        };
        let limits = &self.config.limits;
        let sweeper = Sweeper { store: cx.store, me: &self.me, limits, wall: cx.wall() };
        match artifacts::last_put(cx.store, &self.me, &digest)? {
            Some((_, at)) if !sweeper.is_past(at, limits.keep_artifacts_ms) => {
                cx.out.push(Output::Continue);
                return Ok(());
            }
            Some((stands, _)) => {
                batch.writes.push(Write::Delete(artifact.clone()));
                batch.expectations.push(Expectation::At(artifact, stands));
            }
            None => batch.expectations.push(Expectation::Absent(artifact)),
        }
        let part = SweepCommit::Content { digest, revision };
        self.commit(Lane::Admission, batch, PendingCommit::Sweep(part), cx);
        Ok(())
    }

    pub(crate) fn content_settled(
        &mut self,
        digest: Digest,
        revision: Revision,
        result: Result<(), Error>,
        cx: &mut Context<'_>,
    ) {
        match result {
            Ok(()) => self.retention.removed.contents += 1,
            // It is referred to again.
            Err(Error::Conflict { .. }) => {}
            Err(error) => {
                self.retention.search.unreferred.insert(digest, revision);
                self.retention.search.pages = 0;
                return self.end_sweep(&error);
            }
        }
        self.continue_sweep(cx);
    }
}
