//! Logs, traces and metrics of a process (DESIGN §11).
//!
//! Traces are built from the journal: [`span_builder`] turns the steps of a conversation into spans. Their ids are derived
//! from the ids in the journal, so every reader builds the same spans, also after a restart. Bids are in no journal and are
//! exported at once. [`export`] sends spans to a backend from a thread of its own.

pub mod capture;
pub mod cursor;
pub mod export;
pub mod log;
pub mod meters;
mod model_name;
pub mod names;
pub mod otel_settings;
mod otlp;
mod otlp_client;
pub mod sampler;
pub mod span;
pub mod span_builder;

pub use log::{LogFormat, format_line, print_line, set_format, start};

use capture::Capture;
use cursor::PendingExport;
use export::Exporter;
use meters::Meters;
use otel_settings::TelemetrySettings;
use protocol::trace::TraceContext;
use sampler::TraceSampler;
use span::Span;
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
    exporter: Option<Exporter>,
    meters: Meters,
}

impl Telemetry {
    /// Starts what `settings` ask for. `service` is the service name unless they set one. Fails if the exporter can't start.
    pub fn start(settings: &TelemetrySettings, capture: Capture, service: &str) -> Result<Self, String> {
        let exporter = settings
            .export
            .as_ref()
            .map(|export| Exporter::start(export, settings.queue, service, capture.clone()))
            .transpose()?;
        let meters = Meters::default();
        Ok(Self(Arc::new(TelemetryParts { sampler: settings.sampler.clone(), capture, exporter, meters })))
    }

    /// Whether a trace is sampled, under a parent that was or was not, or as a new one.
    pub fn samples(&self, parent: Option<bool>, trace: u128) -> bool {
        self.0.sampler.decide(parent, trace)
    }

    /// Whether spans are exported.
    pub fn is_exporting(&self) -> bool {
        self.0.exporter.is_some()
    }

    /// Whether spans of `trace` are exported.
    pub fn exports(&self, trace: Option<&TraceContext>) -> bool {
        self.0.exporter.is_some() && trace.is_some_and(|trace| trace.sampled)
    }

    /// Counts and latencies.
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// How content goes into spans.
    pub fn capture(&self) -> &Capture {
        &self.0.capture
    }

    /// Queues `spans`, or drops and counts them if the queue is full.
    pub fn export(&self, spans: Vec<Span>) {
        if let Some(exporter) = &self.0.exporter {
            exporter.export(spans, None);
        }
    }

    /// Queues the spans of a step, which `build` reads from the journal on a thread that may block. [`Telemetry::flush`] waits
    /// for it.
    pub fn export_from_journal(
        &self,
        step: Option<PendingExport>,
        build: impl FnOnce() -> Vec<Span> + Send + 'static,
    ) {
        let Some(exporter) = &self.0.exporter else { return };
        let (telemetry, reading) = (self.clone(), exporter.begin_journal_read());
        drop(tokio::task::spawn_blocking(move || {
            if let Some(exporter) = &telemetry.0.exporter {
                exporter.export(build(), step);
            }
            drop(reading);
        }));
    }

    /// How many spans were exported and dropped, and how many wait.
    pub fn counts(&self) -> export::SpanCounts {
        self.0.exporter.as_ref().map(Exporter::counts).unwrap_or_default()
    }

    /// Sends what waits, for at most `timeout`.
    pub async fn flush(&self, timeout: Duration) {
        if let Some(exporter) = &self.0.exporter {
            exporter.flush(timeout).await;
        }
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
