//! Counters and latencies of a process, for `GET /metrics`: atomic, so that a message costs a few nanoseconds more. No id
//! is ever a label: every label has a closed list of values.

pub mod page;

use protocol::{message::Kind, problem::Reason, task::TaskState};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// What a process counts since it started.
pub struct Meters {
    /// Messages taken, by type.
    pub accepted: Family,
    /// Messages that had been taken before.
    pub duplicates: AtomicU64,
    /// Messages that agents refused, by reason.
    pub refused: Family,
    /// Requests of any kind that were refused, by reason.
    pub http_refused: Family,
    /// Tasks that ended, by state.
    pub ended: Family,
    /// From deciding a step to its being durable.
    pub commit: Histogram,
    /// From a question to a brain to its answer.
    pub think: Histogram,
    /// Tries to deliver messages, by what came of them.
    pub attempts: Family,
    /// Messages given up, by reason.
    pub given_up: Family,
    /// Rounds of calls for proposals.
    pub rounds: AtomicU64,
    /// Bids heard by managers.
    pub bids: AtomicU64,
    /// Awards made.
    pub awards: AtomicU64,
    /// Bids made.
    pub offers: AtomicU64,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            accepted: Family::of(Kind::ALL.len()),
            duplicates: AtomicU64::default(),
            refused: Family::of(Reason::ALL.len()),
            http_refused: Family::of(Reason::ALL.len()),
            ended: Family::of(STATES.len()),
            commit: Histogram::of(COMMIT),
            think: Histogram::of(THINK),
            attempts: Family::of(ATTEMPTS.len()),
            given_up: Family::of(Reason::ALL.len()),
            rounds: AtomicU64::default(),
            bids: AtomicU64::default(),
            awards: AtomicU64::default(),
            offers: AtomicU64::default(),
        }
    }
}

/// The states a task can end in.
pub const STATES: [TaskState; 4] =
    [TaskState::Completed, TaskState::Failed, TaskState::Canceled, TaskState::Rejected];
/// What comes of a try to deliver a message.
pub const ATTEMPTS: [&str; 3] = ["delivered", "later", "never"];
/// Upper bounds of commit latencies, microseconds.
const COMMIT: &[u64] = &[250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 2_500_000];
/// Upper bounds of think latencies, microseconds.
const THINK: &[u64] = &[
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    15_000_000,
    60_000_000,
    300_000_000,
    900_000_000,
];

impl Meters {
    /// One message more was taken.
    pub fn take(&self, kind: Kind) {
        self.accepted.add(Kind::ALL.iter().position(|known| *known == kind));
    }

    /// One message more was refused.
    pub fn refuse(&self, reason: Reason) {
        self.refused.add(Some(reason as usize));
    }

    /// One request more was refused.
    pub fn refuse_request(&self, reason: Reason) {
        self.http_refused.add(Some(reason as usize));
    }

    /// One message more was given up; `reason` is the code of a [`Reason`].
    pub fn give_up(&self, reason: Reason) {
        self.given_up.add(Some(reason as usize));
    }

    /// One task more ended.
    pub fn end(&self, state: TaskState) {
        self.ended.add(STATES.iter().position(|known| *known == state));
    }

    /// One try more to deliver a message, by its place among [`ATTEMPTS`].
    pub fn attempt(&self, outcome: usize) {
        self.attempts.add(Some(outcome));
    }
}

/// Counts one more.
pub fn more(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

/// Counters of one metric, one for each value of its label.
pub struct Family(Box<[AtomicU64]>);

impl Family {
    fn of(size: usize) -> Self {
        Self((0..size).map(|_| AtomicU64::default()).collect())
    }

    fn add(&self, at: Option<usize>) {
        if let Some(count) = at.and_then(|at| self.0.get(at)) {
            more(count);
        }
    }

    /// The counts, in the order of the label's values.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|count| count.load(Relaxed))
    }
}

/// How long something took, how often.
pub struct Histogram {
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    micros: AtomicU64,
}

impl Histogram {
    fn of(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Self { bounds, counts, micros: AtomicU64::default() }
    }

    /// It took this long once more.
    pub fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let at = self.bounds.partition_point(|bound| *bound < micros);
        if let Some(count) = self.counts.get(at) {
            more(count);
        }
        self.micros.fetch_add(micros, Relaxed);
    }
}
