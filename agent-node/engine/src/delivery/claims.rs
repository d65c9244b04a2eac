//! What is wanted of an open task's claim on the board.

use protocol::{ids::TaskId, message::Epoch, patterns::EventKind, problem::Problem};
use std::time::Duration;

/// What is wanted of an open task's claim. A repeat after a crash finds what the first try has done.
#[derive(Debug, Clone, Copy)]
pub enum ClaimRequest {
    /// To have it.
    Take {
        /// For how long, without a sign of life.
        lease: Duration,
    },
    /// To keep it.
    Renew(Epoch),
    /// To give it back.
    Release(Epoch),
    /// To end it: the task is done, or will not be.
    Close {
        /// Which claim.
        epoch: Epoch,
        /// Whether it is done.
        is_done: bool,
    },
}

impl ClaimRequest {
    /// What it means that the board will not have it.
    pub(crate) fn refused(self, task: &TaskId, problem: &Problem) -> EventKind {
        tracing::warn!(%task, %problem, "the board refused a claim");
        match self {
            Self::Take { .. } => EventKind::ClaimLost { holder: None },
            Self::Renew(epoch) | Self::Release(epoch) | Self::Close { epoch, .. } => {
                EventKind::ClaimExpired { epoch }
            }
        }
    }
}
