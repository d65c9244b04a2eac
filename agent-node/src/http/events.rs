//! Server-sent events of one task, straight from its conversation's journal: no gap, no repeat, and nothing held in
//! memory for a reader that does not read.

use crate::{
    agent::store_problem,
    conversation::record::{TaskRow, keys},
    tasks,
};
use actix_web::{HttpResponse, http::header};
use blackboard::store::{Error, Filter, Record, Revision, Shared, Watch};
use bytes::Bytes;
use futures_util::stream;
use protocol::{ids::AgentId, problem::Problem};
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
    Over,
}

struct Follow {
    store: Shared,
    me: AgentId,
    row: TaskRow,
    after: (Revision, usize),
    from: From,
}

/// A stream of `row`'s events after `after`; (0, 0) means from the first one.
pub fn of_task(
    store: Shared,
    me: AgentId,
    row: TaskRow,
    after: (Revision, usize),
) -> Result<HttpResponse, Problem> {
    let filter = Filter::Exactly(keys::journal(&me, &row.task.conversation));
    let before = after.0.saturating_sub(1);
    let from = match row.ended_at {
        Some(_) => From::Past(filter, before),
        None => From::Live(store.watch(filter, before).map_err(|error| store_problem(&error))?),
    };
    let follow = Follow { store, me, row, after, from };
    let body = stream::unfold(follow, |mut follow| async {
        let bytes = follow.next().await?;
        Some((Ok::<_, Infallible>(bytes), follow))
    });
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
                text.push_str(&format!("id: {id}\ndata: {}\n\n", seen.data));
                if seen.is_last {
                    self.from = From::Over;
                }
            }
        }
        Ok(text.into())
    }
}
