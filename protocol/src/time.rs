//! Two clocks, never mixed. Both are arguments here; nothing in this crate reads one.

use serde::{Deserialize, Serialize};
use std::{ops::Add, time::Duration};

pub use wire::time::{BadTime, WallTime};

/// Milliseconds on a node's own clock: it never goes back, and it stops while the node is down.
/// Windows and leases run on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeTime(pub u64);

impl NodeTime {
    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for NodeTime {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}
