//! Commits signals. A signal that is published again is written once.

use crate::{
    signals::{self, SignalWrite},
    store::{self, Batch, Lane, Revision, SharedStore},
};
use futures_util::future::join_all;
use protocol::{
    ids::Digest,
    problem::{Problem, Reason},
};
use std::collections::HashSet;
use tokio::sync::oneshot;

/// The most signals that share a commit.
const MAX_GROUP: usize = 64;
/// Writes of a signal that changes nothing else: its dedup row and its record.
const PLAIN_WRITES: usize = 2;

/// A signal that waits for a commit, and the channel for its outcome.
pub(super) struct PendingSignal {
    pub lane: Lane,
    pub write: SignalWrite,
    pub done: oneshot::Sender<Result<Revision, Problem>>,
}

/// Groups of signals that may share a commit, in order: of one lane, without repeats, each with plain writes only.
pub(super) fn group_for_commit(pending: Vec<PendingSignal>) -> Vec<Vec<PendingSignal>> {
    let mut groups: Vec<Vec<PendingSignal>> = Vec::new();
    let mut dedup_keys = HashSet::new();
    for signal in pending {
        let is_plain = |signal: &PendingSignal| signal.write.batch.writes.len() == PLAIN_WRITES;
        let fits = |group: &Vec<PendingSignal>| {
            group.len() < MAX_GROUP && group.iter().all(|other| other.lane == signal.lane && is_plain(other))
        };
        let key = signal.write.dedup_key.clone();
        match groups.last_mut().filter(|group| is_plain(&signal) && fits(group) && !dedup_keys.contains(&key))
        {
            Some(group) => group.push(signal),
            None => {
                dedup_keys.clear();
                groups.push(vec![signal]);
            }
        }
        dedup_keys.insert(key);
    }
    groups
}

/// The channel for the outcome of one publication.
type PublishReply = oneshot::Sender<Result<Revision, Problem>>;

/// Commits `group` as one batch; if that fails, each signal by itself.
pub(super) async fn publish_group(
    store: SharedStore,
    group: Vec<PendingSignal>,
) -> Vec<(PublishReply, Result<PublishOutcome, Problem>)> {
    let lane = group.first().map_or(Lane::Progress, |first| first.lane);
    if group.len() > 1 {
        let batches = || group.iter().map(|signal| &signal.write.batch);
        let whole = Batch {
            writes: batches().flat_map(|batch| batch.writes.iter().cloned()).collect(),
            expectations: batches().flat_map(|batch| batch.expectations.iter().cloned()).collect(),
        };
        if let Ok(revisions) = store.commit(lane, whole).await {
            let revisions = revisions.chunks(PLAIN_WRITES).filter_map(|revisions| revisions.last().copied());
            let outcome = |(signal, revision): (PendingSignal, _)| {
                (signal.done, Ok(PublishOutcome { revision, is_repeat: false }))
            };
            return group.into_iter().zip(revisions).map(outcome).collect();
        }
    }
    let publications = group.into_iter().map(|signal| {
        let store = store.clone();
        async move { (signal.done, publish(store, signal.lane, signal.write).await) }
    });
    join_all(publications).await
}

/// The revision of a published signal, and whether it was written before.
pub(super) struct PublishOutcome {
    pub revision: Revision,
    pub is_repeat: bool,
}

/// Commits `write`; if its dedup row exists, finds the first revision.
pub(super) async fn publish(
    store: SharedStore,
    lane: Lane,
    write: SignalWrite,
) -> Result<PublishOutcome, Problem> {
    let SignalWrite { batch, dedup_key, log_key, digest } = write;
    match store.commit(lane, batch).await {
        Ok(revisions) => match revisions.last() {
            Some(revision) => Ok(PublishOutcome { revision: *revision, is_repeat: false }),
            None => Err(Problem::new(Reason::Internal, "the store wrote nothing")),
        },
        Err(store::Error::Conflict { .. }) => find_first(&store, &dedup_key, log_key, digest, None),
        Err(error @ store::Error::Unknown(_)) => find_first(&store, &dedup_key, log_key, digest, Some(error)),
        Err(
            error @ (store::Error::Full
            | store::Error::StorageFull
            | store::Error::Trimmed { .. }
            | store::Error::Corrupt { .. }
            | store::Error::Closed(_)
            | store::Error::Refused(_)),
        ) => Err(error.into()),
    }
}

/// The first revision of the signal with the dedup row `dedup_key`; `unknown` is the error of the commit, if it had one.
fn find_first(
    store: &SharedStore,
    dedup_key: &store::Key,
    log_key: store::Key,
    digest: Digest,
    unknown: Option<store::Error>,
) -> Result<PublishOutcome, Problem> {
    match signals::first_revision(store.as_ref(), dedup_key, log_key, digest)? {
        Some(revision) => Ok(PublishOutcome { revision, is_repeat: unknown.is_none() }),
        None => {
            let removed = || Problem::new(Reason::Overloaded, "the board forgot this signal just now");
            Err(unknown.map_or_else(removed, Problem::from))
        }
    }
}
