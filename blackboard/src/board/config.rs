//! The board's limits and its clocks.

use protocol::time::{NodeTime, WallTime};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// What the board takes, and for how long it waits. Bytes and milliseconds, as integers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct BoardConfig {
    /// A signal's JSON, bytes.
    pub max_signal_bytes: usize,
    /// Requests that may wait for the store at once; the next is answered 503.
    pub max_in_flight: usize,
    /// Readers that may follow at once; the next is answered 503.
    pub max_subscribers: usize,
    /// Signals in one page of history.
    pub max_page: usize,
    /// The shortest lease granted.
    pub min_lease_ms: u64,
    /// The longest lease granted.
    pub max_lease_ms: u64,
    /// How long after a lease's end the next may take the task.
    pub grace_ms: u64,
    /// How often leases are looked through.
    pub sweep_ms: u64,
    /// How long signals, and what is remembered of them, are kept. Longer than a message lives.
    pub keep_ms: u64,
    /// How many bytes of signals are kept; the oldest go first.
    pub keep_bytes: u64,
    /// How often what is too old is removed, at least.
    pub tidy_ms: u64,
    /// How often a quiet stream says that it is there.
    pub heartbeat_ms: u64,
    /// Signals kept in memory for those who follow.
    pub recent_events: usize,
    /// The same, bytes.
    pub recent_bytes: usize,
    /// About how much is handed to one reader at once, bytes.
    pub chunk_bytes: usize,
}

impl Default for BoardConfig {
    fn default() -> Self {
        Self {
            max_signal_bytes: 16 * 1024,
            max_in_flight: 1_024,
            max_subscribers: 15_000,
            max_page: 1_000,
            min_lease_ms: 10,
            max_lease_ms: 3_600_000,
            grace_ms: 1_000,
            sweep_ms: 500,
            keep_ms: 7 * 24 * 3_600_000,
            keep_bytes: 256 << 20,
            tidy_ms: 600_000,
            heartbeat_ms: 15_000,
            recent_events: 1_024,
            recent_bytes: 4 * 1024 * 1024,
            chunk_bytes: 16 * 1024,
        }
    }
}

impl BoardConfig {
    /// The same promises with short waits, for tests.
    pub fn fast() -> Self {
        Self { grace_ms: 50, sweep_ms: 20, tidy_ms: 1_000, heartbeat_ms: 500, ..Self::default() }
    }

    /// How long after a lease's end the next may take the task.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }

    /// How often leases are looked through.
    pub fn sweep(&self) -> Duration {
        Duration::from_millis(self.sweep_ms.max(1))
    }

    /// How long signals are kept.
    pub fn keep(&self) -> Duration {
        Duration::from_millis(self.keep_ms)
    }

    /// How often what is too old is removed: so often that nothing is kept a quarter longer than it should be.
    pub fn tidy(&self) -> Duration {
        Duration::from_millis(self.tidy_ms.min(self.keep_ms / 4).max(10))
    }

    /// How often a quiet stream says that it is there.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms.max(1))
    }
}

/// The two clocks of a process.
#[derive(Clone)]
pub struct Clock {
    node: Arc<dyn Fn() -> NodeTime + Send + Sync>,
    wall: Arc<dyn Fn() -> WallTime + Send + Sync>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("node", &self.node()).field("wall", &self.wall()).finish()
    }
}

impl Clock {
    /// Clocks that ask `node` and `wall`.
    pub fn new(
        node: impl Fn() -> NodeTime + Send + Sync + 'static,
        wall: impl Fn() -> WallTime + Send + Sync + 'static,
    ) -> Self {
        Self { node: Arc::new(node), wall: Arc::new(wall) }
    }

    /// The machine's clocks; node time begins at zero. Nothing here outlives the process, so it may.
    pub fn system() -> Self {
        let start = Instant::now();
        let node = move || NodeTime(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
        let wall = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            WallTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        };
        Self::new(node, wall)
    }

    /// Node time.
    pub fn node(&self) -> NodeTime {
        (self.node)()
    }

    /// Wall time.
    pub fn wall(&self) -> WallTime {
        (self.wall)()
    }
}
