//! Content by digest goes when no record refers to it any more; an artifact that was put, only when it has been kept for
//! its own time too.
//!
//! A round lists some contents with the revisions they stand at, then reads every record that may refer to one, then
//! deletes those that none referred to, each in a batch of its own that expects the content where it was listed. Whoever
//! refers to content anew writes it again in the same batch, so one of the two loses: the content is there, or the
//! deletion fails. The exception is a conversation that has written it before: its journal refers to it, and is not
//! trimmed past the place up to which the round has read ([`Round::allows_trim`]).
//!
//! A round takes as many sweeps as it needs, each with bounded work, and nothing of it is recorded: a restart begins
//! with the oldest content again.

use super::Broom;
use crate::{
    artifacts,
    conversation::{record::keys, spill},
};
use blackboard::store::{Batch, Error, Expectation, Lane, Revision, Write};
use protocol::{ids::Digest, time::WallTime};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

const RECORD_PAGE: usize = 256;
/// How long after a search that found everything in use the next begins, if nothing was let go of.
const REST: Duration = Duration::from_secs(3_600);

/// How much is done at once.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// The most contents that one round looks for.
    window: usize,
    /// The most contents listed in one sweep.
    contents: usize,
    /// The most records read in one sweep.
    records: usize,
    /// The most contents deleted in one sweep.
    deleted: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { window: 8_192, contents: 1_024, records: 20_000, deleted: 1_024 }
    }
}

/// One search for content that nothing refers to, carried on from sweep to sweep.
#[derive(Debug, Default)]
pub(super) struct Round {
    pace: Pace,
    stage: Stage,
    /// Contents up to here have had their round.
    cursor: Revision,
    /// Contents nothing is known to refer to, where they stand.
    unreferred: BTreeMap<Digest, Revision>,
    /// Whether something was let go of since the oldest content was listed.
    has_changed: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
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

impl Round {
    /// Something was let go of: content may have lost what referred to it.
    pub(super) fn note_change(&mut self) {
        self.has_changed = true;
        if matches!(self.stage, Stage::Resting { .. }) {
            self.stage = Stage::Listing;
        }
    }

    /// Whether journals below `before` may go: while a round reads journals, only those that it has read.
    pub(super) fn allows_trim(&self, before: Revision) -> bool {
        match self.stage {
            Stage::Reading { topic: JOURNAL, after, until } => {
                before <= after.saturating_add(1) || after >= until
            }
            Stage::Listing | Stage::Reading { .. } | Stage::Deleting | Stage::Resting { .. } => true,
        }
    }
}

/// Journals are read before everything else: what they lose later is recorded in what is read later.
const JOURNAL: usize = 0;

impl Broom {
    /// One sweep's share of the search for content that nothing refers to.
    pub(super) async fn let_go_of_content(self: &Arc<Self>, round: &mut Round) -> Result<(), Error> {
        let (broom, mut looking) = (self.clone(), std::mem::take(round));
        let looked = tokio::task::spawn_blocking(move || {
            let outcome = broom.look_for_content(&mut looking);
            (looking, outcome)
        });
        let (looked, outcome) = looked.await.map_err(|error| Error::Refused(error.to_string()))?;
        *round = looked;
        outcome?;
        if round.stage == Stage::Deleting {
            self.delete_unreferred(round).await?;
        }
        Ok(())
    }

    fn look_for_content(&self, round: &mut Round) -> Result<(), Error> {
        if let Stage::Resting { until } = round.stage {
            if self.wall < until {
                return Ok(());
            }
            round.stage = Stage::Listing;
        }
        if round.stage == Stage::Listing {
            self.list(round)?;
        }
        self.read_records(round)
    }

    /// Lists contents, the oldest first, until the window is full or none is left.
    fn list(&self, round: &mut Round) -> Result<(), Error> {
        if round.cursor == 0 {
            round.has_changed = false;
        }
        let contents = keys::all(&self.me, "content");
        let mut left = round.pace.contents;
        while left > 0 {
            let limit = left.min(RECORD_PAGE);
            let page = self.store.keys(&contents, round.cursor, limit)?;
            let is_last = page.len() < limit;
            left -= limit;
            for (revision, key) in page {
                round.cursor = revision;
                let digest = key.tokens().get(2).and_then(|text| Digest::parse(text).ok());
                round.unreferred.extend(digest.map(|digest| (digest, revision)));
            }
            if is_last || round.unreferred.len() >= round.pace.window {
                if is_last {
                    round.cursor = 0;
                }
                round.stage = Stage::Reading { topic: JOURNAL, after: 0, until: self.store.head() };
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads records, and strikes off what they refer to.
    fn read_records(&self, round: &mut Round) -> Result<(), Error> {
        let Stage::Reading { mut topic, mut after, until } = round.stage else { return Ok(()) };
        let mut left = round.pace.records;
        while left > 0 && !round.unreferred.is_empty() {
            let Some(name) = keys::REFERRING.get(topic) else { break };
            let limit = left.min(RECORD_PAGE);
            let page = self.store.read(&keys::all(&self.me, name), after, limit)?;
            let is_last = page.len() < limit || page.last().is_none_or(|last| last.revision >= until);
            left -= page.len().clamp(1, limit);
            for record in &page {
                spill::refers_to(&record.value, &mut |digest| {
                    round.unreferred.remove(&digest);
                });
                after = record.revision;
            }
            if is_last {
                (topic, after) = (topic + 1, 0);
            }
            round.stage = Stage::Reading { topic, after, until };
        }
        if round.unreferred.is_empty() || topic >= keys::REFERRING.len() {
            round.stage = Stage::Deleting;
        }
        Ok(())
    }

    async fn delete_unreferred(&self, round: &mut Round) -> Result<(), Error> {
        for _ in 0..round.pace.deleted {
            let Some((digest, revision)) = round.unreferred.pop_first() else { break };
            match self.delete(&digest, revision).await {
                Ok(true) => drop(self.sweeping.gone.contents.fetch_add(1, Ordering::Relaxed)),
                // It is kept for its own time, or somebody refers to it again.
                Ok(false) | Err(Error::Conflict { .. }) => {}
                Err(error) => {
                    round.unreferred.insert(digest, revision);
                    return Err(error);
                }
            }
        }
        if round.unreferred.is_empty() {
            round.stage = match round.cursor == 0 && !round.has_changed {
                true => {
                    let rest = Duration::from_millis(self.limits.keep_artifacts_ms).min(REST);
                    Stage::Resting { until: self.wall.plus(rest) }
                }
                false => Stage::Listing,
            };
        }
        Ok(())
    }

    /// Deletes content that nothing refers to, unless it is an artifact that was put not long ago.
    async fn delete(&self, digest: &Digest, revision: Revision) -> Result<bool, Error> {
        let (content, artifact) = (keys::content(&self.me, digest), keys::artifact(&self.me, digest));
        let mut batch = Batch {
            writes: vec![Write::Delete(content.clone())],
            expectations: vec![Expectation::At(content, revision)],
        };
        match artifacts::put_last(self.store.as_ref(), &self.me, digest)? {
            Some((_, at)) if !self.is_past(at, self.limits.keep_artifacts_ms) => return Ok(false),
            Some((stands, _)) => {
                batch.writes.push(Write::Delete(artifact.clone()));
                batch.expectations.push(Expectation::At(artifact, stands));
            }
            None => batch.expectations.push(Expectation::Absent(artifact)),
        }
        self.store.commit(Lane::Admission, batch).await.map(|_| true)
    }
}

#[cfg(test)]
mod tests;
