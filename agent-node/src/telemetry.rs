//! What a process tells of itself to whoever runs it: logs, traces and counters (DESIGN §11).
//!
//! A trace is told from the journal: [`story`] turns the steps of a conversation into spans, whose ids follow from the
//! ids in it, so that it makes no difference who reads it, when, or after how many restarts. What the journal does not
//! hold (a bid is written nowhere) is told at once. [`export`] carries spans to a backend and never waits for it.

pub mod capture;
pub mod cursor;
mod deliver;
pub mod export;
pub mod log;
pub mod meters;
pub mod names;
mod otlp;
mod rejected;
pub mod sampler;
pub mod settings;
pub mod span;
pub mod story;

pub use log::{LogFormat, say, speak, spoken, start};

use capture::Capture;
use cursor::UnderWay;
use export::Exporter;
use meters::Meters;
use protocol::trace::TraceContext;
use sampler::Sampler;
use settings::Settings;
use span::Span;
use std::{sync::Arc, time::Duration};

/// What is wrong with the settings, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadSettings(pub String);

/// What tells of a process. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Telemetry(Arc<Parts>);

#[derive(Default)]
struct Parts {
    sampler: Sampler,
    capture: Capture,
    exporter: Option<Exporter>,
    meters: Meters,
}

impl Telemetry {
    /// What `settings` ask for; `service` is what the process is called if they do not say.
    pub fn start(settings: &Settings, capture: Capture, service: &str) -> Result<Self, String> {
        let exporter = settings
            .export
            .as_ref()
            .map(|export| Exporter::start(export, settings.queue, service, capture.clone()))
            .transpose()?;
        let meters = Meters::default();
        Ok(Self(Arc::new(Parts { sampler: settings.sampler, capture, exporter, meters })))
    }

    /// The trace that work goes on in: the one it came under, or a new one that `begin` names and that begins with the
    /// span `first`.
    pub fn join(&self, came: Option<TraceContext>, first: u64, begin: impl FnOnce() -> u128) -> TraceContext {
        match came {
            Some(parent) => {
                let sampled = self.0.sampler.decide(Some(parent.sampled), parent.trace_id);
                TraceContext { sampled, ..parent }
            }
            None => {
                let trace_id = begin();
                let sampled = self.0.sampler.decide(None, trace_id);
                TraceContext { trace_id, span_id: first, sampled, state: None }
            }
        }
    }

    /// Whether anything is told to anybody.
    pub fn tells(&self) -> bool {
        self.0.exporter.is_some()
    }

    /// Whether anybody listens to what is told under `trace`.
    pub fn wants(&self, trace: Option<&TraceContext>) -> bool {
        self.0.exporter.is_some() && trace.is_some_and(|trace| trace.sampled)
    }

    /// What is counted.
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// How much of what is said is told.
    pub fn capture(&self) -> &Capture {
        &self.0.capture
    }

    /// Tells `spans`, or drops and counts them when there is no room.
    pub fn tell(&self, spans: Vec<Span>) {
        if let Some(exporter) = &self.0.exporter {
            exporter.tell(spans, None);
        }
    }

    /// Tells what `look` finds about a step, from a thread that may block; [`Telemetry::flush`] waits for it.
    pub fn tell_later(&self, step: Option<UnderWay>, look: impl FnOnce() -> Vec<Span> + Send + 'static) {
        let Some(exporter) = &self.0.exporter else { return };
        let (told, looking) = (self.clone(), exporter.looking());
        drop(tokio::task::spawn_blocking(move || {
            if let Some(exporter) = &told.0.exporter {
                exporter.tell(look(), step);
            }
            drop(looking);
        }));
    }

    /// How many spans were told, delivered, dropped, and wait.
    pub fn counts(&self) -> export::Counts {
        self.0.exporter.as_ref().map(Exporter::counts).unwrap_or_default()
    }

    /// Sends what waits, for at most `patience`.
    pub async fn flush(&self, patience: Duration) {
        if let Some(exporter) = &self.0.exporter {
            exporter.flush(patience).await;
        }
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
