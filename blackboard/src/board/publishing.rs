//! Writes a signal once, however often it is published.

use crate::{
    signals::{self, Writing},
    store::{self, Batch, Lane, Revision, Shared},
};
use futures_util::future::join_all;
use protocol::{
    ids::Digest,
    problem::{Problem, Reason},
};
use std::collections::HashSet;
use tokio::sync::oneshot;

/// The most signals that share a commit.
const MOST: usize = 64;
/// What a signal writes if nothing else changes with it: its repeat row and itself.
const PLAIN: usize = 2;

/// A signal that waits to be written, and who waits for it.
pub(super) struct Waiting {
    pub lane: Lane,
    pub writing: Writing,
    pub done: oneshot::Sender<Result<Revision, Problem>>,
}

/// Those that may share a commit, in their order: signals of one lane, none twice, that change nothing beside.
pub(super) fn groups(waiting: Vec<Waiting>) -> Vec<Vec<Waiting>> {
    let mut groups: Vec<Vec<Waiting>> = Vec::new();
    let mut seen = HashSet::new();
    for one in waiting {
        let is_plain = |waiting: &Waiting| waiting.writing.batch.writes.len() == PLAIN;
        let fits = |group: &Vec<Waiting>| {
            group.len() < MOST && group.iter().all(|other| other.lane == one.lane && is_plain(other))
        };
        let key = one.writing.seen.clone();
        match groups.last_mut().filter(|group| is_plain(&one) && fits(group) && !seen.contains(&key)) {
            Some(group) => group.push(one),
            None => {
                seen.clear();
                groups.push(vec![one]);
            }
        }
        seen.insert(key);
    }
    groups
}

type Told = oneshot::Sender<Result<Revision, Problem>>;

/// Commits `group` as one; if that can't be, each by itself.
pub(super) async fn publish_all(
    store: Shared,
    group: Vec<Waiting>,
) -> Vec<(Told, Result<Published, Problem>)> {
    let lane = group.first().map_or(Lane::Progress, |first| first.lane);
    if group.len() > 1 {
        let batches = || group.iter().map(|one| &one.writing.batch);
        let whole = Batch {
            writes: batches().flat_map(|batch| batch.writes.iter().cloned()).collect(),
            expectations: batches().flat_map(|batch| batch.expectations.iter().cloned()).collect(),
        };
        if let Ok(revisions) = store.commit(lane, whole).await {
            let own = revisions.chunks(PLAIN).filter_map(|its| its.last().copied());
            let published =
                |(one, revision): (Waiting, _)| (one.done, Ok(Published { revision, is_repeat: false }));
            return group.into_iter().zip(own).map(published).collect();
        }
    }
    let each = group.into_iter().map(|one| {
        let store = store.clone();
        async move { (one.done, publish(store, one.lane, one.writing).await) }
    });
    join_all(each).await
}

/// Where a signal stands.
pub(super) struct Published {
    pub revision: Revision,
    pub is_repeat: bool,
}

/// Commits `writing`, or finds out where it stood before.
pub(super) async fn publish(store: Shared, lane: Lane, writing: Writing) -> Result<Published, Problem> {
    let Writing { batch, seen, log, digest } = writing;
    match store.commit(lane, batch).await {
        Ok(revisions) => match revisions.last() {
            Some(revision) => Ok(Published { revision: *revision, is_repeat: false }),
            None => Err(Problem::new(Reason::Internal, "the store wrote nothing")),
        },
        Err(store::Error::Conflict { .. }) => first(&store, &seen, log, digest, None),
        Err(error @ store::Error::Unknown(_)) => first(&store, &seen, log, digest, Some(error)),
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

/// Where the signal that `seen` remembers was written first.
fn first(
    store: &Shared,
    seen: &store::Key,
    log: store::Key,
    digest: Digest,
    unknown: Option<store::Error>,
) -> Result<Published, Problem> {
    match signals::first(store.as_ref(), seen, log, digest)? {
        Some(revision) => Ok(Published { revision, is_repeat: unknown.is_none() }),
        None => {
            let gone = || Problem::new(Reason::Overloaded, "the board forgot this signal just now");
            Err(unknown.map_or_else(gone, Problem::from))
        }
    }
}
