//! The two clocks of a node, read in one place.

use protocol::time::{NodeTime, WallTime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A node's clocks. Its own never goes back and stands still while the node is down: it starts where the newest
/// record of its agents left it.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    base: NodeTime,
    started: Instant,
}

impl Clock {
    /// A clock that goes on from `base`.
    pub fn from(base: NodeTime) -> Self {
        Self { base, started: Instant::now() }
    }

    /// The node's own time.
    pub fn node(&self) -> NodeTime {
        self.base + self.started.elapsed()
    }

    /// The wall's time.
    pub fn wall(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        WallTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
