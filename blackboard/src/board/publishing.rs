//! Writes a signal once, however often it is published.

use crate::{
    signals::{self, Seen, Writing},
    store::{self, Filter, Lane, Revision, Shared},
};
use protocol::{
    ids::Digest,
    problem::{Problem, Reason},
};

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

/// Where the signal that `seen` remembers was written first. The two are one commit, the signal comes right after.
fn first(
    store: &Shared,
    seen: &store::Key,
    log: store::Key,
    digest: Digest,
    unknown: Option<store::Error>,
) -> Result<Published, Problem> {
    let Some(row) = store.latest(seen)? else {
        let gone = || Problem::new(Reason::Overloaded, "the board forgot this signal just now");
        return Err(unknown.map_or_else(gone, Problem::from));
    };
    let known: Seen = serde_json::from_slice(&row.value)
        .map_err(|error| Problem::new(Reason::Internal, format!("{seen} holds no repeat row: {error}")))?;
    let after = store.read(&Filter::Exactly(log), row.revision, 1)?;
    let next = after.first().filter(|record| Digest::of(&record.value) == known.digest);
    let revision = next.map_or(row.revision + 1, |record| record.revision);
    if known.digest != digest {
        let message = "a signal with this id and other content is on the board";
        return Err(Problem::new(Reason::MessageIdReused, message)
            .with("field", "id")
            .with("revision", revision));
    }
    Ok(Published { revision, is_repeat: unknown.is_none() })
}

/// Commits a few writes of the board's own.
pub(super) async fn tell(
    store: &Shared,
    mut batch: store::Batch,
    signal: &protocol::signal::Signal,
) -> Result<Result<Vec<Revision>, store::Error>, Problem> {
    batch.writes.extend(signals::own(signal)?);
    Ok(store.commit(Lane::Progress, batch).await)
}
