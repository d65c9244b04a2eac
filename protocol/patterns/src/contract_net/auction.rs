//! The configuration of auctions. Its doc comments are descriptions in the published JSON Schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How the best bid is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The highest weighted sum over match, track record, eta, cost and load.
    #[default]
    Weighted,
    Cheapest,
    Fastest,
    BestMatch,
    /// The first valid bid, for equal peers.
    FirstClaim,
}

/// How much each component of a score counts under `weighted`; only their ratios matter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Weights {
    /// How well the bidder's card and bid match the capability.
    #[serde(rename = "match")]
    pub fit: f64,
    /// Its fulfilment history with this manager.
    pub track_record: f64,
    /// How soon it would be done.
    pub eta: f64,
    /// What it would cost.
    pub cost: f64,
    /// How busy it is.
    pub load: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { fit: 0.3, track_record: 0.25, eta: 0.2, cost: 0.15, load: 0.1 }
    }
}

/// The terms of an auction. Milliseconds and counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Auction {
    /// How the best bid is found.
    pub strategy: Strategy,
    /// The most peers asked in one round.
    pub fanout: usize,
    /// How long bids are awaited; doubles with every round.
    pub bid_window_ms: u64,
    /// How often proposals are called for before the task is unassigned. A call that only busy bidders answer does not count.
    pub rounds: u32,
    /// How long an award waits to be accepted.
    pub accept_ms: u64,
    /// The lease: how long the winner may be silent.
    pub lease_ms: u64,
    /// How long a task waits for a place while every bidder is busy; 0 if it does not wait.
    pub max_queue_ms: u64,
    /// The weights for the strategy `weighted`.
    pub weights: Weights,
}

impl Default for Auction {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            fanout: 16,
            bid_window_ms: 5_000,
            rounds: 3,
            accept_ms: 10_000,
            lease_ms: 30_000,
            max_queue_ms: 86_400_000,
            weights: Weights::default(),
        }
    }
}

impl Auction {
    /// How long bids are awaited in this round, from 1.
    pub fn window(&self, round: u32) -> Duration {
        Duration::from_millis(self.bid_window_ms.saturating_mul(1 << round.saturating_sub(1).min(16)))
    }

    /// How long an award waits to be accepted.
    pub fn accept(&self) -> Duration {
        Duration::from_millis(self.accept_ms)
    }

    /// The lease: how long the winner may be silent.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}
