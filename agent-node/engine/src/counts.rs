//! Counters of an agent since its start.

use protocol::usage::Usage;
use serde::Serialize;

/// Counters since the start.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCounts {
    pub admitted: u64,
    pub duplicates: u64,
    pub refused: u64,
    pub steps: u64,
    /// Acknowledgements that were received after the wait had ended.
    pub late_acks: u64,
    /// Calls for proposals answered with a bid.
    pub bids: u64,
    /// What the brain has used to answer calls for proposals.
    #[serde(skip_serializing_if = "Usage::is_none")]
    pub bid_usage: Usage,
    pub reactions: u64,
    /// How often the blackboard was another one than before, and was read again from its oldest signal.
    pub boards_changed: u64,
    /// Failed steps: panics of patterns, and records that could not be written.
    pub panics: u64,
}

/// What an agent has deleted since it started.
#[derive(Debug, Default, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    pub records: u64,
    pub journal_lines: u64,
    /// Unreferenced contents, uploaded artifacts included.
    pub contents: u64,
}
