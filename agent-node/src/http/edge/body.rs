//! What a request carries: its type, at most so many bytes, and not too slowly.

use super::{front::Front, puts_artifact, speaks_a2a};
use actix_web::{
    dev::{Payload, ServiceRequest},
    http::header::{self, HeaderValue},
};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use protocol::problem::{Problem, Reason};
use std::{
    fmt::Display,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

/// What holds for one request's body.
pub(super) struct Rules {
    carries: bool,
    declared: Option<usize>,
    limit: usize,
    within: Duration,
    grace: Duration,
    min_rate: u64,
}

impl Rules {
    /// The rules for `request`; refuses at once what its head already shows to break them.
    pub(super) fn for_request(
        request: &ServiceRequest,
        payload: &Payload,
        front: &Front,
    ) -> Result<Self, Problem> {
        let headers = request.headers();
        let mut encodings = headers.get_all(header::CONTENT_ENCODING);
        if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(unsupported("Content-Encoding must be identity or absent"));
        }
        let is_artifact = puts_artifact(request);
        let limits = &front.limits;
        let rules = Self {
            carries: !matches!(payload, Payload::None),
            declared: headers
                .get(header::CONTENT_LENGTH)
                .and_then(|length| length.to_str().ok()?.parse().ok()),
            limit: if is_artifact { limits.max_artifact_bytes } else { limits.max_body_bytes },
            ..Self::for_message(front)
        };
        if rules.carries && !is_artifact && !speaks_a2a(request) {
            let mut types = headers.get_all(header::CONTENT_TYPE);
            let (Some(json), None) = (types.next().map(is_json), types.next()) else {
                return Err(unsupported("Content-Type must be there, once"));
            };
            if !json {
                return Err(unsupported("Content-Type must be application/json"));
            }
        }
        if rules.declared.is_some_and(|declared| declared > rules.limit) {
            return Err(rules.too_large());
        }
        Ok(rules)
    }

    /// The rules for a message of which nothing is known.
    pub(super) fn for_message(front: &Front) -> Self {
        Self {
            carries: true,
            declared: None,
            limit: front.limits.max_body_bytes,
            within: Duration::from_millis(front.limits.body_ms),
            grace: front.body_grace,
            min_rate: front.min_body_rate.max(1),
        }
    }

    /// How long a body may have taken when so much of it is here.
    fn allowed(&self, received: usize) -> Duration {
        let earned = Duration::from_millis(1000 * received as u64 / self.min_rate);
        self.within.min(self.grace + earned)
    }

    fn too_large(&self) -> Problem {
        let message = format!("the body may have {} bytes at most", self.limit);
        Problem::new(Reason::PayloadTooLarge, message).with("limit", self.limit)
    }
}

/// A body that is here as a whole.
pub(super) struct Body {
    /// Its bytes.
    pub(super) bytes: Bytes,
    /// Its share of the node's memory for bodies.
    pub(super) held: Option<Held>,
}

/// Reads all of `payload`, or says why not.
pub(super) async fn read<E: Display>(
    payload: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
    rules: &Rules,
    budget: &Budget,
) -> Result<Body, Problem> {
    if !rules.carries {
        return Ok(Body { bytes: Bytes::new(), held: None });
    }
    let started = Instant::now();
    let mut timer = pin!(sleep_until(started + rules.allowed(0)));
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let mut received = 0;
    let mut held: Option<Held> = None;
    // A whole body is here with its head, most often, and the server has it for us as soon as it has called us: only one
    // that is still missing then is worth a timer.
    let mut is_awaited = false;
    poll_fn(|cx| {
        loop {
            match Pin::new(&mut *payload).poll_next(cx) {
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Ok(chunk))) => {
                    received += chunk.len();
                    if received > rules.limit {
                        return Poll::Ready(Err(rules.too_large()));
                    }
                    if received == chunk.len() && rules.declared == Some(received) {
                        first = chunk;
                        continue;
                    }
                    held.get_or_insert_with(|| budget.hold()).grow(chunk.len())?;
                    all.extend_from_slice(&chunk);
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(broken(&error))),
                Poll::Pending if !std::mem::replace(&mut is_awaited, true) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Pending => {
                    if timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let until = started + rules.allowed(received);
                    if until <= Instant::now() {
                        return Poll::Ready(Err(too_slow(received)));
                    }
                    timer.as_mut().reset(until);
                }
            }
        }
    })
    .await?;
    let bytes = if all.is_empty() { first } else { all.freeze() };
    Ok(Body { bytes, held })
}

fn is_json(content_type: &HeaderValue) -> bool {
    let essence = content_type.as_bytes().split(|b| *b == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

fn too_slow(received: usize) -> Problem {
    Problem::new(Reason::RequestTimeout, format!("the body came too slowly: {received} bytes are here"))
}

fn broken(error: &impl Display) -> Problem {
    Problem::new(Reason::BadRequest, format!("the body broke off or is malformed: {error}"))
}

fn unsupported(message: &str) -> Problem {
    Problem::new(Reason::UnsupportedMediaType, message)
}

/// The memory that all bodies that come in pieces may take together.
pub(super) struct Budget {
    used: Arc<AtomicUsize>,
    max: usize,
}

/// One body's share of the budget, given back when dropped.
pub(crate) struct Held {
    used: Arc<AtomicUsize>,
    max: usize,
    mine: usize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Self {
        Self { used: Arc::default(), max }
    }

    fn hold(&self) -> Held {
        Held { used: Arc::clone(&self.used), max: self.max, mine: 0 }
    }
}

impl Held {
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.mine += bytes;
        if self.used.fetch_add(bytes, Ordering::Relaxed) + bytes > self.max {
            return Err(Problem::new(Reason::Overloaded, "too many large bodies at once"));
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.used.fetch_sub(self.mine, Ordering::Relaxed);
    }
}
