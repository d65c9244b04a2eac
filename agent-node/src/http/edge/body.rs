//! Reads a request's body within limits of type, size, time and memory.

use super::{
    console_access, is_a2a, is_artifact_upload, is_peer_lines,
    server_config::HttpServerConfig,
    spool::{Spool, SpooledFiles},
    takes_files,
};
use crate::budget_holder::BudgetHolder;
use actix_web::{
    dev::{Payload, ServiceRequest},
    http::header::{self, HeaderValue},
};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use protocol::{
    ids::{Digest, DigestOfPieces},
    problem::{Problem, Reason},
};
use std::{
    collections::BTreeMap,
    fmt::Display,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};
use store::SharedBlobs;
use tokio::time::{Instant, sleep_until};

/// The limits for one request's body.
pub(super) struct BodyRules {
    has_body: bool,
    declared: Option<usize>,
    limit: usize,
    /// How much of it is kept in memory.
    kept: usize,
    /// Where the files of a body of A2A go.
    spool: Option<SharedBlobs>,
    timeout: Duration,
    grace: Duration,
    min_rate: u64,
}

impl BodyRules {
    /// The rules for `request`. Fails if its head breaks them.
    pub(super) fn for_request(
        request: &ServiceRequest,
        payload: &Payload,
        config: &HttpServerConfig,
    ) -> Result<Self, Problem> {
        let headers = request.headers();
        let mut encodings = headers.get_all(header::CONTENT_ENCODING);
        if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(unsupported("Content-Encoding must be identity or absent"));
        }
        let is_artifact = is_artifact_upload(request);
        let limits = &config.limits;
        let rules = Self {
            has_body: !matches!(payload, Payload::None),
            declared: headers
                .get(header::CONTENT_LENGTH)
                .and_then(|length| length.to_str().ok()?.parse().ok()),
            ..Self::for_message(config)
        };
        let rules = match (is_artifact, config.spool.as_ref().filter(|_| takes_files(request))) {
            (true, _) => rules.of(limits.max_artifact_bytes),
            (false, Some(_)) if rules.declared.is_some_and(|bytes| bytes <= limits.max_body_bytes) => rules,
            (false, Some(spool)) => {
                Self { limit: limits.max_a2a_body_bytes, spool: Some(spool.clone()), ..rules }
            }
            (false, None) if console_access::takes_files(request) => rules.of(limits.max_a2a_body_bytes),
            (false, None) => rules,
        };
        if rules.has_body && !is_artifact && !is_a2a(request) {
            let mut types = headers.get_all(header::CONTENT_TYPE);
            let (Some(given), None) = (types.next(), types.next()) else {
                return Err(unsupported("Content-Type must be there, once"));
            };
            let is_lines = || is_peer_lines(request) && LINES.iter().any(|lines| is_type(given, lines));
            let is_form = || {
                console_access::takes_form(request) && is_type(given, "application/x-www-form-urlencoded")
                    || console_access::takes_files(request) && is_type(given, "multipart/form-data")
            };
            if !is_type(given, "application/json") && !is_lines() && !is_form() {
                return Err(unsupported("Content-Type must be application/json"));
            }
        }
        if rules.declared.is_some_and(|declared| declared > rules.limit) {
            return Err(rules.too_large());
        }
        Ok(rules)
    }

    /// The same for a body of at most `limit` bytes.
    pub(super) fn of(self, limit: usize) -> Self {
        Self { limit, kept: limit, ..self }
    }

    /// The rules for a message without a declared length.
    pub(super) fn for_message(config: &HttpServerConfig) -> Self {
        Self {
            has_body: true,
            declared: None,
            limit: config.limits.max_body_bytes,
            kept: config.limits.max_body_bytes,
            spool: None,
            timeout: Duration::from_millis(config.limits.body_ms),
            grace: config.body_grace,
            min_rate: config.min_body_rate.max(1),
        }
    }

    /// How long a body may take of which `received` bytes are read.
    fn max_duration(&self, received: usize) -> Duration {
        let earned = Duration::from_millis(1000 * received as u64 / self.min_rate);
        self.timeout.min(self.grace + earned)
    }

    fn too_large(&self) -> Problem {
        let message = format!("the body may have {} bytes at most", self.limit);
        Problem::new(Reason::PayloadTooLarge, message).with("limit", self.limit)
    }

    fn too_much_text(&self) -> Problem {
        let message =
            format!("the body may have {} bytes at most beside the files in its parts (raw)", self.kept);
        Problem::new(Reason::PayloadTooLarge, message).with("limit", self.kept)
    }
}

pub(super) struct BufferedBody {
    pub(super) bytes: Bytes,
    /// The reservation, if the body came in several chunks.
    pub(super) guard: Option<BodyBudgetGuard>,
    /// The files that were in it, in place of which it has marks.
    pub(super) files: SpooledFiles,
    /// The digest of the body as it was sent, if files were taken out.
    pub(super) digest: Option<Digest>,
}

/// What bodies may use.
pub(super) struct Budgets<'a> {
    pub(super) memory: &'a Arc<BodyBudget>,
    pub(super) disk: &'a Arc<BodyBudget>,
}

