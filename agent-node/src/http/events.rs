//! Server-sent events of one task for `/a2a/tasks`. Each event has an `id:` from which a reader resumes.

use crate::{
    artifacts::ShownFiles,
    tasks::{
        ShownEvent, TaskEvent,
        follower::{TaskEventCursor, TaskFollower},
    },
};
use actix_web::{HttpResponse, http::header};
use bytes::Bytes;
use engine::records::{TaskRow, keys};
use futures_util::{StreamExt as _, stream};
use protocol::problem::{Problem, Reason};
use serde_json::json;
use std::{convert::Infallible, time::Duration};
use store::{Error, Key, SharedStore};

/// Interval of heartbeat comments on a silent stream.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// Parses an `id:`: a revision, and the index of the event in that step.
pub fn parse_id(text: &str) -> Option<TaskEventCursor> {
    match text.split_once('.') {
        Some((revision, index)) => Some((revision.parse().ok()?, index.parse().ok()?)),
        None => Some((text.parse().ok()?, 0)),
    }
}

/// Refuses a cursor past the end of this task's journal, or past the store's head while the task runs.
fn check_cursor(
    store: &SharedStore,
    journal: &Key,
    row: &TaskRow,
    after: TaskEventCursor,
) -> Result<(), Problem> {
    let last = match row.ended_at {
        Some(_) => store.latest(journal).map_err(Problem::from)?,
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

/// Answers with a stream of `row`'s events after `after`; (0, 0) means from the first one. `shows_activity`: with what is done on
/// the way.
pub async fn of_task(
    files: ShownFiles,
    row: TaskRow,
    after: TaskEventCursor,
    shows_activity: bool,
) -> Result<HttpResponse, Problem> {
    let (store, me) = (files.store.clone(), files.agent.clone());
    let journal = keys::journal(&me, &row.task.conversation);
    check_cursor(&store, &journal, &row, after)?;
    let has_ended = row.ended_at.is_some();
    let follower = TaskFollower::after(store, me, row, after).map_err(Problem::from)?;
    let mut follower = ShownTask { files, follower, shows_activity };
    let mut first = None;
    if has_ended && after != (0, 0) {
        first = follower.next_lines().await;
        if first.is_none() {
            // The client has read every event: 204 stops an EventSource from reconnecting.
            return Ok(HttpResponse::NoContent().finish());
        }
    }
    let first = stream::iter(first.map(Ok::<_, Infallible>));
    let rest = stream::unfold(follower, |mut follower| async {
        let bytes = follower.next_lines().await?;
        Some((Ok::<_, Infallible>(bytes), follower))
    });
    let body = first.chain(rest);
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream")
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(body))
}

struct ShownTask {
    files: ShownFiles,
    follower: TaskFollower,
    shows_activity: bool,
}

impl ShownTask {
    /// The next events as SSE lines, or a heartbeat comment; `None` at the end.
    async fn next_lines(&mut self) -> Option<Bytes> {
        match tokio::time::timeout(HEARTBEAT, self.next()).await {
            Ok(Ok(lines)) if lines.is_empty() => None,
            Ok(Ok(lines)) => Some(lines.into()),
            Ok(Err(error)) => {
                tracing::warn!(%error, "a task's stream ends early");
                None
            }
            Err(_) => Some(Bytes::from_static(b": alive\n\n")),
        }
    }

    async fn next(&mut self) -> Result<String, Error> {
        if !self.shows_activity {
            let mut events = self.follower.next().await?;
            events.iter_mut().for_each(|event| self.files.link_event(&mut event.data));
            return Ok(events.iter().map(|event| sse_lines(event, &event.data.to_json())).collect());
        }
        let mut events = self.follower.next_shown().await?;
        for event in &mut events {
            if let ShownEvent::Response(response) = &mut event.data {
                self.files.link_event(response);
            }
        }
        let lines = events.iter().map(|event| match &event.data {
            ShownEvent::Response(response) => sse_lines(event, &response.to_json()),
            ShownEvent::Activity(activity) => sse_lines(event, &json!({ "activity": activity }).to_string()),
        });
        Ok(lines.collect())
    }
}

fn sse_lines<D>(event: &TaskEvent<D>, data: &str) -> String {
    let id = match event.id {
        (revision, 0) => revision.to_string(),
        (revision, index) => format!("{revision}.{index}"),
    };
    match event.id.0 {
        // The end of a task whose journal is trimmed has no id.
        0 => format!("data: {data}\n\n"),
        _ => format!("id: {id}\ndata: {data}\n\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patterns::{Effect, Event, EventKind, Outcome};
    use protocol::{
        ids::{AgentId, ConversationId},
        principal::Principal,
        task::{Status, TaskSpec, TaskState},
        time::{NodeTime, WallTime},
    };
    use store::{Batch, Lane, Revision, Write, memory};

    fn row() -> TaskRow {
        let json = serde_json::json!({ "taskId": "t-1", "description": "d", "root": "user:local" });
        let spec: TaskSpec = serde_json::from_value(json).unwrap();
        let conversation = ConversationId::parse("c-1").unwrap();
        let mut row = TaskRow::new(spec, Principal::local_user(), conversation, WallTime(0));
        row.ended_at = Some(NodeTime(1));
        row.task.status = Status::new(TaskState::Completed, "done");
        row
    }

    async fn step(store: &SharedStore, me: &AgentId, effects: Vec<Effect>) -> Revision {
        let event = Event { at: NodeTime(0), wall: WallTime(0), what: EventKind::Started };
        let (events, closes) = (vec![event], Vec::new());
        let step = engine::records::Step { step: 1, events, closes, effects, ..Default::default() };
        let key = keys::journal(me, &row().task.conversation);
        let write = Write::Append(key, serde_json::to_vec(&step).unwrap().into());
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        store.commit(Lane::Progress, batch).await.unwrap()[0]
    }

    async fn streamed(
        store: &SharedStore,
        me: &AgentId,
        after: (Revision, usize),
    ) -> Result<String, Problem> {
        let base = "http://127.0.0.1:1".to_owned();
        let files = ShownFiles { store: store.clone(), agent: me.clone(), base };
        let answer = of_task(files, row(), after, true).await?;
        let bytes = actix_web::body::to_bytes(answer.into_body()).await.unwrap();
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[actix::test]
    async fn a_task_whose_journal_is_trimmed_still_reports_its_end() {
        let (store, me) = (memory::new(), AgentId::parse("a").unwrap());
        let outcome = Outcome::new(row().task.status);
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
