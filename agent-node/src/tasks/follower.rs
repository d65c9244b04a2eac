//! Reads the events of one task from its conversation's journal, without gaps or repeats. A slow reader costs no memory. All
//! streams and webhooks use this.

use super::{ShownEvent, TaskEvent, events_in, final_event, shown_in};
use engine::{
    content,
    records::{Step, TaskRow, keys},
};
use protocol::{a2a::event::StreamResponse, ids::AgentId, task::Task};
use store::{Error, Filter, Revision, SharedStore, StoreWatch};

const PAGE: usize = 64;

type ReadStep<D> = fn(&Task, Revision, Step) -> Vec<TaskEvent<D>>;

/// A position in the events of a task: the revision of a step in the journal, and the index of an event in that step.
pub type TaskEventCursor = (Revision, usize);

/// Reads the events of one task.
pub struct TaskFollower {
    store: SharedStore,
    me: AgentId,
    row: TaskRow,
    after: TaskEventCursor,
    source: EventSource,
}

enum EventSource {
    /// The task has ended. Its journal does not grow any more.
    Ended(Filter, Revision),
    Live(StoreWatch),
    /// The task has ended and retention has deleted its journal. Only the final event can be made, from the task's row.
    Trimmed,
    Finished,
}

/// The source for a task that has ended. Retention may have deleted its journal, or the older part of it.
fn ended_source(store: &SharedStore, filter: Filter, before: Revision) -> Result<EventSource, Error> {
    match store.read(&filter, before, 1) {
        Ok(records) if records.is_empty() && before == 0 => Ok(EventSource::Trimmed),
        Ok(_) => Ok(EventSource::Ended(filter, before)),
        Err(Error::Trimmed { floor }) if before == 0 => {
            let rest = store.read(&filter, floor, 1)?;
            Ok(if rest.is_empty() { EventSource::Trimmed } else { EventSource::Ended(filter, floor) })
        }
        Err(error) => Err(error),
    }
}

impl TaskFollower {
    /// Starts after `after`; (0, 0) means with the first event.
    pub fn after(
        store: SharedStore,
        me: AgentId,
        row: TaskRow,
        after: TaskEventCursor,
    ) -> Result<Self, Error> {
        let filter = Filter::Exactly(keys::journal(&me, &row.task.conversation));
        let before = after.0.saturating_sub(1);
        let source = match row.ended_at {
            Some(_) => ended_source(&store, filter, before)?,
            None => EventSource::Live(store.watch(filter, before)?),
        };
        Ok(Self { store, me, row, after, source })
    }

    /// The task as it was at the start.
    pub fn task(&self) -> &Task {
        &self.row.task
    }

    /// The next events, oldest first; empty when there are no more. Cancellation safe.
    pub async fn next(&mut self) -> Result<Vec<TaskEvent>, Error> {
        self.next_by(events_in).await
    }

    /// The same with what is done on the way. Its positions are not those of [`Self::next`].
    pub async fn next_shown(&mut self) -> Result<Vec<TaskEvent<ShownEvent>>, Error> {
        self.next_by(shown_in).await
    }

    async fn next_by<D: From<StreamResponse>>(
        &mut self,
        read: ReadStep<D>,
    ) -> Result<Vec<TaskEvent<D>>, Error> {
        loop {
            let records = match &mut self.source {
                EventSource::Finished => return Ok(Vec::new()),
                EventSource::Trimmed => {
                    self.source = EventSource::Finished;
                    let data = final_event(&self.row.task).into();
                    return Ok(vec![TaskEvent { id: self.after, data, is_last: true }]);
                }
                EventSource::Ended(filter, after) => {
                    let page = self.store.read(filter, *after, PAGE)?;
                    let Some(last) = page.last() else {
                        self.source = EventSource::Finished;
                        return Ok(Vec::new());
                    };
                    *after = last.revision;
                    page
                }
                EventSource::Live(watch) => watch.next().await?,
            };
            let mut events = Vec::new();
            for record in &records {
                let step = content::decode(&self.me, self.store.as_ref(), &record.value)?;
                let in_step = read(&self.row.task, record.revision, step);
                events.extend(in_step.into_iter().filter(|e| self.after == (0, 0) || e.id > self.after));
            }
            if events.iter().any(|event| event.is_last) {
                self.source = EventSource::Finished;
            }
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}
