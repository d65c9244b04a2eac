//! Chunks of a task's artifacts.

use serde::{Deserialize, Serialize};

/// Consecutive chunks of a task's artifacts, by their numbers. Their content is in the log of the task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkRange {
    /// The number of the first.
    pub from: u64,
    /// The number after the last.
    pub to: u64,
}

impl ChunkRange {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it has no chunk.
    pub fn is_empty(&self) -> bool {
        self.from >= self.to
    }
}
