//! The HTTP client of the OTLP exporter. It records why the last request failed and how many spans the backend rejected:
//! the exporter keeps both to itself. The exporter repeats requests, by OTLP's rules.

use blackboard::http_client::tls;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::StatusCode;
use std::{
    error::Error,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

#[derive(Debug)]
pub(super) struct RecordingClient {
    pub(super) client: reqwest::Client,
    /// The timeout of `client`, for messages.
    pub(super) timeout: Duration,
    pub(super) outcome: Arc<ExportResults>,
}

#[derive(Debug, Default)]
pub(super) struct ExportResults {
    /// Spans that the backend rejected out of accepted batches, since the last reset.
    pub(super) rejected: AtomicU64,
    /// Whether the backend found the last request too large.
    pub(super) is_too_large: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl ExportResults {
    /// Takes the reason why the last request failed.
    pub(super) fn take_failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set_failure(&self, reason: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

impl HttpClient for RecordingClient {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let answer = self.client.send_bytes(request).await;
            let status = answer.as_ref().ok().map(Response::status);
            self.outcome.is_too_large.store(status == Some(StatusCode::PAYLOAD_TOO_LARGE), Relaxed);
            match &answer {
                Ok(answer) if answer.status().is_success() => {
                    self.outcome.set_failure(None);
                    self.outcome.rejected.fetch_add(rejected_spans(answer.body()), Relaxed);
                }
                Ok(answer) => self.outcome.set_failure(Some(format!("it answers {}", answer.status()))),
                Err(error) => {
                    let (reason, is_transient) = describe(error.as_ref(), self.timeout);
                    self.outcome.set_failure(Some(reason));
                    if !is_transient {
                        // The exporter repeats after every error, but not after this status.
                        let mut refused = Response::new(Bytes::new());
                        *refused.status_mut() = StatusCode::BAD_REQUEST;
                        return Ok(refused);
                    }
                }
            }
            answer
        })
    }
}

/// The spans that a backend rejected out of a batch that it accepted (OTLP's `partial_success`).
fn rejected_spans(answer: &[u8]) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let rejected = answer.partial_success.unwrap_or_default().rejected_spans;
    u64::try_from(rejected).unwrap_or_default()
}

/// What went wrong, without the URL, and whether it may work later.
fn describe(error: &(dyn Error + 'static), timeout: Duration) -> (String, bool) {
    let Some(wire) = error.downcast_ref::<reqwest::Error>() else { return (error.to_string(), false) };
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if tls::is_tls_error(error) {
        return (format!("TLS fails: {innermost}"), false);
    }
    if wire.is_timeout() {
        let what = if wire.is_connect() { "connection" } else { "answer" };
        return (format!("no {what} within {timeout:?}"), true);
    }
    if wire.is_builder() {
        return (innermost.to_string(), false);
    }
    let what = if wire.is_connect() { "no connection" } else { "no answer" };
    (format!("{what}: {innermost}"), true)
}
