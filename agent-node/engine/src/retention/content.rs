//! Deletes content (texts stored by digest) that no record refers to. An uploaded artifact must also be older than its
//! retention time.
//!
//! A round has three stages. It lists some contents with their revisions. It reads every record that may refer to one of
//! them. It deletes those without a reference, each in a batch of its own that fails if the content's revision has changed.
//! A batch with a new reference to content writes the content again, so either the deletion fails or the content is
//! written after it. The exception is a conversation that has written the content before: its journal refers to the
//! content, and is not trimmed past the revision up to which the round has read ([`ContentSearch::allows_trim`]).
//!
//! The store may show commits that have not settled in one step and not in the next. References are read from views only
//! that are at least as new as those of the list.
//!
//! A round may last for several sweeps. Its progress is only in memory: a restart begins with the oldest content again.

use crate::{
    Output, artifacts, content,
    context::Context,
    records::keys,
    retention::{
        RetentionContext,
        state::{ContentSearchStage, JOURNAL, Retention, SweepCommit, SweepStage},
        sweeper::Sweeper,
    },
};
use protocol::ids::Digest;
use std::time::Duration;
use store_types::{Batch, Error, Expectation, Revision, Write};

/// The number of contents at which a round stops listing; the last page may exceed it.
const MAX_LISTED: usize = 65_536;
/// The most pages read and contents deleted in one sweep; the next sweep continues the round.
const MAX_PAGES_PER_SWEEP: usize = 800;
/// The longest pause after all contents have been checked. It ends early if a record is deleted.
const MAX_PAUSE: Duration = Duration::from_secs(3_600);

impl Retention {
    /// Reads one page of the search, or deletes one content.
    pub(super) fn sweep_content(
        &mut self,
        own: &mut RetentionContext<'_>,
        cx: &mut Context<'_>,
    ) -> Result<(), Error> {
        self.search.pages += 1;
        if self.search.pages > MAX_PAGES_PER_SWEEP {
            return self.end_content_sweep();
        }
        match self.search.stage {
            ContentSearchStage::Resting { until } if cx.wall() < until => return self.end_content_sweep(),
            ContentSearchStage::Resting { .. } => self.search.stage = ContentSearchStage::Listing,
            ContentSearchStage::Listing => self.list_content(own, cx)?,
            ContentSearchStage::Reading { topic, after, until } => {
                self.read_references(topic, after, until, own, cx)?
            }
            ContentSearchStage::Deleting => return self.delete_content(own, cx),
        }
        cx.out.push(Output::Continue);
        Ok(())
    }

    fn end_content_sweep(&mut self) -> Result<(), Error> {
        self.search.pages = 0;
        self.stage = SweepStage::Idle;
        Ok(())
    }

    /// Lists contents, the oldest first, a page at a time, until [`MAX_LISTED`] are listed or none is left.
    fn list_content(&mut self, own: &RetentionContext<'_>, cx: &Context<'_>) -> Result<(), Error> {
        let limit = self.page;
        let search = &mut self.search;
        if search.cursor == 0 {
            search.has_changed = false;
        }
        let page = cx.store.keys(&keys::all(own.me, "content"), search.cursor, limit)?;
        let is_last = page.len() < limit;
        search.listed_until = search.listed_until.max(cx.store.head());
        for (revision, key) in page {
            search.cursor = revision;
            let digest = key.tokens().get(2).and_then(|text| Digest::parse(text).ok());
            search.unreferred.extend(digest.map(|digest| (digest, revision)));
        }
        if is_last {
            search.cursor = 0;
        }
        if is_last || search.unreferred.len() >= MAX_LISTED {
            let until = std::mem::take(&mut search.listed_until);
            search.stage = ContentSearchStage::Reading { topic: JOURNAL, after: 0, until };
        }
        Ok(())
    }

    /// Reads a page of records and removes the contents they refer to from the list.
    fn read_references(
        &mut self,
        topic: usize,
        after: Revision,
        until: Revision,
        own: &RetentionContext<'_>,
        cx: &Context<'_>,
    ) -> Result<(), Error> {
        if cx.store.head() < until {
            return Ok(());
        }
        let limit = self.page;
        let search = &mut self.search;
        let Some(name) = keys::REFERRING.get(topic).filter(|_| !search.unreferred.is_empty()) else {
            search.stage = ContentSearchStage::Deleting;
            return Ok(());
        };
        let page = cx.store.read(&keys::all(own.me, name), after, limit)?;
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

    /// Deletes the next unreferenced content, unless it is an artifact whose retention time since its last upload is not over.
    fn delete_content(&mut self, own: &mut RetentionContext<'_>, cx: &mut Context<'_>) -> Result<(), Error> {
        let search = &mut self.search;
        let Some((digest, revision)) = search.unreferred.pop_first() else {
            // A cursor of 0 means that the round has listed the last content.
            let pause = Duration::from_millis(own.limits.keep_artifacts_ms).min(MAX_PAUSE);
            search.stage = match search.cursor == 0 && !search.has_changed {
                true => ContentSearchStage::Resting { until: cx.wall().plus(pause) },
                false => ContentSearchStage::Listing,
            };
            cx.out.push(Output::Continue);
            return Ok(());
        };
        let (content, artifact) = (keys::content(own.me, &digest), keys::artifact(own.me, &digest));
        let mut batch = Batch {
            writes: vec![Write::Delete(content.clone())],
            expectations: vec![Expectation::At(content, revision)],
        };
        let limits = own.limits;
        let sweeper = Sweeper { store: cx.store, me: own.me, limits, wall: cx.wall() };
        match artifacts::last_put(cx.store, own.me, &digest)? {
            Some((_, put_at)) if !sweeper.is_past(put_at, limits.keep_artifacts_ms) => {
                cx.out.push(Output::Continue);
                return Ok(());
            }
            Some((artifact_revision, _)) => {
                batch.writes.push(Write::Delete(artifact.clone()));
                batch.expectations.push(Expectation::At(artifact, artifact_revision));
            }
            None => batch.expectations.push(Expectation::Absent(artifact)),
        }
        let deleted = SweepCommit::Content { digest, revision };
        own.commit(batch, deleted, cx);
        Ok(())
    }

    /// Handles the result of the commit that deletes one content. A failure other than a conflict ends the sweep; the content
    /// is tried again.
    pub(super) fn content_settled(
        &mut self,
        digest: Digest,
        revision: Revision,
        result: Result<(), Error>,
        own: &mut RetentionContext<'_>,
        cx: &mut Context<'_>,
    ) {
        match result {
            Ok(()) => self.removed.contents += 1,
            // The content or its artifact was written again since it was listed: it stays.
            Err(Error::Conflict { .. }) => {}
            Err(error) => {
                self.search.unreferred.insert(digest, revision);
                self.search.pages = 0;
                return self.end_sweep(&error, own);
            }
        }
        self.continue_sweep(own, cx);
    }
}
