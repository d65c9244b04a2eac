//! The signal stream as server-sent events: `id` is the cursor; a comment is the heartbeat.

use super::{BoardData, CallerId, request};
use crate::feed::FeedSubscription;
use actix_web::{HttpRequest, HttpResponse, http::header};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use protocol::problem::Problem;
use std::convert::Infallible;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use transport::refusal::Refusal;

pub(super) const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn follow(
    board: BoardData,
    by: CallerId,
    http: HttpRequest,
) -> Result<HttpResponse, Refusal> {
    let query = request::parse_query(http.query_string())?;
    let after = match http.headers().get(LAST_EVENT_ID) {
        None => query.after,
        Some(id) => Some(request::parse_cursor("Last-Event-ID", id.to_str().unwrap_or_default())?),
    };
    let subscription = board.subscribe(&by, query.selector, after)?;
    let config = board.config();
    let mut heartbeat = interval_at(Instant::now() + config.heartbeat(), config.heartbeat());
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stream = SignalEventStream {
        subscription,
        heartbeat,
        chunk: config.chunk_bytes,
        is_open: false,
        has_ended: false,
    };
    let events = stream::unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((Ok::<_, Infallible>(bytes), stream))
    });
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(events))
}

/// The state of an open stream.
struct SignalEventStream {
    subscription: FeedSubscription,
    heartbeat: Interval,
    chunk: usize,
    is_open: bool,
    has_ended: bool,
}

impl SignalEventStream {
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if !self.is_open {
            self.is_open = true;
            return Some(self.comment("open"));
        }
        let events = tokio::select! {
            biased;
            events = self.subscription.next(self.chunk) => events,
            _ = self.heartbeat.tick() => return Some(self.comment("here")),
        };
        match events.as_deref() {
            Ok([event]) => Some(event.frame.clone()),
            Ok(events) => {
                let size = events.iter().map(|event| event.frame.len()).sum();
                let mut bytes = BytesMut::with_capacity(size);
                events.iter().for_each(|event| bytes.extend_from_slice(&event.frame));
                Some(bytes.freeze())
            }
            Err(problem) => {
                self.has_ended = true;
                Some(problem_event(problem))
            }
        }
    }

    /// A comment whose `id` advances the client's `Last-Event-ID` past signals that it did not select.
    fn comment(&self, word: &str) -> Bytes {
        Bytes::from(format!(": {word}\nid: {}\n\n", self.subscription.cursor()))
    }
}

/// The last event of a stream: the problem that ends it.
pub(super) fn problem_event(problem: &Problem) -> Bytes {
    Bytes::from(format!("event: problem\ndata: {}\n\n", problem.body()))
}
