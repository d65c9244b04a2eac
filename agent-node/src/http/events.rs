//! Server-sent events of one task, straight from its conversation's journal: no gap, no repeat, and nothing held in
//! memory for a reader that does not read.

use crate::{
    agent::store_problem,
    conversation::record::{TaskRow, keys},
    tasks,
};
use actix_web::{HttpResponse, http::header};
use blackboard::store::{Error, Filter, Key, Record, Revision, Shared, Watch};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use protocol::{
    ids::AgentId,
    problem::{Problem, Reason},
};
use std::{convert::Infallible, time::Duration};

/// How often a silent stream says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
const PAGE: usize = 64;

/// The place an `id:` names: a revision, and which event of that step.
pub fn parse_id(text: &str) -> Option<(Revision, usize)> {
    match text.split_once('.') {
        Some((revision, place)) => Some((revision.parse().ok()?, place.parse().ok()?)),
        None => Some((text.parse().ok()?, 0)),
    }
}

enum From {
    /// The task has ended: what is there is all there is.
    Past(Filter, Revision),
    Live(Watch),
    /// The task has ended and its journal is gone: only its end is known.
    Gone,
    Over,
}

/// From where an ended task's events are read: its journal may have gone, or the older part of it.
fn past(store: &Shared, filter: Filter, before: Revision) -> Result<From, Problem> {
    match store.read(&filter, before, 1) {
        Ok(records) if records.is_empty() && before == 0 => Ok(From::Gone),
        Ok(_) => Ok(From::Past(filter, before)),
        Err(Error::Trimmed { floor }) if before == 0 => {
            let left = store.read(&filter, floor, 1).map_err(|error| store_problem(&error))?;
            Ok(if left.is_empty() { From::Gone } else { From::Past(filter, floor) })
        }
        Err(error) => Err(store_problem(&error)),
    }
}

/// Refuses a place that this stream has not come to, or never will.
fn check_place(
    store: &Shared,
    journal: &Key,
    row: &TaskRow,
    after: (Revision, usize),
) -> Result<(), Problem> {
    let last = match row.ended_at {
        Some(_) => store.latest(journal).map_err(|error| store_problem(&error))?,
        None => None,
    };
    let (last, what) = match last {
        Some(last) => (last.revision, "this task ended at"),
        None => (store.head(), "the newest anywhere here is"),
    };
    if after.0 > last {
        let message = format!("Last-Event-ID {} is past the end of this stream: {what} {last}", after.0);
        return Err(Problem::new(Reason::InvalidField, message).with("last", last));
    }
    Ok(())
}

struct Follow {
    store: Shared,
    me: AgentId,
    row: TaskRow,
    after: (Revision, usize),
    from: From,
}

/// A stream of `row`'s events after `after`; (0, 0) means from the first one.
pub async fn of_task(
    store: Shared,
    me: AgentId,
    row: TaskRow,
    after: (Revision, usize),
) -> Result<HttpResponse, Problem> {
    let journal = keys::journal(&me, &row.task.conversation);
    check_place(&store, &journal, &row, after)?;
    let filter = Filter::Exactly(journal);
    let before = after.0.saturating_sub(1);
    let from = match row.ended_at {
        Some(_) => past(&store, filter, before)?,
        None => From::Live(store.watch(filter, before).map_err(|error| store_problem(&error))?),
    };
    let has_ended = row.ended_at.is_some();
    let mut follow = Follow { store, me, row, after, from };
    let mut first = None;
    if has_ended && after != (0, 0) {
        first = follow.next().await;
        if first.is_none() {
            // What ended and was read to its end has nothing more: 204 keeps an EventSource from asking again.
            return Ok(HttpResponse::NoContent().finish());
        }
    }
    let first = stream::iter(first.map(Ok::<_, Infallible>));
    let rest = stream::unfold(follow, |mut follow| async {
        let bytes = follow.next().await?;
        Some((Ok::<_, Infallible>(bytes), follow))
    });
    let body = first.chain(rest);
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(body))
}

