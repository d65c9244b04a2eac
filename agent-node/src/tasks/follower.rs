//! What happens to one task, straight from its conversation's journal: no gap, no repeat, and nothing held in memory
//! for a reader that does not read. Every stream and every webhook is fed from here.

use super::{TaskEvent, events_in, final_event};
use blackboard::store::{Error, Filter, Revision, Shared, Watch};
use engine::records::{TaskRow, keys};
use protocol::ids::AgentId;

const PAGE: usize = 64;

/// A place among a task's events: the journal's revision, and which event of that step.
pub type TaskEventCursor = (Revision, usize);

/// A reader's place in what happens to a task.
pub struct TaskFollower {
    store: Shared,
    me: AgentId,
    row: TaskRow,
    after: TaskEventCursor,
    from: EventSource,
}

enum EventSource {
    /// The task has ended: what is there is all there is.
    Ended(Filter, Revision),
    Live(Watch),
    /// The task has ended and its journal is gone: only its end is known.
    Trimmed,
    Finished,
}

/// EventSource where an ended task's events are read: its journal may have gone, or the older part of it.
fn past(store: &Shared, filter: Filter, before: Revision) -> Result<EventSource, Error> {
    match store.read(&filter, before, 1) {
        Ok(records) if records.is_empty() && before == 0 => Ok(EventSource::Trimmed),
        Ok(_) => Ok(EventSource::Ended(filter, before)),
        Err(Error::Trimmed { floor }) if before == 0 => {
            let left = store.read(&filter, floor, 1)?;
            Ok(if left.is_empty() { EventSource::Trimmed } else { EventSource::Ended(filter, floor) })
        }
        Err(error) => Err(error),
    }
}

impl TaskFollower {
    /// `row`'s events after `after`; (0, 0) means from the first one.
    pub fn after(store: Shared, me: AgentId, row: TaskRow, after: TaskEventCursor) -> Result<Self, Error> {
        let filter = Filter::Exactly(keys::journal(&me, &row.task.conversation));
        let before = after.0.saturating_sub(1);
        let from = match row.ended_at {
            Some(_) => past(&store, filter, before)?,
            None => EventSource::Live(store.watch(filter, before)?),
        };
        Ok(Self { store, me, row, after, from })
    }

    /// The task it began with.
    pub fn task(&self) -> &protocol::task::Task {
        &self.row.task
    }

    /// The next events, at least one, oldest first; none when nothing more can come. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Vec<TaskEvent>, Error> {
        loop {
            let records = match &mut self.from {
                EventSource::Finished => return Ok(Vec::new()),
                EventSource::Trimmed => {
                    self.from = EventSource::Finished;
                    return Ok(vec![TaskEvent {
                        id: self.after,
                        data: final_event(&self.row.task),
                        is_last: true,
                    }]);
                }
                EventSource::Ended(filter, after) => {
                    let page = self.store.read(filter, *after, PAGE)?;
                    let Some(last) = page.last() else {
                        self.from = EventSource::Finished;
                        return Ok(Vec::new());
                    };
                    *after = last.revision;
                    page
                }
                EventSource::Live(watch) => watch.next().await?,
            };
            let mut events = Vec::new();
            for record in &records {
                let seen = events_in(self.store.as_ref(), &self.me, &self.row.task, record)?;
                events.extend(seen.into_iter().filter(|seen| self.after == (0, 0) || seen.id > self.after));
            }
            if events.iter().any(|seen| seen.is_last) {
                self.from = EventSource::Finished;
            }
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}
