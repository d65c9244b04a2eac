//! Sends spans to a backend from a thread of its own. The queue is bounded: with a slow or dead backend spans are dropped,
//! counted and logged once, and nothing else waits.
//!
//! The SDK's batch span processor can't replace this queue: it does not report which spans the backend accepted, which the
//! span cursor needs.

use super::{
    capture::Capture,
    cursor::PendingExport,
    otel_settings::{self, ExportSettings, SpanQueueSettings},
    otlp,
    otlp_client::{ExportResults, RecordingClient},
    span::Span,
};
use opentelemetry_otlp::{
    Compression, Protocol, RetryPolicy, SpanExporter as Otlp, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter},
};
use reqwest::Url;
use serde::Serialize;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch};

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

#[derive(Default)]
struct ExporterState {
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

enum ExportCommand {
    Export(Vec<Span>, Option<PendingExport>),
    Flush(oneshot::Sender<()>),
}

pub(super) struct Exporter {
    sender: mpsc::UnboundedSender<ExportCommand>,
    shared: Arc<ExporterState>,
    capacity: usize,
}

/// A journal is being read for its spans.
pub(super) struct JournalRead(Arc<ExporterState>);

impl Drop for JournalRead {
    fn drop(&mut self) {
        self.0.journal_reads.send_modify(|count| *count -= 1);
    }
}

impl Exporter {
    /// Starts the thread that sends to `export`; `service` is the service name unless the environment sets one.
    pub(super) fn start(
        export: &ExportSettings,
        queue: SpanQueueSettings,
        service: &str,
        capture: Capture,
    ) -> Result<Self, String> {
        let client = export
            .pems
            .client()
            .map_err(|unusable| unusable.to_string())?
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(export.timeout)
            .build()
            .map_err(|error| format!("no HTTP client for traces: {error}"))?;
        let outcome = Arc::<ExportResults>::default();
        let client = RecordingClient { client, timeout: export.timeout, outcome: outcome.clone() };
        // Limited by the time for a batch, not by a number.
        let retries = RetryPolicy::recommended()
            .with_max_retries(usize::MAX)
            .with_initial_delay(Duration::from_millis(200))
            .with_max_delay(Duration::from_secs(8))
            .with_max_jitter(Duration::from_millis(200));
        let mut otlp = Otlp::builder()
            .with_http()
            .with_http_client(client)
            .with_retry_policy(retries)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(export.url.as_str())
            .with_timeout(queue.timeout)
            .with_headers(export.headers.clone())
            // The backend says what is too large.
            .with_max_request_body_size(usize::MAX);
        if export.is_compressed {
            otlp = otlp.with_compression(Compression::Gzip);
        }
        let mut otlp = otlp.build().map_err(|error| {
            format!("{} can't be sent traces: {error}", otel_settings::without_query(&export.url))
        })?;
        otlp.set_resource(&resource(service, &export.attributes, &capture));
        let (sender, receiver) = mpsc::unbounded_channel();
        let shared = Arc::<ExporterState>::default();
        let worker = ExportWorker {
            otlp,
            url: export.url.clone(),
            queue,
            capture,
            max_attribute_len: export.max_attribute_len,
            shared: shared.clone(),
            waiting: Vec::new(),
            is_broken: false,
            outcome,
            has_logged_rejected: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("no thread for traces: {error}"))?;
        std::thread::Builder::new()
            .name("spans".to_owned())
            .spawn(move || runtime.block_on(worker.run(receiver)))
            .map_err(|error| format!("no thread for traces: {error}"))?;
        Ok(Self { sender, shared, capacity: queue.capacity })
    }

    /// Queues `spans`; `step` is dropped when they are accepted or lost.
    pub(super) fn export(&self, spans: Vec<Span>, step: Option<PendingExport>) {
        let count = spans.len();
        if count == 0 {
            return;
        }
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
        drop(self.sender.send(ExportCommand::Export(spans, step)));
    }

    /// Registers a read that [`Exporter::flush`] waits for.
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
            drop(self.sender.send(ExportCommand::Flush(done)));
            drop(is_done.await);
        };
        if tokio::time::timeout(timeout, flushed).await.is_err() {
            let waiting = self.shared.waiting.load(Relaxed);
            tracing::warn!(waiting, "traces lose spans: their backend did not take them before the end");
        }
    }
}

/// The resource. `OTEL_SERVICE_NAME` counts first, then `attributes` (`OTEL_RESOURCE_ATTRIBUTES`), which the SDK reads too but
/// leaves percent-encoded, then `service`.
fn resource(service: &str, attributes: &HashMap<String, String>, capture: &Capture) -> Resource {
    let given = Resource::builder().build();
    let name = opentelemetry::Key::from_static_str("service.name");
    let is_named = given.get(&name).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    let ours = Resource::builder()
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let ours = match is_named {
        true => ours.build(),
        false => ours.with_service_name(service.to_owned()).build(),
    };
    let labels = ours.iter().map(|(key, value)| {
        let is_overridden = *key == name && std::env::var_os("OTEL_SERVICE_NAME").is_some();
        let attribute = attributes.get(key.as_str()).filter(|_| !is_overridden);
        let label = capture.label(attribute.map_or(&value.as_str(), |attribute| attribute.as_str()));
        opentelemetry::KeyValue::new(capture.label(key.as_str()), label)
    });
    Resource::builder_empty().with_attributes(labels.collect::<Vec<_>>()).build()
}

/// Gathers and sends spans, on its own thread.
struct ExportWorker {
    otlp: Otlp,
    url: Url,
    queue: SpanQueueSettings,
    /// Masks this process's secrets in every span.
    capture: Capture,
    max_attribute_len: Option<usize>,
    shared: Arc<ExporterState>,
    waiting: Vec<(SpanData, Option<PendingExport>)>,
    is_broken: bool,
    /// The results of the last requests.
    outcome: Arc<ExportResults>,
    has_logged_rejected: bool,
}

