//! The registry's timing and limits.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When an agent counts as missing, and how much the registry takes. Milliseconds and counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Config {
    /// How long an agent stays registered after it was last heard.
    pub lease_ms: u64,
    /// How often an agent is asked to say that it lives; silence for two of these makes it suspect.
    pub heartbeat_ms: u64,
    /// How often leases are looked at.
    pub sweep_ms: u64,
    /// How long the row of an agent that left is kept, so that peers can say *departed* instead of *unknown*.
    pub keep_departed_ms: u64,
    /// How much of the live set may expire in one lease, in percent; at least one agent may.
    pub max_expiry_percent: u32,
    /// How often within `flap_window_ms` it is told on the board that one agent came or left; what comes beyond is kept
    /// back.
    pub flap_limit: usize,
    /// The window in which that is counted.
    pub flap_window_ms: u64,
    /// How long such an agent has to stay as it is until that is told.
    pub flap_calm_ms: u64,
    /// Rows kept; the next registration is answered 503.
    pub max_agents: usize,
    /// Changes (registrations, departures) waiting for the store; the next is answered 503.
    pub max_waiting: usize,
    /// Watchers at once; the next is answered 503.
    pub max_watchers: usize,
    /// Changes a watcher may be behind; one further behind starts over from a snapshot.
    pub max_watch_lag: usize,
    /// How often a silent watch says that it lives.
    pub watch_comment_ms: u64,
    /// How long to wait before a signal that the board did not take is offered again; doubles up to `retry_cap_ms`.
    pub retry_ms: u64,
    /// The longest such wait.
    pub retry_cap_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease_ms: 15_000,
            heartbeat_ms: 5_000,
            sweep_ms: 1_000,
            keep_departed_ms: 24 * 3_600_000,
            max_expiry_percent: 15,
            flap_limit: 10,
            flap_window_ms: 60_000,
            flap_calm_ms: 30_000,
            max_agents: 10_000,
            max_waiting: 1_024,
            max_watchers: 1_000,
            max_watch_lag: 1_024,
            watch_comment_ms: 15_000,
            retry_ms: 200,
            retry_cap_ms: 30_000,
        }
    }
}

impl Config {
    /// The `fast` profile of tests: an agent that falls silent is dead after two seconds.
    pub fn fast() -> Self {
        Self {
            lease_ms: 2_000,
            heartbeat_ms: 500,
            sweep_ms: 250,
            flap_calm_ms: 3_000,
            watch_comment_ms: 1_000,
            retry_ms: 20,
            retry_cap_ms: 500,
            ..Self::default()
        }
    }

    /// How long an agent stays registered after it was last heard.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The silence that makes an agent suspect.
    pub fn suspicion(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms.saturating_mul(2))
    }

    /// After a start: how long nobody is declared dead.
    pub fn grace(&self) -> Duration {
        Duration::from_millis(self.lease_ms.saturating_add(self.sweep_ms.saturating_mul(2)))
    }

    /// A pause between sweeps so long that it alone would make a punctual agent look dead.
    pub fn absence(&self) -> Duration {
        Duration::from_millis(self.lease_ms.saturating_sub(self.heartbeat_ms).max(1))
    }

    /// How long the row of an agent that left is kept.
    pub fn keep_departed(&self) -> Duration {
        Duration::from_millis(self.keep_departed_ms)
    }

    /// How many of `live` agents may expire in one lease.
    pub fn expiry_quota(&self, live: usize) -> usize {
        let percent = usize::try_from(self.max_expiry_percent.min(100)).unwrap_or(100);
        (live.saturating_mul(percent) / 100).max(1)
    }
}
