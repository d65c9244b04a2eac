//! The node clock and the wall clock.

use protocol::time::{NodeTime, WallTime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A node's clocks. The node clock never goes back and pauses while the node is down: it continues from the newest
/// record of its agents.
#[derive(Debug, Clone, Copy)]
pub struct NodeClock {
    base: NodeTime,
    started: Instant,
}

impl NodeClock {
    /// A clock that continues from `base`.
    pub fn starting_at(base: NodeTime) -> Self {
        Self { base, started: Instant::now() }
    }

    /// The time of the node clock.
    pub fn node(&self) -> NodeTime {
        self.base + self.started.elapsed()
    }

    /// The time of the wall clock.
    pub fn wall(&self) -> WallTime {
        wall_time()
    }
}

/// The time of the wall clock.
pub fn wall_time() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    WallTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
