//! What is said of the delivery of a signal: a failure once, and that it works again. A signal that the backend does not take
//! is left for a while.

use super::{
    otel_settings::{self, ExportSettings, TelemetrySignal},
    otlp_client::{ExportFailure, FailureKind},
};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a signal is left that the backend does not take. Then one batch is tried without a word: a proxy may have answered
/// for a backend that was not there yet.
const LEFT_FOR: Duration = Duration::from_mins(10);

/// The deliveries of one signal so far.
pub(super) struct SignalDelivery {
    signal: TelemetrySignal,
    /// The backend's URL, for the log.
    to: String,
    secret_url: String,
    state: Mutex<DeliveryState>,
}

#[derive(Default)]
struct DeliveryState {
    is_broken: bool,
    has_logged_rejected: bool,
    left_until: Option<Instant>,
}

impl SignalDelivery {
    pub(super) fn new(settings: &ExportSettings) -> Self {
        Self {
            signal: settings.signal,
            to: otel_settings::without_query(&settings.url),
            secret_url: settings.url.to_string(),
            state: Mutex::default(),
        }
    }

    /// Whether nothing is sent at the time.
    pub(super) fn is_left(&self) -> bool {
        self.lock().left_until.is_some_and(|until| Instant::now() < until)
    }

    /// Notes a batch that was not taken. The first one in a row is logged.
    pub(super) fn failed(&self, failure: &ExportFailure) {
        let is_first = {
            let mut state = self.lock();
            state.left_until =
                (failure.kind == FailureKind::SignalNotTaken).then(|| Instant::now() + LEFT_FOR);
            !std::mem::replace(&mut state.is_broken, true)
        };
        if !is_first {
            return;
        }
        let (to, what) = (&self.to, self.signal.word());
        let why = failure.reason.replace(&self.secret_url, "it");
        if failure.kind == FailureKind::SignalNotTaken {
            tracing::warn!(
                to,
                why,
                "the backend takes no {what}, so none are sent to it (it is tried again every {LEFT_FOR:?})"
            );
        } else if self.signal == TelemetrySignal::Traces {
            tracing::warn!(
                to,
                why,
                "traces can't be delivered: until they can, spans that wait too long or find no room are dropped (counted in mesh_spans_dropped_total)"
            );
        } else {
            tracing::warn!(to, why, "{what} can't be delivered: until they can, they are dropped");
        }
    }

    /// Notes a batch that was taken but for `rejected` items.
    pub(super) fn worked(&self, rejected: u64) {
        let (was_broken, is_first_rejected) = {
            let mut state = self.lock();
            let is_first_rejected = rejected > 0 && !state.has_logged_rejected;
            state.has_logged_rejected |= rejected > 0;
            state.left_until = None;
            (std::mem::take(&mut state.is_broken), is_first_rejected)
        };
        let (to, what) = (&self.to, self.signal.word());
        if is_first_rejected {
            // The backend's message is not logged: it may repeat headers.
            let items = if self.signal == TelemetrySignal::Traces { "spans" } else { what };
            let counted = match self.signal {
                TelemetrySignal::Traces => " (counted in mesh_spans_dropped_total)",
                TelemetrySignal::Metrics | TelemetrySignal::Logs => "",
            };
            tracing::warn!(to, "the backend of {what} rejects {items}{counted}");
        }
        if was_broken {
            tracing::warn!(to, "{what} are delivered again");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, DeliveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
