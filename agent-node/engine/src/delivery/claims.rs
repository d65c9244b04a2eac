//! Requests about the claim of an open task on the board.

use patterns::EventKind;
use protocol::{ids::AgentId, message::Epoch, problem::Problem, task::OpenTaskKey};
use std::time::Duration;

/// A request about the claim of an open task. It is idempotent: a repeat after a crash finds the result of the first.
#[derive(Debug, Clone)]
pub enum ClaimRequest {
    Take {
        /// How long the claim lasts without a renewal.
        lease: Duration,
    },
    /// Renew the claim of this epoch.
    Renew(Epoch),
    /// Release the claim of this epoch; the board offers the task again.
    Release(Epoch),
    /// End the claim for good.
    Close {
        /// The epoch of the claim.
        epoch: Epoch,
        /// Whether the task succeeded.
        is_done: bool,
    },
    /// Whether `doer` has ended the claim of this epoch.
    Confirm {
        /// The agent that reports a result.
        doer: AgentId,
        /// The epoch that it reports.
        epoch: Epoch,
    },
}

impl ClaimRequest {
    /// Whether it ends the claim.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::Release(_) | Self::Close { .. })
    }

    /// The event for a request that the board refused for good.
    pub(crate) fn refused(&self, task: &OpenTaskKey, problem: &Problem) -> EventKind {
        tracing::warn!(%task, %problem, "the board refused a claim");
        match self {
            Self::Take { .. } => EventKind::ClaimLost { holder: None },
            Self::Renew(epoch)
            | Self::Release(epoch)
            | Self::Close { epoch, .. }
            | Self::Confirm { epoch, .. } => EventKind::ClaimExpired { epoch: *epoch },
        }
    }
}
