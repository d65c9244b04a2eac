//! Logs, traces and metrics of a process (DESIGN §11).
//!
//! Traces are built from the journal: [`span_builder`] turns the steps of a conversation into spans. Their ids are derived
//! from the ids in the journal, so every reader builds the same spans, also after a restart. Bids are in no journal and are
//! exported at once. [`span_export`] sends spans to a backend from threads of its own. Spans that wait when the process is
//! killed are lost there; `mesh trace` builds them again.

pub mod capture;
mod delivery;
mod export_batch;
mod export_thread;
pub mod log;
mod log_export;
pub mod meters;
mod metric_export;
mod model_name;
pub mod names;
pub mod otel_settings;
mod otlp_client;
mod resource;
pub mod sampler;
pub mod span;
pub mod span_builder;
mod span_data;
pub mod span_export;

pub use log::{LogFormat, format_line, print_line, set_format, start};

use capture::Capture;
use meters::Meters;
use metric_export::MetricExport;
use otel_settings::TelemetrySettings;
use protocol::trace::TraceContext;
use sampler::TraceSampler;
use span::Span;
use span_export::SpanExport;
use std::{sync::Arc, time::Duration};

/// A wrong setting, described in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TelemetrySettingsError(pub String);

/// The telemetry of a process. Clones share their state.
#[derive(Clone, Default)]
pub struct Telemetry(Arc<TelemetryParts>);

#[derive(Default)]
struct TelemetryParts {
    sampler: TraceSampler,
    capture: Capture,
    spans: Option<SpanExport>,
    metrics: Option<MetricExport>,
    meters: Meters,
}

impl Telemetry {
    /// Starts what `settings` ask for. `service` is the service name unless they set one. Fails if the exporter can't start.
    pub fn start(settings: &TelemetrySettings, capture: Capture, service: &str) -> Result<Self, String> {
        let spans = settings
            .traces
            .as_ref()
            .map(|traces| SpanExport::start(traces, settings.queue, service, capture.clone()))
            .transpose()?;
        let metrics = settings
            .metrics
            .as_ref()
            .map(|(backend, interval)| MetricExport::start(backend, *interval, service, &capture));
        let metrics = metrics.transpose()?;
        if let Some(logs) = &settings.logs {
            log_export::start(logs, settings.log_queue, service, capture.clone())?;
        }
        let meters = Meters::default();
        Ok(Self(Arc::new(TelemetryParts {
            sampler: settings.sampler.clone(),
            capture,
            spans,
            metrics,
            meters,
        })))
    }

    /// Whether a trace is sampled, under a parent that was or was not, or as a new one.
    pub fn samples(&self, parent: Option<bool>, trace: u128) -> bool {
        self.0.sampler.decide(parent, trace)
    }

    /// Whether spans of `trace` are exported.
    pub fn exports(&self, trace: Option<&TraceContext>) -> bool {
        self.0.spans.is_some() && trace.is_some_and(|trace| trace.sampled)
    }

    /// Counts and latencies.
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// How content goes into spans.
    pub fn capture(&self) -> &Capture {
        &self.0.capture
    }

    /// Queues the spans that `build` returns, which may block, or drops and counts them if too many wait. [`Telemetry::flush`]
    /// waits for it.
    pub fn export_with(&self, build: impl FnOnce() -> Vec<Span> + Send + 'static) {
        let Some(spans) = &self.0.spans else { return };
        let (telemetry, reading) = (self.clone(), spans.begin_journal_read());
        drop(tokio::task::spawn_blocking(move || {
            if let Some(spans) = &telemetry.0.spans {
                spans.export(&build());
            }
            drop(reading);
        }));
    }

    /// How often metrics are to be sent, if they are.
    pub fn metric_interval(&self) -> Option<Duration> {
        self.0.metrics.as_ref().map(|metrics| metrics.interval)
    }

    /// Sends a page of `GET /metrics` to the backend, unless the one before is still on its way.
    pub fn send_metrics(&self, page: String) {
        if let Some(metrics) = &self.0.metrics {
            metrics.send(page);
        }
    }

    /// How many spans were exported and dropped, and how many wait.
    pub fn counts(&self) -> span_export::SpanCounts {
        self.0.spans.as_ref().map(SpanExport::counts).unwrap_or_default()
    }

    /// Sends the spans and the logs that wait, for at most `timeout`.
    pub async fn flush(&self, timeout: Duration) {
        let spans = async {
            if let Some(spans) = &self.0.spans {
                spans.flush(timeout).await;
            }
        };
        tokio::join!(spans, log_export::flush(timeout));
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
