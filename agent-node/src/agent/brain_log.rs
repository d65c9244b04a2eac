//! What a brain says in the node's log.

use crate::{brain::TurnRequest, telemetry::Telemetry};
use patterns::turn::{Progress, TurnEnd};
use protocol::ids::{AgentId, TaskId};

/// The longest line of a brain in the node's log, bytes.
const MAX_LOGGED: usize = 4_096;

/// Writes lines of a brain to the node's log. Masks the secrets of the process there and in what a turn says about itself.
pub(super) struct BrainLog {
    pub(super) telemetry: Telemetry,
    pub(super) agent: AgentId,
    pub(super) turn: String,
    pub(super) task: Option<TaskId>,
}

impl BrainLog {
    pub(super) fn new(request: &TurnRequest, telemetry: Telemetry) -> Self {
        let task = request.prompt.about.task_id().cloned();
        Self { telemetry, agent: request.agent.clone(), turn: request.key.clone(), task }
    }

    pub(super) fn masked(&self, text: &str) -> String {
        self.telemetry.capture().label(text)
    }

    /// Masks what a status says. What a brain hands over (artifacts, its last message, questions) is passed on as it is.
    pub(super) fn mask_status(&self, progress: &mut Progress) {
        if let Progress::Status { message } = progress {
            *message = self.masked(message);
        }
    }

    /// `end` without secrets in what it says about a failure.
    pub(super) fn masked_end(&self, end: Result<TurnEnd, String>) -> Result<TurnEnd, String> {
        match end {
            Ok(TurnEnd::Failed { reason }) => Ok(TurnEnd::Failed { reason: self.masked(&reason) }),
            Ok(TurnEnd::LastingFailure { reason }) => {
                Ok(TurnEnd::LastingFailure { reason: self.masked(&reason) })
            }
            Ok(TurnEnd::Rejected { reason }) => Ok(TurnEnd::Rejected { reason: self.masked(&reason) }),
            Ok(TurnEnd::Pause { after_ms, reason }) => {
                Ok(TurnEnd::Pause { after_ms, reason: self.masked(&reason) })
            }
            Ok(
                end @ (TurnEnd::Done { .. }
                | TurnEnd::Seat { .. }
                | TurnEnd::Message { .. }
                | TurnEnd::Waiting
                | TurnEnd::Handoff(_)
                | TurnEnd::WaitingFor { .. }),
            ) => Ok(end),
            Err(why) => Err(self.masked(&why)),
        }
    }

    pub(super) fn write(&self, message: &str, is_stderr: bool) {
        let Self { agent, turn, task, .. } = self;
        let task = task.as_ref().map(TaskId::as_str);
        let masked = self.masked(message);
        let said = &masked[..masked.floor_char_boundary(MAX_LOGGED)];
        match is_stderr {
            false => tracing::info!(target: "brain", %agent, task, turn, said, "the brain logs"),
            true => {
                tracing::info!(target: "brain", %agent, task, turn, said, "the brain writes to its standard error")
            }
        }
    }
}