impl ExportWorker {
    async fn run(mut self, mut messages: mpsc::UnboundedReceiver<ExportCommand>) {
        self.probe().await;
        loop {
            // Waits for the first span, then gathers a batch.
            let Some(first) = messages.recv().await else { return };
            let due = tokio::time::Instant::now() + self.queue.delay;
            let mut flushed = self.take(first);
            while flushed.is_none() && self.waiting.len() < self.queue.batch {
                match tokio::time::timeout_at(due, messages.recv()).await {
                    Ok(Some(message)) => flushed = self.take(message),
                    Ok(None) | Err(_) => break,
                }
            }
            while !self.waiting.is_empty() {
                self.send().await;
            }
            if let Some(flushed) = flushed {
                // The caller may have timed out.
                let _ = flushed.send(());
            }
        }
    }

    /// Logs at the start that the backend does not answer, not only when the first spans are lost.
    async fn probe(&mut self) {
        let (host, port) = (self.url.host_str().unwrap_or_default(), self.url.port_or_known_default());
        let host = host.trim_matches(['[', ']']);
        let connection = tokio::net::TcpStream::connect((host, port.unwrap_or_default()));
        let why = match tokio::time::timeout(PROBE_TIMEOUT, connection).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no connection within {PROBE_TIMEOUT:?}"),
        };
        self.is_broken = true;
        self.log_failure(&why);
    }

    fn log_failure(&self, why: &str) {
        let (to, why) = (otel_settings::without_query(&self.url), why.replace(self.url.as_str(), "it"));
        tracing::warn!(
            to,
            why,
            "traces can't be delivered: until they can, spans that wait too long or find no room are dropped (counted in mesh_spans_dropped_total)"
        );
    }

    /// Adds spans to the batch, or returns the sender of a flush.
    fn take(&mut self, command: ExportCommand) -> Option<oneshot::Sender<()>> {
        match command {
            ExportCommand::Export(spans, step) => {
                let known = self.waiting.len();
                let data = spans
                    .iter()
                    .filter_map(|span| otlp::span_data(span, &self.capture, self.max_attribute_len));
                self.waiting.extend(data.map(|span| (span, None)));
                let unusable = spans.len() - (self.waiting.len() - known);
                // Batches keep the order: when the last span of a step is sent, the others are.
                if let Some((_, last)) = self.waiting.last_mut().filter(|_| unusable < spans.len()) {
                    *last = step;
                }
                self.shared.waiting.fetch_sub(unusable, Relaxed);
                None
            }
            ExportCommand::Flush(done) => Some(done),
        }
    }

    async fn send(&mut self) {
        let size = self.waiting.len().min(self.queue.batch);
        let (batch, steps): (Vec<_>, Vec<_>) = self.waiting.drain(..size).unzip();
        let count = batch.len();
        let (accepted, failure) = self.export(batch).await;
        self.shared.waiting.fetch_sub(count, Relaxed);
        let cursors: Vec<_> = steps.iter().flatten().map(|step| step.cursor().clone()).collect();
        drop(steps);
        for cursor in cursors {
            cursor.save().await;
        }
        let is_first = !self.is_broken;
        self.is_broken = failure.is_some();
        let rejected = self.outcome.rejected.swap(0, Relaxed).min(accepted as u64);
        self.shared.exported.fetch_add(accepted as u64 - rejected, Relaxed);
        self.shared.rejected.fetch_add(rejected, Relaxed);
        self.shared.failed.fetch_add((count - accepted) as u64, Relaxed);
        match failure {
            None => {
                // The backend's message is not logged: it may repeat headers.
                if rejected > 0 && !self.has_logged_rejected {
                    let to = otel_settings::without_query(&self.url);
                    tracing::warn!(
                        to,
                        "the backend of traces rejects spans (counted in mesh_spans_dropped_total)"
                    );
                }
                self.has_logged_rejected |= rejected > 0;
                self.shared.has_logged_full.store(false, Relaxed);
                if !is_first {
                    tracing::warn!(
                        to = otel_settings::without_query(&self.url),
                        "traces are delivered again"
                    );
                }
            }
            Some(why) if is_first => self.log_failure(&why),
            Some(_) => {}
        }
    }

    /// Exports `batch` within the time for a batch. A part that the backend finds too large is halved; a single span is cut.
    /// Returns how many spans were accepted, and why others were not.
    async fn export(&self, batch: Vec<SpanData>) -> (usize, Option<String>) {
        let deadline = tokio::time::Instant::now() + self.queue.timeout;
        let (mut parts, mut accepted, mut failure) = (vec![(batch, false)], 0, None);
        while let Some((mut part, is_cut)) = parts.pop() {
            self.outcome.is_too_large.store(false, Relaxed);
            let reason = match tokio::time::timeout_at(deadline, self.otlp.export(part.clone())).await {
                Ok(Ok(())) => {
                    accepted += part.len();
                    self.shared.cut.fetch_add(u64::from(is_cut), Relaxed);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {:?}", self.queue.timeout),
            };
            let reason = self.outcome.take_failure().unwrap_or(reason);
            let is_too_large = self.outcome.is_too_large.load(Relaxed);
            if is_too_large && part.len() > 1 {
                let second = part.split_off(part.len() / 2);
                parts.extend([(second, false), (part, false)]);
            } else if is_too_large && part.first_mut().is_some_and(otlp::cut) {
                parts.push((part, true));
            } else {
                failure = Some(reason);
            }
        }
        (accepted, failure)
    }
}
