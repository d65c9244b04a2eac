//! The stream of the changes of a space's entries as server-sent events: `id` is the cursor; a comment is the heartbeat.

use super::{BoardData, BoardResult, SpaceCaller, space_of, space_query};
use crate::{
    board::{EntryEvent, EntryFollower},
    http::stream::{LAST_EVENT_ID, problem_event},
};
use actix_web::{HttpRequest, HttpResponse, http::header};
use bytes::Bytes;
use futures_util::stream;
use protocol::problem::Problem;
use std::convert::Infallible;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

pub(super) async fn follow(board: BoardData, by: SpaceCaller, request: HttpRequest) -> BoardResult {
    let (mut query, _) = space_query::parse(request.query_string())?;
    let resumed = request.headers().get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let after = resumed.or(query.after.take());
    let follower = board.spaces().follow(&by.0, &space_of(&request)?, query, after.as_deref()).await?;
    let period = board.config().heartbeat();
    let mut heartbeat = interval_at(Instant::now() + period, period);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stream = EntryEventStream { follower, heartbeat, is_open: false, has_ended: false };
    let events = stream::unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((Ok::<_, Infallible>(bytes), stream))
    });
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(events))
}

struct EntryEventStream {
    follower: EntryFollower,
    heartbeat: Interval,
    is_open: bool,
    has_ended: bool,
}

impl EntryEventStream {
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        let bytes = match self.is_open {
            false => {
                self.is_open = true;
                self.comment("open")
            }
            true => tokio::select! {
                biased;
                events = self.follower.next() => events.and_then(|events| frames(&events)),
                _ = self.heartbeat.tick() => self.comment("here"),
            },
        };
        Some(bytes.unwrap_or_else(|problem| {
            self.has_ended = true;
            problem_event(&problem)
        }))
    }

    /// A comment whose `id` advances the client's `Last-Event-ID`.
    fn comment(&self, word: &str) -> Result<Bytes, Problem> {
        Ok(Bytes::from(format!(": {word}\nid: {}\n\n", self.follower.cursor()?)))
    }
}

fn frames(events: &[EntryEvent]) -> Result<Bytes, Problem> {
    let mut frames = Vec::new();
    for EntryEvent { entry, cursor } in events {
        frames.extend(format!("id: {cursor}\ndata: ").into_bytes());
        frames.extend(crate::signals::json(entry)?);
        frames.extend(b"\n\n");
    }
    Ok(frames.into())
}
