//! What happens to one task, straight from its conversation's journal: no gap, no repeat, and nothing held in memory
//! for a reader that does not read. Every stream and every webhook is fed from here.

use super::{Seen, end_of, seen_in};
use blackboard::store::{Error, Filter, Revision, SharedStore, StoreWatch};
use engine::records::{TaskRow, keys};
use protocol::ids::AgentId;

const PAGE: usize = 64;

/// A place among a task's events: the journal's revision, and which event of that step.
pub type Place = (Revision, usize);

/// A reader's place in what happens to a task.
pub struct Follow {
    store: SharedStore,
    me: AgentId,
    row: TaskRow,
    after: Place,
    from: From,
}

enum From {
    /// The task has ended: what is there is all there is.
    Past(Filter, Revision),
    Live(StoreWatch),
    /// The task has ended and its journal is gone: only its end is known.
    Gone,
    Over,
}

/// From where an ended task's events are read: its journal may have gone, or the older part of it.
fn past(store: &SharedStore, filter: Filter, before: Revision) -> Result<From, Error> {
    match store.read(&filter, before, 1) {
        Ok(records) if records.is_empty() && before == 0 => Ok(From::Gone),
        Ok(_) => Ok(From::Past(filter, before)),
        Err(Error::Trimmed { floor }) if before == 0 => {
            let left = store.read(&filter, floor, 1)?;
            Ok(if left.is_empty() { From::Gone } else { From::Past(filter, floor) })
        }
        Err(error) => Err(error),
    }
}

impl Follow {
    /// `row`'s events after `after`; (0, 0) means from the first one.
    pub fn after(store: SharedStore, me: AgentId, row: TaskRow, after: Place) -> Result<Self, Error> {
        let filter = Filter::Exactly(keys::journal(&me, &row.task.conversation));
        let before = after.0.saturating_sub(1);
        let from = match row.ended_at {
            Some(_) => past(&store, filter, before)?,
            None => From::Live(store.watch(filter, before)?),
        };
        Ok(Self { store, me, row, after, from })
    }

    /// The task it began with.
    pub fn task(&self) -> &protocol::task::Task {
        &self.row.task
    }

    /// The next events, at least one, oldest first; none when nothing more can come. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<Seen>, Error> {
        loop {
            let records = match &mut self.from {
                From::Over => return Ok(Vec::new()),
                From::Gone => {
                    self.from = From::Over;
                    return Ok(vec![Seen { id: self.after, data: end_of(&self.row.task), is_last: true }]);
                }
                From::Past(filter, after) => {
                    let page = self.store.read(filter, *after, PAGE)?;
                    let Some(last) = page.last() else {
                        self.from = From::Over;
                        return Ok(Vec::new());
                    };
                    *after = last.revision;
                    page
                }
                From::Live(watch) => watch.next().await?,
            };
            let mut events = Vec::new();
            for record in &records {
                let seen = seen_in(self.store.as_ref(), &self.me, &self.row.task, record)?;
                events.extend(seen.into_iter().filter(|seen| self.after == (0, 0) || seen.id > self.after));
            }
            if events.iter().any(|seen| seen.is_last) {
                self.from = From::Over;
            }
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}
