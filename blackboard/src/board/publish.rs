//! Commits signals. A signal that is published again is written once.

use crate::signals::{self, SignalWrite};
use futures_util::future::join_all;
use protocol::{
    ids::Digest,
    problem::{Problem, Reason},
};
use std::collections::HashSet;
use store::{self, Batch, Lane, Revision, SharedStore};
use tokio::sync::oneshot;

/// The most signals that share a commit.
const MAX_GROUP: usize = 64;
/// Writes of a signal that changes nothing else: its dedup row and its record.
const PLAIN_WRITES: usize = 2;

/// The signals of one request that wait for a commit, and the channel for their outcomes.
pub(super) struct PendingSignals {
    pub lane: Lane,
    pub writes: Vec<SignalWrite>,
    /// Why the signal behind them is refused.
    pub refusal: Option<Problem>,
    pub done: PublishReply,
}

/// The channel for the outcomes of one request: of its signals in order, up to the first that is refused.
type PublishReply = oneshot::Sender<Vec<Result<Revision, Problem>>>;

/// Requests whose signals are committed together, if `is_joint`.
pub(super) struct CommitGroup {
    pub requests: Vec<PendingSignals>,
    /// All are plain, of one lane and without repeats. A group that is not joint holds one request.
    is_joint: bool,
}

/// The requests in order, in groups that may share a commit.
pub(super) fn group_for_commit(pending: Vec<PendingSignals>) -> Vec<CommitGroup> {
    let mut groups: Vec<CommitGroup> = Vec::new();
    let mut dedup_keys = HashSet::new();
    for request in pending {
        let own: HashSet<_> = request.writes.iter().map(|write| write.dedup_key.clone()).collect();
        let is_plain = |write: &SignalWrite| write.batch.writes.len() == PLAIN_WRITES;
        let is_joint = own.len() == request.writes.len() && request.writes.iter().all(is_plain);
        let fits = |group: &&mut CommitGroup| {
            let is_of_lane = group.requests.first().is_some_and(|first| first.lane == request.lane);
            let has_room = dedup_keys.len() + own.len() <= MAX_GROUP && dedup_keys.is_disjoint(&own);
            is_joint && group.is_joint && is_of_lane && has_room
        };
        match groups.last_mut().filter(fits) {
            Some(group) => group.requests.push(request),
            None => {
                dedup_keys.clear();
                groups.push(CommitGroup { requests: vec![request], is_joint });
            }
        }
        dedup_keys.extend(own);
    }
    groups
}

/// The outcomes of a request's signals in order, up to the first that is refused.
pub(super) type PublishOutcomes = Vec<Result<PublishOutcome, Problem>>;

/// Commits `group` as one batch if it is joint; if that fails, each request by itself. Returns how many signals it had, and the
/// outcomes of each request.
pub(super) async fn publish_group(
    store: SharedStore,
    group: CommitGroup,
) -> (usize, Vec<(PublishReply, PublishOutcomes)>) {
    let CommitGroup { requests, is_joint } = group;
    let lane = requests.first().map_or(Lane::Progress, |first| first.lane);
    let batches = || requests.iter().flat_map(|request| &request.writes).map(|write| &write.batch);
    let signals = batches().count();
    if is_joint && signals > 1 {
        let whole = Batch {
            writes: batches().flat_map(|batch| batch.writes.iter().cloned()).collect(),
            expectations: batches().flat_map(|batch| batch.expectations.iter().cloned()).collect(),
        };
        if let Ok(revisions) = store.commit(lane, whole).await {
            let mut revisions =
                revisions.chunks(PLAIN_WRITES).filter_map(|revisions| revisions.last().copied());
            let outcomes = requests.into_iter().map(|PendingSignals { writes, refusal, done, .. }| {
                let written = revisions.by_ref().take(writes.len());
                let written = written.map(|revision| Ok(PublishOutcome { revision, is_repeat: false }));
                (done, written.chain(refusal.map(Err)).collect())
            });
            return (signals, outcomes.collect());
        }
    }
    (signals, join_all(requests.into_iter().map(|request| publish_one_by_one(store.clone(), request))).await)
}

/// Commits the signals of a request in order, up to the first that is refused.
async fn publish_one_by_one(store: SharedStore, request: PendingSignals) -> (PublishReply, PublishOutcomes) {
    let mut outcomes = Vec::with_capacity(request.writes.len());
    for write in request.writes {
        let outcome = publish(store.clone(), request.lane, write).await;
        let is_refused = outcome.is_err();
        outcomes.push(outcome);
        if is_refused {
            return (request.done, outcomes);
        }
    }
    outcomes.extend(request.refusal.map(Err));
    (request.done, outcomes)
}

/// The revision of a published signal, and whether it was written before.
pub(super) struct PublishOutcome {
    pub revision: Revision,
    pub is_repeat: bool,
}

/// Commits `write`; if its dedup row exists, finds the first revision.
async fn publish(store: SharedStore, lane: Lane, write: SignalWrite) -> Result<PublishOutcome, Problem> {
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