/// Reads `payload` to its end. Fails if it is too large, too slow, malformed, or exceeds the memory budget.
pub(super) async fn read<E: Display>(
    payload: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
    rules: &BodyRules,
    Budgets { memory: budget, disk }: Budgets<'_>,
    holder: &BudgetHolder,
) -> Result<BufferedBody, Problem> {
    let files = SpooledFiles::default();
    if !rules.has_body {
        return Ok(BufferedBody { bytes: Bytes::new(), guard: None, files, digest: None });
    }
    let mut spool = rules.spool.clone().map(Spool::new);
    let mut digest = DigestOfPieces::default();
    let mut on_disk: Option<BodyBudgetGuard> = None;
    let mut unyielded = 0;
    let started = Instant::now();
    let mut timer = pin!(sleep_until(started + rules.max_duration(0)));
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let mut received = 0;
    let mut guard: Option<BodyBudgetGuard> = None;
    // Most bodies arrive with the head, and actix delivers them right after this call: poll once more before a timer starts.
    let mut was_pending = false;
    poll_fn(|cx| {
        loop {
            match Pin::new(&mut *payload).poll_next(cx) {
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Ready(Some(Ok(chunk))) => {
                    received += chunk.len();
                    if received > rules.limit {
                        return Poll::Ready(Err(rules.too_large()));
                    }
                    // A body that fits into memory is read like any other.
                    if let Some(spool) = spool.as_mut().filter(|_| received > rules.kept) {
                        let (kept, written) = (spool.rest.len(), spool.file_bytes());
                        let held = std::mem::take(&mut all);
                        for piece in [held.as_ref(), chunk.as_ref()] {
                            digest.add(piece);
                            spool.add(piece)?;
                        }
                        if spool.rest.len() > rules.kept {
                            return Poll::Ready(Err(rules.too_much_text()));
                        }
                        let (kept, written) = (spool.rest.len() - kept, spool.file_bytes() - written);
                        guard.get_or_insert_with(|| budget.guard(holder.clone())).reserve(kept)?;
                        let written = usize::try_from(written).unwrap_or(usize::MAX);
                        on_disk.get_or_insert_with(|| disk.guard(holder.clone())).reserve(written)?;
                        unyielded += chunk.len();
                        if unyielded > MAX_UNYIELDED {
                            unyielded = 0;
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                        continue;
                    }
                    if received == chunk.len() && rules.declared == Some(received) {
                        first = chunk;
                        continue;
                    }
                    guard.get_or_insert_with(|| budget.guard(holder.clone())).reserve(chunk.len())?;
                    all.extend_from_slice(&chunk);
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(broken(&error))),
                Poll::Pending if !std::mem::replace(&mut was_pending, true) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Pending => {
                    if timer.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let until = started + rules.max_duration(received);
                    if until <= Instant::now() {
                        return Poll::Ready(Err(too_slow(received)));
                    }
                    timer.as_mut().reset(until);
                }
            }
        }
    })
    .await?;
    if let Some(spool) = spool.filter(|_| received > rules.kept) {
        let (rest, files) = spool.finish();
        return Ok(BufferedBody { bytes: rest.freeze(), guard, files, digest: Some(digest.finish()) });
    }
    let bytes = if all.is_empty() { first } else { all.freeze() };
    Ok(BufferedBody { bytes, guard, files, digest: None })
}

/// How many bytes are written into files before others have their turn.
const MAX_UNYIELDED: usize = 512 << 10;

/// The media types of an object a line.
const LINES: [&str; 2] = ["application/x-ndjson", "application/jsonl"];

fn is_type(content_type: &HeaderValue, media_type: &str) -> bool {
    let essence = content_type.as_bytes().split(|b| *b == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(media_type.as_bytes())
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

/// Memory for bodies that arrive in several chunks.
pub(super) struct BodyBudget {
    max: usize,
    max_per_holder: usize,
    used: Mutex<UsedBytes>,
}

#[derive(Default)]
struct UsedBytes {
    all: usize,
    by_holder: BTreeMap<BudgetHolder, usize>,
}

/// One body's share of a budget, released on drop.
pub(crate) struct BodyBudgetGuard {
    budget: Arc<BodyBudget>,
    holder: BudgetHolder,
    reserved: usize,
}

impl BodyBudget {
    /// A budget of `max` bytes, of which one holder may use `max_per_holder`.
    pub(super) fn new(max: usize, max_per_holder: usize) -> Arc<Self> {
        Arc::new(Self { max, max_per_holder, used: Mutex::default() })
    }

    fn guard(self: &Arc<Self>, holder: BudgetHolder) -> BodyBudgetGuard {
        BodyBudgetGuard { budget: Arc::clone(self), holder, reserved: 0 }
    }

    fn used(&self) -> MutexGuard<'_, UsedBytes> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodyBudgetGuard {
    fn reserve(&mut self, bytes: usize) -> Result<(), Problem> {
        let Self { budget, holder, reserved } = self;
        let mut used = budget.used();
        let of_holder = used.by_holder.get(holder).copied().unwrap_or_default() + bytes;
        let too_many = |whose: &str, max: usize| {
            let message = format!("large bodies of {whose} may have {max} bytes at once; try again");
            Err(Problem::new(Reason::Overloaded, message).with("limit", max))
        };
        if of_holder > budget.max_per_holder {
            return too_many(&holder.to_string(), budget.max_per_holder);
        }
        if used.all + bytes > budget.max {
            return too_many("all callers", budget.max);
        }
        used.all += bytes;
        used.by_holder.insert(holder.clone(), of_holder);
        *reserved += bytes;
        Ok(())
    }
}

impl Drop for BodyBudgetGuard {
    fn drop(&mut self) {
        let Self { budget, holder, reserved } = self;
        let mut used = budget.used();
        used.all -= *reserved;
        if let Some(of_holder) = used.by_holder.get_mut(holder) {
            *of_holder -= *reserved;
            if *of_holder == 0 {
                used.by_holder.remove(holder);
            }
        }
    }
}
