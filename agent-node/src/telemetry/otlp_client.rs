//! The client of the SDK's OTLP exporters, over HTTP and over gRPC. It records why the last request failed and how many items
//! the backend rejected: the exporters keep both to themselves. They repeat requests, by OTLP's rules.
//!
//! The SDK's own gRPC exporter is not used: it returns the code of a failure in a text only and no count of what was
//! rejected, and its channel would be a second HTTP/2 client with certificates of its own.

mod grpc;

use super::otel_settings::{ExportSettings, OtlpProtocol};
use flate2::{Compression, write::GzEncoder};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::RetryPolicy;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;
use reqwest::{StatusCode, header};
use std::{
    error::Error,
    io::Write as _,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use transport::http_client::tls;

/// The interval of keep-alive pings over gRPC, and the timeout of each.
const PING: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct OtlpClient {
    client: reqwest::Client,
    settings: ExportSettings,
    results: Arc<ExportResults>,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportFailure {
    pub(super) kind: FailureKind,
    /// In words, without URL, headers or the backend's text.
    pub(super) reason: String,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The backend found the request too large.
    TooLarge,
    /// The backend takes no requests of this signal.
    SignalNotTaken,
    Other,
}

/// The results of the last requests.
#[derive(Debug, Default)]
pub(super) struct ExportResults {
    rejected: AtomicU64,
    failure: Mutex<Option<ExportFailure>>,
}

impl ExportResults {
    /// Takes the reason why the last request failed.
    pub(super) fn take_failure(&self) -> Option<ExportFailure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the number of items that the backend rejected out of accepted batches.
    pub(super) fn take_rejected(&self) -> u64 {
        self.rejected.swap(0, Relaxed)
    }

    fn record(&self, failure: Option<ExportFailure>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}

impl OtlpClient {
    /// A client for the backend of `settings`, and where it records results. Fails on unusable certificates.
    pub(super) fn new(settings: &ExportSettings) -> Result<(Self, Arc<ExportResults>), String> {
        let client = settings
            .pems
            .client()
            .map_err(|unusable| unusable.to_string())?
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(settings.timeout);
        let client = match settings.protocol {
            OtlpProtocol::Http => client,
            OtlpProtocol::Grpc => {
                client.http2_prior_knowledge().http2_keep_alive_interval(PING).http2_keep_alive_timeout(PING)
            }
        };
        let word = settings.signal.word();
        let client = client.build().map_err(|error| format!("no HTTP client for {word}: {error}"))?;
        let results = Arc::<ExportResults>::default();
        Ok((Self { client, settings: settings.clone(), results: results.clone() }, results))
    }
}

impl OtlpClient {
    /// Sends `message` once, for a signal that the SDK has no exporter for. The result is recorded.
    pub(super) async fn post(&self, message: Vec<u8>) {
        let request = match self.request(message) {
            Ok(request) => request,
            Err(reason) => {
                let kind = FailureKind::Other;
                return self.results.record(Some(ExportFailure { kind, reason }));
            }
        };
        // Recorded, too.
        let _ = self.send_bytes(request).await;
    }

    fn request(&self, mut message: Vec<u8>) -> Result<Request<Bytes>, String> {
        let mut request =
            Request::post(self.settings.url.as_str()).header(header::CONTENT_TYPE, "application/x-protobuf");
        if self.settings.is_compressed {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(&message).map_err(|error| error.to_string())?;
            message = packed.finish().map_err(|error| error.to_string())?;
            request = request.header(header::CONTENT_ENCODING, "gzip");
        }
        let mut request = request.body(Bytes::from(message)).map_err(|error| error.to_string())?;
        let headers = header::HeaderMap::try_from(&self.settings.headers);
        request.headers_mut().extend(headers.map_err(|error| error.to_string())?);
        Ok(request)
    }
}

/// How often the SDK's exporters repeat a request: limited by the time for a batch, not by a number.
pub(super) fn retries() -> RetryPolicy {
    RetryPolicy::recommended()
        .with_max_retries(usize::MAX)
        .with_initial_delay(Duration::from_millis(200))
        .with_max_delay(Duration::from_secs(8))
        .with_max_jitter(Duration::from_millis(200))
}

impl HttpClient for OtlpClient {
    fn send_bytes<'a, 'f>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let answer = match self.settings.protocol {
                OtlpProtocol::Http => self.client.send_bytes(request).await.map(|answer| {
                    let reason = format!("it answers {}", answer.status());
                    (answer, reason)
                }),
                OtlpProtocol::Grpc => grpc::send(&self.client, &self.settings, request).await,
            };
            match answer {
                Ok((answer, reason)) => {
                    let kind = match answer.status() {
                        StatusCode::PAYLOAD_TOO_LARGE => FailureKind::TooLarge,
                        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => FailureKind::SignalNotTaken,
                        _ => FailureKind::Other,
                    };
                    let is_taken = answer.status().is_success();
                    if is_taken {
                        self.results.rejected.fetch_add(rejected(answer.body()), Relaxed);
                    }
                    self.results.record((!is_taken).then_some(ExportFailure { kind, reason }));
                    Ok(answer)
                }
                Err(error) => {
                    let (reason, is_transient) = describe(error.as_ref(), self.settings.timeout);
                    self.results.record(Some(ExportFailure { kind: FailureKind::Other, reason }));
                    // The exporter repeats after every error, but not after this status.
                    if is_transient { Err(error) } else { Ok(answered(StatusCode::BAD_REQUEST, None)) }
                }
            }
        })
    }
}

/// An answer without a body.
fn answered(status: StatusCode, retry_after: Option<Duration>) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::new());
    *answer.status_mut() = status;
    if let Some(pause) = retry_after {
        let seconds = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
        answer.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    answer
}

/// The items that a backend rejected out of a batch that it accepted (OTLP's `partial_success`, which is alike for every
/// signal).
fn rejected(answer: &[u8]) -> u64 {
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
