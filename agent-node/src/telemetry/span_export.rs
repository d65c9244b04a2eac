//! Sends spans to a backend by the SDK's batch processor and its OTLP exporter. What waits is bounded: with a slow or dead
//! backend spans are dropped, counted and logged once, and nothing else waits.

use super::{
    capture::Capture,
    delivery::SignalDelivery,
    export_batch::export_batch,
    export_thread::ExportThread,
    otel_settings::{self, ExportQueueSettings, ExportSettings},
    otlp_client::{ExportFailure, ExportResults, FailureKind, OtlpClient, retries},
    resource::resource,
    span::Span,
    span_data,
};
use opentelemetry_otlp::{Compression, Protocol, SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    error::{OTelSdkError, OTelSdkResult},
    trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor},
};
use serde::Serialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::{oneshot, watch};

/// Numbers of spans since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpanCounts {
    /// Accepted by the backend.
    pub exported: u64,
    /// Dropped because the queue was full.
    pub dropped_full: u64,
    /// Dropped because the backend did not accept their batch.
    pub dropped_failed: u64,
    /// Rejected by the backend out of an accepted batch.
    pub dropped_rejected: u64,
    /// Accepted after their attributes were cut, because the backend found the whole span too large.
    pub cut: u64,
    pub waiting: usize,
}

#[derive(Debug, Default)]
struct SpanExportState {
    exported: AtomicU64,
    full: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    cut: AtomicU64,
    waiting: AtomicUsize,
    journal_reads: watch::Sender<usize>,
    /// Whether the log has a line about the full queue since the last accepted batch.
    has_logged_full: AtomicBool,
}

/// How long the start waits for a connection to the backend.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// The export of spans.
pub(super) struct SpanExport {
    processor: Arc<BatchSpanProcessor>,
    capture: Capture,
    max_attribute_len: Option<usize>,
    capacity: usize,
    shared: Arc<SpanExportState>,
}

/// A journal is being read for its spans.
pub(super) struct JournalRead(Arc<SpanExportState>);

impl Drop for JournalRead {
    fn drop(&mut self) {
        self.0.journal_reads.send_modify(|count| *count -= 1);
    }
}

impl SpanExport {
    /// Starts the threads that send to the backend of `settings`; `service` is the service name unless the environment sets one.
    pub(super) fn start(
        settings: &ExportSettings,
        queue: ExportQueueSettings,
        service: &str,
        capture: Capture,
    ) -> Result<Self, String> {
        let no_thread = |error: std::io::Error| format!("no thread for traces: {error}");
        let thread = ExportThread::start("spans").map_err(no_thread)?;
        let (client, results) = OtlpClient::new(settings)?;
        let mut otlp = Otlp::builder()
            .with_http()
            .with_http_client(client)
            .with_retry_policy(retries())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(settings.url.as_str())
            .with_timeout(queue.timeout)
            .with_headers(settings.headers.clone())
            // The backend says what is too large.
            .with_max_request_body_size(usize::MAX);
        if settings.is_compressed {
            otlp = otlp.with_compression(Compression::Gzip);
        }
        let mut otlp = otlp.build().map_err(|error| {
            format!("{} can't be sent traces: {error}", otel_settings::without_query(&settings.url))
        })?;
        otlp.set_resource(&resource(service, &settings.attributes, &capture));
        let shared = Arc::<SpanExportState>::default();
        let delivery = Arc::new(SignalDelivery::new(settings));
        thread.runtime().spawn(probe(settings.url.clone(), delivery.clone()));
        let sender =
            SpanSender { otlp, results, delivery, timeout: queue.timeout, shared: shared.clone(), thread };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(queue.capacity)
            .with_max_export_batch_size(queue.batch)
            .with_scheduled_delay(queue.delay)
            .build();
        let processor = BatchSpanProcessor::builder(sender).with_batch_config(config).build();
        let max_attribute_len = settings.max_attribute_len;
        Ok(Self {
            processor: Arc::new(processor),
            capture,
            max_attribute_len,
            capacity: queue.capacity,
            shared,
        })
    }

