//! The registry's timing and limits. What schemars does not skip is a key of the YAML, `mesh.registry`, and its doc comment the description
//! in the published JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Timeouts in milliseconds, and limits as counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Config {
    /// How long an agent stays registered after its last heartbeat.
    pub lease_ms: u64,
    /// The interval at which agents send heartbeats; two missed ones make an agent suspect.
    pub heartbeat_ms: u64,
    /// The interval between checks of all leases.
    pub sweep_ms: u64,
    /// How long the row of a departed or dead agent is kept, so that peers answer *departed* instead of *unknown*.
    #[schemars(skip)]
    pub keep_departed_ms: u64,
    /// The share of live agents that may expire within one lease, in percent; at least one agent may.
    #[schemars(skip)]
    pub max_expiry_percent: u32,
    /// Most joined and left signals about one agent within `flapWindowMs`; further ones are suppressed.
    pub flap_limit: usize,
    /// The window in which those signals are counted.
    pub flap_window_ms: u64,
    /// How long the state of a flapping agent must be stable before it is signalled again.
    pub flap_calm_ms: u64,
    /// Most rows; a further registration is answered 503.
    #[schemars(skip)]
    pub max_agents: usize,
    /// Most changes (registrations, departures) that wait for the store; a further one is answered 503.
    #[schemars(skip)]
    pub max_waiting: usize,
    /// Most concurrent watchers; a further one is answered 503.
    #[schemars(skip)]
    pub max_watchers: usize,
    /// Most changes a watcher may lag behind; beyond that it gets a new snapshot.
    #[schemars(skip)]
    pub max_watch_lag: usize,
    /// The interval of keep-alive comments on an idle watch.
    #[schemars(skip)]
    pub watch_comment_ms: u64,
    /// The first pause before a failed signal is published again; doubles up to `retry_cap_ms`.
    #[schemars(skip)]
    pub retry_ms: u64,
    /// The longest such pause.
    #[schemars(skip)]
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
    /// The `fast` timing preset for tests: what changes is told soon.
    pub fn fast() -> Self {
        Self {
            heartbeat_ms: 2_000,
            sweep_ms: 250,
            flap_calm_ms: 3_000,
            watch_comment_ms: 1_000,
            retry_ms: 20,
            retry_cap_ms: 500,
            ..Self::default()
        }
    }

    /// How long an agent stays registered after its last heartbeat.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// How long an agent is silent before it is suspect.
    pub fn suspicion_timeout(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms.saturating_mul(2))
    }

    /// How long no agent is declared dead after a start.
    pub fn grace_period(&self) -> Duration {
        Duration::from_millis(self.lease_ms.saturating_add(self.sweep_ms.saturating_mul(2)))
    }

    /// A gap between sweeps that on its own would make a punctual agent look dead.
    pub fn max_sweep_gap(&self) -> Duration {
        Duration::from_millis(self.lease_ms.saturating_sub(self.heartbeat_ms).max(1))
    }

    /// How long the row of a departed or dead agent is kept.
    pub fn keep_departed(&self) -> Duration {
        Duration::from_millis(self.keep_departed_ms)
    }

    /// How many of `live` agents may expire in one lease.
    pub fn expiry_quota(&self, live: usize) -> usize {
        let percent = usize::try_from(self.max_expiry_percent.min(100)).unwrap_or(100);
        (live.saturating_mul(percent) / 100).max(1)
    }
}
