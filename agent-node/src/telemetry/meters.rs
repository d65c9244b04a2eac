//! Counts and latencies of a process, for `GET /metrics`. No label has an id of a task, a message or a
//! conversation: their values are bounded.

pub mod model_meters;
pub mod openmetrics;

use model_meters::ModelMeters;
use openmetrics::Metric;
use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use protocol::{message::MessageKind, problem::Reason, task::TaskState};

/// Counters of one metric, one for each value of its label.
pub type CounterFamily = Family<[(&'static str, &'static str); 1], Counter>;

/// What a process has counted since its start.
pub struct Meters {
    /// Accepted messages, by type.
    pub accepted: CounterFamily,
    pub duplicates: Counter,
    /// Messages that agents refused, by reason.
    pub refused: CounterFamily,
    /// Refused requests of any kind, by reason.
    pub http_refused: CounterFamily,
    /// Ended tasks, by state.
    pub ended: CounterFamily,
    /// Seconds from deciding a step to its being durable.
    pub commit: Histogram,
    /// Seconds from a question to a brain to its answer.
    pub think: Histogram,
    /// Calls of models and tools.
    pub models: ModelMeters,
    /// Attempts to deliver messages, by result.
    pub attempts: CounterFamily,
    /// Messages given up, by reason.
    pub given_up: CounterFamily,
    /// Rounds of calls for proposals.
    pub rounds: Counter,
    /// Bids that managers received.
    pub bids: Counter,
    pub awards: Counter,
    pub offers: Counter,
}

impl Default for Meters {
    fn default() -> Self {
        let reasons = || Reason::ALL.iter().map(|reason| reason.code());
        Self {
            accepted: counters(Metric::Accepted, MessageKind::ALL.iter().map(|kind| kind.wire())),
            duplicates: Counter::default(),
            refused: counters(Metric::Refused, reasons()),
            http_refused: counters(Metric::HttpRefused, reasons()),
            ended: counters(Metric::Ended, STATES.iter().map(|state| state.word())),
            commit: Histogram::new(COMMIT_SECONDS.iter().copied()),
            think: Histogram::new(THINK_SECONDS.iter().copied()),
            models: ModelMeters::default(),
            attempts: counters(Metric::Attempts, ATTEMPTS),
            given_up: counters(Metric::GivenUp, reasons()),
            rounds: Counter::default(),
            bids: Counter::default(),
            awards: Counter::default(),
            offers: Counter::default(),
        }
    }
}

/// The states in which a task can end.
const STATES: [TaskState; 4] =
    [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected];
/// The results of an attempt to deliver a message.
const ATTEMPTS: [&str; 3] = ["delivered", "later", "never"];
/// Upper bounds of the buckets of commit latencies.
const COMMIT_SECONDS: &[f64] = &[0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5];
/// Upper bounds of the buckets of think latencies.
const THINK_SECONDS: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0];

/// Counters that exist from the start, so that a rate is right from the first event on.
fn counters(metric: Metric, values: impl IntoIterator<Item = &'static str>) -> CounterFamily {
    let counters = CounterFamily::default();
    for value in values {
        drop(counters.get_or_create(&[(metric.describe().2, value)]));
    }
    counters
}

fn count(counters: &CounterFamily, metric: Metric, value: &'static str) {
    counters.get_or_create(&[(metric.describe().2, value)]).inc();
}

impl Meters {
    /// Counts an accepted message.
    pub fn accept(&self, kind: MessageKind) {
        count(&self.accepted, Metric::Accepted, kind.wire());
    }

    /// Counts a refused message.
    pub fn refuse(&self, reason: Reason) {
        count(&self.refused, Metric::Refused, reason.code());
    }

    /// Counts a refused request.
    pub fn refuse_request(&self, reason: Reason) {
        count(&self.http_refused, Metric::HttpRefused, reason.code());
    }

    /// Counts a message that was given up.
    pub fn give_up(&self, reason: Reason) {
        count(&self.given_up, Metric::GivenUp, reason.code());
    }

    /// Counts an ended task.
    pub fn end(&self, state: TaskState) {
        count(&self.ended, Metric::Ended, state.word());
    }

    /// Counts an attempt to deliver a message; `outcome` is `delivered`, `later` or `never`.
    pub fn attempt(&self, outcome: &'static str) {
        count(&self.attempts, Metric::Attempts, outcome);
    }
}