    /// Queues `spans`, or drops and counts them if there is no room.
    pub(super) fn export(&self, spans: &[Span]) {
        let spans: Vec<_> = spans
            .iter()
            .filter_map(|span| span_data::span_data(span, &self.capture, self.max_attribute_len))
            .collect();
        let count = spans.len();
        // The processor's own queue is never full: what it has taken out still counts here.
        if self.shared.waiting.fetch_add(count, Relaxed) + count > self.capacity {
            self.shared.waiting.fetch_sub(count, Relaxed);
            self.shared.full.fetch_add(count as u64, Relaxed);
            if !self.shared.has_logged_full.swap(true, Relaxed) {
                tracing::warn!(
                    capacity = self.capacity,
                    "traces lose spans: too many wait for their backend (counted in mesh_spans_dropped_total)"
                );
            }
            return;
        }
        spans.into_iter().for_each(|span| self.processor.on_end(span));
    }

    /// Registers a read that [`SpanExport::flush`] waits for.
    pub(super) fn begin_journal_read(&self) -> JournalRead {
        self.shared.journal_reads.send_modify(|count| *count += 1);
        JournalRead(self.shared.clone())
    }

    pub(super) fn counts(&self) -> SpanCounts {
        SpanCounts {
            exported: self.shared.exported.load(Relaxed),
            dropped_full: self.shared.full.load(Relaxed),
            dropped_failed: self.shared.failed.load(Relaxed),
            dropped_rejected: self.shared.rejected.load(Relaxed),
            cut: self.shared.cut.load(Relaxed),
            waiting: self.shared.waiting.load(Relaxed),
        }
    }

    /// Sends what waits, for at most `timeout`.
    pub(super) async fn flush(&self, timeout: Duration) {
        let flushed = async {
            let mut journal_reads = self.shared.journal_reads.subscribe();
            drop(journal_reads.wait_for(|count| *count == 0).await);
            let (done, is_done) = oneshot::channel();
            let processor = self.processor.clone();
            // Not a task that blocks: the end of the process would wait for it.
            std::thread::spawn(move || drop(done.send(processor.force_flush())));
            drop(is_done.await);
        };
        if tokio::time::timeout(timeout, flushed).await.is_err() {
            let waiting = self.shared.waiting.load(Relaxed);
            tracing::warn!(waiting, "traces lose spans: their backend did not take them before the end");
        }
    }
}

/// Logs at the start that the backend does not answer, not only when the first spans are lost.
async fn probe(url: reqwest::Url, delivery: Arc<SignalDelivery>) {
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default());
    let host = host.trim_matches(['[', ']']);
    let connection = tokio::net::TcpStream::connect((host, port.unwrap_or_default()));
    let reason = match tokio::time::timeout(PROBE_TIMEOUT, connection).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {PROBE_TIMEOUT:?}"),
    };
    delivery.failed(&ExportFailure { kind: FailureKind::Other, reason });
}

/// What the batch processor sends by, on its thread.
struct SpanSender {
    otlp: Otlp,
    results: Arc<ExportResults>,
    delivery: Arc<SignalDelivery>,
    /// The time for a batch.
    timeout: Duration,
    shared: Arc<SpanExportState>,
    thread: ExportThread,
}

impl std::fmt::Debug for SpanSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpanSender").field("state", &self.shared).finish_non_exhaustive()
    }
}

impl SpanExporter for SpanSender {
    fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        // The processor's thread has no runtime.
        std::future::ready(self.thread.runtime().block_on(self.send(batch)))
    }
}

impl SpanSender {
    async fn send(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        if self.delivery.is_left() {
            self.shared.waiting.fetch_sub(count, Relaxed);
            self.shared.failed.fetch_add(count as u64, Relaxed);
            return Ok(());
        }
        let export = async |spans| self.otlp.export(spans).await;
        let result = export_batch(batch, self.timeout, &self.results, span_data::cut, export).await;
        let rejected = self.results.take_rejected().min(result.accepted as u64);
        self.shared.waiting.fetch_sub(count, Relaxed);
        self.shared.exported.fetch_add(result.accepted as u64 - rejected, Relaxed);
        self.shared.rejected.fetch_add(rejected, Relaxed);
        self.shared.failed.fetch_add((count - result.accepted) as u64, Relaxed);
        self.shared.cut.fetch_add(result.cut, Relaxed);
        match result.failure {
            None => {
                self.shared.has_logged_full.store(false, Relaxed);
                self.delivery.worked(rejected);
                Ok(())
            }
            Some(failure) => {
                self.delivery.failed(&failure);
                Err(OTelSdkError::InternalFailure(failure.reason))
            }
        }
    }
}
