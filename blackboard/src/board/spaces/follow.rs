//! A stream of the changes of a space's entries.

use super::log_filter;
use crate::{
    feed::{check_cursor, run_blocking},
    spaces::{
        EntryQuery,
        entry_writes::permitted,
        rows,
        space_cursor::{CursorKey, CursorKind},
    },
};
use protocol::{
    ids::SpaceId,
    problem::{Problem, Reason},
    spaces::{Entry, Reader, Space, SpaceVerb, may},
};
use store::{self, Record, Revision, SharedStore, StoreWatch};
use tokio::sync::OwnedSemaphorePermit;

/// A change of an entry, and the cursor behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryEvent {
    /// The entry after the change.
    pub entry: Entry,
    /// Where a stream goes on that has read it.
    pub cursor: String,
}

/// One reader of a space's changes. It holds at most one page in memory.
pub struct EntryFollower {
    store: SharedStore,
    watch: StoreWatch,
    cursors: CursorKey,
    reader: Reader,
    space: SpaceId,
    query: EntryQuery,
    position: Revision,
    /// Changes that were read and not decided on yet.
    unread: Vec<Record>,
    _permit: OwnedSemaphorePermit,
}

impl EntryFollower {
    pub(super) fn new(
        store: SharedStore,
        cursors: CursorKey,
        reader: Reader,
        space: SpaceId,
        query: EntryQuery,
        after: Option<&str>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, Problem> {
        if query.text.is_some() {
            let message = "text: a stream can't be searched; kind, status, type, author and tag select";
            return Err(Problem::new(Reason::InvalidField, message).with("field", "text"));
        }
        let position = match after {
            None => store.head(),
            Some("start") => 0,
            Some(cursor) => match cursors.open(CursorKind::Stream, &space, cursor) {
                Some([position, _]) => position,
                None => {
                    let message = "after: must be `start`, the `cursor` of a page, or the id of an event of this space's stream";
                    return Err(Problem::new(Reason::InvalidField, message).with("field", "after"));
                }
            },
        };
        if after.is_some_and(|after| after != "start") {
            check_cursor(&store, &log_filter(&space), &position.into()).map_err(without_positions)?;
        }
        let watch = watch_from(&store, &space, position).map_err(without_positions)?;
        let unread = Vec::new();
        Ok(Self { store, watch, cursors, reader, space, query, position, unread, _permit: permit })
    }

    /// Where a stream goes on that has read all so far.
    pub fn cursor(&self) -> Result<String, Problem> {
        self.cursors.seal(CursorKind::Stream, &self.space, [self.position, 0])
    }

    /// Waits for the next changes that the reader may see: at least one. Ends with a problem if the reader is no member any more.
    pub async fn next(&mut self) -> Result<Vec<EntryEvent>, Problem> {
        loop {
            if self.unread.is_empty() {
                self.unread = self.watch.next().await.map_err(|error| without_positions(error.into()))?;
            }
            // Whoever drops this future here loses nothing: the next call goes on with what is unread.
            let (store, reader, id) = (self.store.clone(), self.reader.clone(), self.space.clone());
            let space =
                run_blocking(move || permitted(store.as_ref(), &reader, SpaceVerb::Read, &id)).await?;
            let events = self.take_events(&space)?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    fn take_events(&mut self, space: &Space) -> Result<Vec<EntryEvent>, Problem> {
        let mut events = Vec::new();
        for record in std::mem::take(&mut self.unread) {
            self.position = record.revision;
            let entry: Entry = match rows::parse(&record) {
                Ok(entry) => entry,
                Err(problem) => {
                    tracing::error!(%problem, "a change can't be read and is left out");
                    continue;
                }
            };
            if self.query.admits(&entry) && may(&self.reader, SpaceVerb::Read, Some(&entry), space).is_ok() {
                events.push(EntryEvent { entry, cursor: self.cursor()? });
            }
        }
        Ok(events)
    }
}

/// Positions in the store say how much others have written.
fn without_positions(problem: Problem) -> Problem {
    if ![Reason::Trimmed, Reason::GenerationChanged].contains(&problem.reason) {
        return problem;
    }
    Problem::new(
        problem.reason,
        "after: changes behind this cursor are gone; list the entries again and follow from that page's `cursor`, or from `start`",
    )
}

/// Watches the log of `space`. From the start, it begins with the oldest change that is kept.
fn watch_from(store: &SharedStore, space: &SpaceId, position: Revision) -> Result<StoreWatch, Problem> {
    match store.watch(log_filter(space), position) {
        Err(store::Error::Trimmed { floor }) if position == 0 => Ok(store.watch(log_filter(space), floor)?),
        watch => Ok(watch?),
    }
}
