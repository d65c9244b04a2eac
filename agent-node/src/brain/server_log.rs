//! The node's log, for what the tool servers of an agent write to standard error.

use crate::telemetry::capture::Capture;
use std::fmt;

/// The log of one agent's tool servers.
#[derive(Clone, Default)]
pub struct ServerLog {
    pub agent: String,
    pub capture: Capture,
}

impl ServerLog {
    pub(super) fn write(&self, server: &str, line: &str) {
        let (agent, said) = (self.agent.as_str(), self.capture.label(line));
        tracing::info!(target: "brain", agent, server, said, "a tool server writes to its standard error");
    }
}

impl fmt::Debug for ServerLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLog").field("agent", &self.agent).finish_non_exhaustive()
    }
}
