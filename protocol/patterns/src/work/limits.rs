//! What the work on one task may use, and how long its requests are awaited.

use protocol::usage::TaskBounds;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long an agent waits for the results of its requests, and what the work on one task may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkLimits {
    /// For an answer to a help request.
    pub help: Duration,
    /// For the result of a delegated task.
    pub delegate: Duration,
    /// What the work on one task may use.
    #[serde(default, skip_serializing_if = "TaskBounds::is_default")]
    pub bounds: TaskBounds,
    /// Whether its brain does not say what it uses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unmetered: bool,
}

impl Default for WorkLimits {
    fn default() -> Self {
        Self {
            help: Duration::from_secs(120),
            delegate: Duration::from_secs(3_600),
            bounds: TaskBounds::default(),
            is_unmetered: false,
        }
    }
}
