//! What an agent counts from its start on.

use serde::Serialize;

/// What an agent has done since it started.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCounts {
    /// Messages taken.
    pub admitted: u64,
    /// Messages that had been taken before.
    pub duplicates: u64,
    /// Messages refused.
    pub refused: u64,
    /// Steps committed.
    pub steps: u64,
    /// Acknowledgements nobody waited for any more.
    pub late_acks: u64,
    /// Calls for proposals answered with a bid.
    pub bids: u64,
    /// Signals reacted to.
    pub reactions: u64,
    /// Patterns that panicked; each ended its conversation.
    pub panics: u64,
}

/// What an agent has deleted since it started.
#[derive(Debug, Default, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// Rows that were kept long enough.
    pub records: u64,
    /// Lines of journals.
    pub journal_lines: u64,
    /// Contents that nothing referred to any more, artifacts that were put among them.
    pub contents: u64,
}
