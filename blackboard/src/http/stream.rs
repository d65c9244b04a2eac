//! The board as server-sent events: `id` is the revision, a comment comes when nothing else does.

use super::{By, Place, asked};
use crate::{feed::Subscription, refusal::Refusal};
use actix_web::{HttpRequest, HttpResponse, http::header};
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use protocol::problem::Problem;
use std::convert::Infallible;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn follow(board: Place, _by: By, request: HttpRequest) -> Result<HttpResponse, Refusal> {
    let query = asked::query(request.query_string())?;
    let after = match request.headers().get(LAST_EVENT_ID) {
        None => query.after,
        Some(id) => Some(asked::cursor("Last-Event-ID", id.to_str().unwrap_or_default())?),
    };
    let subscription = board.subscribe(query.selector, after)?;
    let config = board.config();
    let mut beat = interval_at(Instant::now() + config.heartbeat(), config.heartbeat());
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let reader = Reader { subscription, beat, chunk: config.chunk_bytes, is_open: false, has_ended: false };
    let events = stream::unfold(reader, |mut reader| async move {
        let bytes = reader.next().await?;
        Some((Ok::<_, Infallible>(bytes), reader))
    });
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/event-stream"))
        .insert_header((header::CACHE_CONTROL, "no-store"))
        .streaming(events))
}

/// All that an open stream keeps: a cursor and a timer.
struct Reader {
    subscription: Subscription,
    beat: Interval,
    chunk: usize,
    is_open: bool,
    has_ended: bool,
}

impl Reader {
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
            _ = self.beat.tick() => return Some(self.comment("here")),
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
                Some(last_words(problem))
            }
        }
    }

    /// A comment that moves the reader's `Last-Event-ID` on, past signals it did not ask for.
    fn comment(&self, word: &str) -> Bytes {
        Bytes::from(format!(": {word}\nid: {}\n\n", self.subscription.cursor()))
    }
}

/// Why the stream ends, as an event that is no signal.
fn last_words(problem: &Problem) -> Bytes {
    Bytes::from(format!("event: problem\ndata: {}\n\n", problem.body()))
}
