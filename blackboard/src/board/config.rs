//! The board's limits and its clocks.

use crate::spaces::retention::EntryRetention;
use protocol::spaces::Space;
use protocol::time::{NodeTime, WallTime};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The board's limits, in bytes and milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct BoardConfig {
    /// The largest signal, bytes of JSON.
    pub max_signal_bytes: usize,
    /// Requests that may wait for the store at once; the next is answered 503.
    pub max_in_flight: usize,
    /// Subscriptions that may be open at once; the next is answered 503.
    pub max_subscribers: usize,
    /// Claims that one principal may hold at once, or as many as the agent does tasks at once if that is more; the next is
    /// answered 429.
    pub max_claims_per_principal: usize,
    /// Signals in one page of history.
    pub max_page: usize,
    /// The shortest lease granted.
    pub min_lease_ms: u64,
    /// The longest lease granted.
    pub max_lease_ms: u64,
    /// Time between a lease's end and the next claim of its task.
    pub grace_ms: u64,
    /// The interval at which expired leases are collected.
    pub sweep_ms: u64,
    /// How long signals and their dedup rows are kept. Longer than the life of a message.
    pub keep_ms: u64,
    /// How many bytes of signals are kept; the oldest are removed first.
    pub keep_bytes: u64,
    /// How long an entry of a space is kept that nobody uses any more, after its last change: findings, messages, decided
    /// proposals, superseded and archived decisions and memory. What is pending or in force is kept.
    pub keep_entries_ms: u64,
    /// How long the changes of entries are kept for streams.
    pub keep_entry_changes_ms: u64,
    /// How long the findings of a session are kept after its end: as long as its record.
    pub keep_session_entries_ms: u64,
    /// Entries of one author in one space; the next post is refused with `entry_quota`. 0 is no limit.
    pub max_entries_per_author: u64,
    /// The longest interval between two removals of old signals.
    pub tidy_ms: u64,
    /// The interval of heartbeats on an idle stream.
    pub heartbeat_ms: u64,
    /// Signals kept in memory for subscribers.
    pub recent_events: usize,
    /// Bytes of signals kept in memory for subscribers.
    pub recent_bytes: usize,
    /// The approximate size of one chunk of a stream, bytes.
    pub chunk_bytes: usize,
    /// Spaces that the configuration names; they are made, or changed to this, before the first use of any space.
    #[serde(skip)]
    pub spaces: Vec<Space>,
}

impl Default for BoardConfig {
    fn default() -> Self {
        Self {
            max_signal_bytes: 16 * 1024,
            max_in_flight: 1_024,
            max_subscribers: 15_000,
            max_claims_per_principal: 32,
            max_page: 1_000,
            min_lease_ms: 10,
            max_lease_ms: 3_600_000,
            grace_ms: 1_000,
            sweep_ms: 500,
            keep_ms: 7 * 24 * 3_600_000,
            keep_bytes: 256 << 20,
            keep_entries_ms: 365 * 24 * 3_600_000,
            keep_entry_changes_ms: 30 * 24 * 3_600_000,
            keep_session_entries_ms: 7 * 24 * 3_600_000,
            max_entries_per_author: 20_000,
            tidy_ms: 600_000,
            heartbeat_ms: 15_000,
            recent_events: 1_024,
            recent_bytes: 4 * 1024 * 1024,
            chunk_bytes: 16 * 1024,
            spaces: Vec::new(),
        }
    }
}

impl BoardConfig {
    /// Short intervals, for tests.
    pub fn fast() -> Self {
        Self { grace_ms: 50, sweep_ms: 20, tidy_ms: 1_000, heartbeat_ms: 500, ..Self::default() }
    }

    /// Time between a lease's end and the next claim of its task.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }

    /// The interval at which expired leases are collected.
    pub fn sweep(&self) -> Duration {
        Duration::from_millis(self.sweep_ms.max(1))
    }

    /// How long signals are kept.
    pub fn keep(&self) -> Duration {
        Duration::from_millis(self.keep_ms)
    }

    /// How long entries and their changes are kept.
    pub(crate) fn entry_retention(&self) -> EntryRetention {
        EntryRetention {
            entries: Duration::from_millis(self.keep_entries_ms),
            changes: Duration::from_millis(self.keep_entry_changes_ms),
            sessions: Duration::from_millis(self.keep_session_entries_ms),
        }
    }

    /// The interval between two removals of old signals: at most a quarter of `keep_ms`.
    pub fn tidy(&self) -> Duration {
        Duration::from_millis(self.tidy_ms.min(self.keep_ms / 4).max(10))
    }

    /// The interval of heartbeats on an idle stream.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms.max(1))
    }
}

/// The node clock and the wall clock of a process.
#[derive(Clone)]
pub struct BoardClock {
    node: Arc<dyn Fn() -> NodeTime + Send + Sync>,
    wall: Arc<dyn Fn() -> WallTime + Send + Sync>,
}

impl fmt::Debug for BoardClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoardClock").field("node", &self.node()).field("wall", &self.wall()).finish()
    }
}

impl BoardClock {
    /// A clock that reads `node` and `wall`.
    pub fn new(
        node: impl Fn() -> NodeTime + Send + Sync + 'static,
        wall: impl Fn() -> WallTime + Send + Sync + 'static,
    ) -> Self {
        Self { node: Arc::new(node), wall: Arc::new(wall) }
    }

    /// The machine's clocks. Node time begins at zero: the board keeps no node time across restarts.
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
