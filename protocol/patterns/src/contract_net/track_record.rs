//! The fulfilment history of a peer with one manager: an exponentially weighted mean of fulfilled (1) and failed (0) awards.

use serde::{Deserialize, Serialize};

/// The value of an unknown peer, and the lowest value.
const PRIOR: f64 = 0.5;
const FLOOR: f64 = 0.05;
/// How much the newest award counts.
const NEWEST: f64 = 0.2;

/// One peer's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrackRecord {
    mean: f64,
    awards: u64,
    kept: u64,
}

impl Default for TrackRecord {
    fn default() -> Self {
        Self { mean: PRIOR, awards: 0, kept: 0 }
    }
}

impl TrackRecord {
    /// From 0.05 to 1; 0.5 for an unknown peer.
    pub fn value(&self) -> f64 {
        self.mean.max(FLOOR)
    }

    /// The record after one more award.
    #[must_use]
    pub fn after(self, kept: bool) -> Self {
        let newest = if kept { 1.0 } else { 0.0 };
        Self {
            mean: self.mean * (1.0 - NEWEST) + newest * NEWEST,
            awards: self.awards + 1,
            kept: self.kept + u64::from(kept),
        }
    }
}