impl Follow {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let records = match &mut self.from {
                From::Over => return None,
                From::Gone => {
                    self.from = From::Over;
                    return Some(format!("data: {}\n\n", tasks::end_of(&self.row.task).to_json()).into());
                }
                From::Past(filter, after) => {
                    let page = self.store.read(filter, *after, PAGE);
                    match &page {
                        Ok(records) if records.is_empty() => return None,
                        Ok(records) => *after = records.last().map_or(*after, |record| record.revision),
                        Err(_) => {}
                    }
                    page
                }
                From::Live(watch) => match tokio::time::timeout(HEARTBEAT, watch.next()).await {
                    Ok(records) => records,
                    Err(_) => return Some(Bytes::from_static(b": alive\n\n")),
                },
            };
            match records.and_then(|records| self.write(&records)) {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Some(bytes),
                Err(error) => {
                    tracing::warn!(%error, "a task's stream ends early");
                    self.from = From::Over;
                }
            }
        }
    }

    fn write(&mut self, records: &[Record]) -> Result<Bytes, Error> {
        let mut text = String::new();
        for record in records {
            for seen in tasks::seen_in(self.store.as_ref(), &self.me, &self.row.task, record)? {
                if self.after != (0, 0) && seen.id <= self.after {
                    continue;
                }
                let id = match seen.id {
                    (revision, 0) => revision.to_string(),
                    (revision, place) => format!("{revision}.{place}"),
                };
                text.push_str(&format!("id: {id}\ndata: {}\n\n", seen.data.to_json()));
                if seen.is_last {
                    self.from = From::Over;
                }
            }
        }
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blackboard::store::{Batch, Lane, Write, memory};
    use protocol::{
        coordination::{Effect, Event, Outcome, What},
        ids::ConversationId,
        principal::Principal,
        task::{Status, TaskSpec, TaskState},
        time::{NodeTime, WallTime},
    };

    fn row() -> TaskRow {
        let json = serde_json::json!({ "taskId": "t-1", "description": "d", "root": "user:local" });
        let spec: TaskSpec = serde_json::from_value(json).unwrap();
        let conversation = ConversationId::parse("c-1").unwrap();
        let mut row = TaskRow::new(spec, Principal::local_user(), conversation, WallTime(0));
        row.ended_at = Some(NodeTime(1));
        row.task.status = Status::new(TaskState::Completed, "done");
        row
    }

    async fn step(store: &Shared, me: &AgentId, effects: Vec<Effect>) -> Revision {
        let event = Event { at: NodeTime(0), wall: WallTime(0), what: What::Started };
        let step = crate::conversation::record::Step {
            step: 1,
            opening: None,
            events: vec![event],
            closes: Vec::new(),
            effects,
        };
        let key = keys::journal(me, &row().task.conversation);
        let write = Write::Append(key, serde_json::to_vec(&step).unwrap().into());
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        store.commit(Lane::Progress, batch).await.unwrap()[0]
    }

    async fn streamed(store: &Shared, me: &AgentId, after: (Revision, usize)) -> Result<String, Problem> {
        let answer = of_task(store.clone(), me.clone(), row(), after).await?;
        let bytes = actix_web::body::to_bytes(answer.into_body()).await.unwrap();
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[actix::test]
    async fn a_task_whose_journal_is_gone_still_tells_its_end() {
        let (store, me) = (memory::new(), AgentId::parse("a").unwrap());
        let outcome = Outcome {
            status: row().task.status,
            artifacts: Vec::new(),
            kept_word: Default::default(),
            is_message: false,
        };
        let first = step(&store, &me, Vec::new()).await;
        let last = step(&store, &me, vec![Effect::Finish(outcome)]).await;
        let count = |text: String| text.matches("TASK_STATE_COMPLETED").count();
        assert_eq!(count(streamed(&store, &me, (0, 0)).await.unwrap()), 1);
        assert_eq!(count(streamed(&store, &me, (last, 0)).await.unwrap()), 0);
        store.trim(keys::all(&me, "journal"), first + 1).await.unwrap();
        assert_eq!(count(streamed(&store, &me, (0, 0)).await.unwrap()), 1);
        store.trim(keys::all(&me, "journal"), last + 1).await.unwrap();
        assert_eq!(count(streamed(&store, &me, (0, 0)).await.unwrap()), 1);
    }
}
