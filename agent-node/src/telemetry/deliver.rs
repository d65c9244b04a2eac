//! One batch of spans to its backend, as OTLP over HTTP wants it: tried again after what may pass (429, 502, 503, 504, no
//! connection, no answer), each time after twice as long, not before the backend asks for it, and no longer than a batch
//! may take. What came of the last try is said in words.

use super::rejected::rejected;
use crate::outbox::retry_after::retry_after;
use blackboard::wire::tls;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::header::RETRY_AFTER;
use std::{
    error::Error,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// The first pause between two tries, and the longest unless the backend asks for more.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(8)];

/// A client that tries again.
#[derive(Debug)]
pub(super) struct Delivering {
    pub(super) client: reqwest::Client,
    /// How long one try may take; the client sees to that.
    pub(super) within: Duration,
    /// How long all tries for a batch may take.
    pub(super) patience: Duration,
    /// What came of it.
    pub(super) outcome: Arc<Outcome>,
}

/// What came of deliveries.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Spans that the backend rejected though it took others, since somebody looked.
    pub(super) rejected: AtomicU64,
    why: Mutex<Option<String>>,
}

impl Outcome {
    /// Why the last try came to nothing, if it did.
    pub(super) fn why(&self) -> Option<String> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, why: Option<String>) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

impl HttpClient for Delivering {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let end = Instant::now() + self.patience;
            let mut tries = 0;
            loop {
                let answer = self.client.send_bytes(request.clone()).await;
                let (why, asked) = match &answer {
                    Ok(answer) if answer.status().is_success() => {
                        self.outcome.note(None);
                        self.outcome.rejected.fetch_add(rejected(answer.body()).unwrap_or_default(), Relaxed);
                        return Ok(answer.clone());
                    }
                    Ok(answer) => (format!("it answers {}", answer.status()), may_pass(answer)),
                    Err(error) => {
                        let (why, may_pass) = reason(error.as_ref(), self.within);
                        (why, may_pass.then_some(Duration::ZERO))
                    }
                };
                tracing::debug!(why, tries, "traces wait for their backend");
                self.outcome.note(Some(why));
                let Some(asked) = asked else { return answer };
                let pause = pause(tries, asked, crate::outbox::chance());
                if Instant::now() + pause >= end {
                    return answer;
                }
                tokio::time::sleep(pause).await;
                tries += 1;
            }
        })
    }
}

/// How long to wait after so many tries; `chance` (0 to 1) keeps many senders apart, none of them before it was `asked` to.
fn pause(tries: u32, asked: Duration, chance: f64) -> Duration {
    let [first, longest] = PAUSES;
    let usual = first.saturating_mul(1 << tries.min(16)).min(longest);
    let apart = usual.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
    if asked.is_zero() { apart } else { asked + apart.min(first) }
}

/// If the refusal may pass: how long the backend asks to be left alone.
fn may_pass<T>(answer: &Response<T>) -> Option<Duration> {
    if ![429, 502, 503, 504].contains(&answer.status().as_u16()) {
        return None;
    }
    let asked = answer.headers().get(RETRY_AFTER).and_then(|asked| asked.to_str().ok());
    Some(asked.and_then(|asked| retry_after(asked, SystemTime::now())).unwrap_or_default())
}

/// What went wrong, in words without the URL, and whether it may pass.
fn reason(error: &(dyn Error + 'static), within: Duration) -> (String, bool) {
    let Some(wire) = error.downcast_ref::<reqwest::Error>() else { return (error.to_string(), false) };
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if tls::is_at_fault(error) {
        return (format!("TLS fails: {innermost}"), false);
    }
    if wire.is_timeout() {
        let what = if wire.is_connect() { "connection" } else { "answer" };
        return (format!("no {what} within {within:?}"), true);
    }
    if wire.is_builder() {
        return (innermost.to_string(), false);
    }
    let what = if wire.is_connect() { "no connection" } else { "no answer" };
    (format!("{what}: {innermost}"), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_never_shorter_than_asked_for() {
        let seconds = |tries, asked, chance| pause(tries, Duration::from_secs(asked), chance).as_secs_f64();
        assert_eq!([0, 1, 2, 5, 6, 60].map(|tries| seconds(tries, 0, 1.0)), [0.2, 0.4, 0.8, 6.4, 8.0, 8.0]);
        assert_eq!(seconds(6, 0, 0.0), 4.0, "apart from others");
        assert!(seconds(0, 3, 0.0) > 3.0 && seconds(9, 3, 1.0) <= 3.2);
        assert_eq!(seconds(0, 100, 0.0).floor(), 100.0);
    }

    #[test]
    fn what_may_pass_is_tried_again_when_the_backend_says() {
        let refused = |status: u16| {
            may_pass(&Response::builder().status(status).header("retry-after", "7").body(()).unwrap())
        };
        for status in [429, 502, 503, 504] {
            assert_eq!(refused(status), Some(Duration::from_secs(7)), "{status}");
        }
        for status in [301, 400, 401, 404, 413, 500] {
            assert_eq!(refused(status), None, "{status}");
        }
    }
}
