//! Sends the log to a backend, too, by the SDK's batch processor and its OTLP exporter. Secrets of this process are masked, and
//! what the crates say that send is left out: each request would cause the next one. What waits is bounded.

use super::{
    capture::Capture,
    delivery::SignalDelivery,
    export_batch::export_batch,
    export_thread::ExportThread,
    otel_settings::{self, ExportQueueSettings, ExportSettings},
    otlp_client::{ExportResults, OtlpClient, retries},
    resource::resource,
};
use opentelemetry::{
    InstrumentationScope, SpanId, TraceId,
    logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity},
};
use opentelemetry_otlp::{Compression, LogExporter as Otlp, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    logs::{
        BatchConfigBuilder, BatchLogProcessor, LogBatch, LogExporter, SdkLogRecord, SdkLogger,
        SdkLoggerProvider,
    },
};
use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};
use tokio::sync::oneshot;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Layer};
use transport::http_client::redact_urls;

/// Where the log of this process goes, once its telemetry has started.
static EXPORT: OnceLock<LogExport> = OnceLock::new();

/// Crates by which logs are sent.
const SENDERS: [&str; 8] =
    ["h2", "hyper", "hyper_rustls", "hyper_util", "reqwest", "rustls", "tonic", "tower"];

/// Hands every line of the log to the export.
pub(super) struct LogExportLayer;

impl<S: Subscriber> Layer<S> for LogExportLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Some(export) = EXPORT.get().filter(|_| !is_of_sender(event.metadata().target())) {
            export.emit(event);
        }
    }
}

fn is_of_sender(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    SENDERS.contains(&name) || name.starts_with("opentelemetry")
}

struct LogExport {
    provider: SdkLoggerProvider,
    logger: SdkLogger,
    capture: Capture,
    capacity: usize,
    waiting: Arc<AtomicUsize>,
    has_logged_full: AtomicBool,
}

/// Starts the threads that send the log of this process; `service` is the service name unless the environment sets one.
pub(super) fn start(
    settings: &ExportSettings,
    queue: ExportQueueSettings,
    service: &str,
    capture: Capture,
) -> Result<(), String> {
    let thread = ExportThread::start("logs").map_err(|error| format!("no thread for logs: {error}"))?;
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
    let otlp = otlp.build().map_err(|error| {
        format!("{} can't be sent logs: {error}", otel_settings::without_query(&settings.url))
    })?;
    let waiting = Arc::<AtomicUsize>::default();
    let sender = LogSender {
        otlp,
        results,
        delivery: SignalDelivery::new(settings),
        timeout: queue.timeout,
        waiting: waiting.clone(),
        thread,
    };
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(queue.capacity)
        .with_max_export_batch_size(queue.batch)
        .with_scheduled_delay(queue.delay)
        .build();
    let provider = SdkLoggerProvider::builder()
        .with_resource(resource(service, &settings.attributes, &capture))
        .with_log_processor(BatchLogProcessor::builder(sender).with_batch_config(config).build())
        .build();
    let logger = provider.logger("agent-mesh");
    let has_logged_full = AtomicBool::new(false);
    let export = LogExport { provider, logger, capture, capacity: queue.capacity, waiting, has_logged_full };
    // A second process in this one, as tests have it, logs to the first one's backend.
    let _ = EXPORT.set(export);
    Ok(())
}

/// Sends what waits, for at most `timeout`.
pub(super) async fn flush(timeout: Duration) {
    let Some(export) = EXPORT.get() else { return };
    let (done, is_done) = oneshot::channel();
    // Not a task that blocks: the end of the process would wait for it.
    std::thread::spawn(move || drop(done.send(export.provider.force_flush())));
    let _ = tokio::time::timeout(timeout, is_done).await;
}

impl LogExport {
    fn emit(&self, event: &Event<'_>) {
        if self.waiting.fetch_add(1, Relaxed) >= self.capacity {
            self.waiting.fetch_sub(1, Relaxed);
            if !self.has_logged_full.swap(true, Relaxed) {
                tracing::warn!(
                    capacity = self.capacity,
                    "lines of the log are not sent: too many wait for their backend"
                );
            }
            return;
        }
        let metadata = event.metadata();
        let mut record = self.logger.create_log_record();
        let now = SystemTime::now();
        record.set_timestamp(now);
        record.set_observed_timestamp(now);
        record.set_target(metadata.target());
        record.set_severity_text(metadata.level().as_str());
        record.set_severity_number(severity(*metadata.level()));
        event.record(&mut FieldVisitor { record: &mut record, capture: &self.capture });
        self.logger.emit(record);
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warn,
        Level::INFO => Severity::Info,
        Level::DEBUG => Severity::Debug,
        Level::TRACE => Severity::Trace,
    }
}

/// Writes the fields of an event into a record, masked.
struct FieldVisitor<'a> {
    record: &'a mut SdkLogRecord,
    capture: &'a Capture,
}

impl FieldVisitor<'_> {
    fn text(&mut self, field: &Field, text: &str) {
        let text = redact_urls(text);
        let text = self.capture.label(&text);
        if field.name() == "message" {
            return self.record.set_body(AnyValue::from(text));
        }
        if let Some(trace) = TraceId::from_hex(&text).ok().filter(|_| field.name() == "trace") {
            self.record.set_trace_context(trace, SpanId::INVALID, None);
        }
        self.record.add_attribute(field.name(), text);
    }
}

impl Visit for FieldVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record.add_attribute(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record.add_attribute(field.name(), value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record.add_attribute(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.record.add_attribute(field.name(), value),
            Err(_) => self.text(field, &value.to_string()),
        }
    }
}

/// What the batch processor sends by, on its thread.
struct LogSender {
    otlp: Otlp,
    results: Arc<ExportResults>,
    delivery: SignalDelivery,
    timeout: Duration,
    waiting: Arc<AtomicUsize>,
    thread: ExportThread,
}

impl fmt::Debug for LogSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSender").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl LogExporter for LogSender {
    fn export(&self, batch: LogBatch<'_>) -> impl Future<Output = OTelSdkResult> + Send {
        let records: Vec<_> = batch.iter().map(|(record, scope)| (record.clone(), scope.clone())).collect();
        // The processor's thread has no runtime.
        std::future::ready(self.thread.runtime().block_on(self.send(records)))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}

impl LogSender {
    async fn send(&self, records: Vec<(SdkLogRecord, InstrumentationScope)>) -> OTelSdkResult {
        self.waiting.fetch_sub(records.len(), Relaxed);
        if self.delivery.is_left() {
            return Ok(());
        }
        let export = async |records: Vec<(SdkLogRecord, InstrumentationScope)>| {
            let borrowed: Vec<_> = records.iter().map(|(record, scope)| (record, scope)).collect();
            self.otlp.export(LogBatch::new(&borrowed)).await
        };
        let result = export_batch(records, self.timeout, &self.results, |_| false, export).await;
        match result.failure {
            None => {
                self.delivery.worked(self.results.take_rejected());
                Ok(())
            }
            Some(failure) => {
                self.delivery.failed(&failure);
                Err(OTelSdkError::InternalFailure(failure.reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_of_sender;

    #[test]
    fn what_the_senders_say_is_left_out() {
        for target in ["h2::codec", "hyper_util::client", "opentelemetry_sdk", "tonic"] {
            assert!(is_of_sender(target), "{target}");
        }
        assert!(!is_of_sender("agent_node::telemetry") && !is_of_sender("hyperion"));
    }
}
