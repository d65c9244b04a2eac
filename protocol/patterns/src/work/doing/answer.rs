//! The end of the work that answers a peer's question.

use super::{Doing, Effect, Event, NO_SEAT, TaskState, TurnEnd};

impl Doing {
    /// Whether its brain itself has ended the answer; otherwise a bound, a fault or a cancel has.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    pub(super) fn end_answer(&mut self, end: &TurnEnd, event: &Event) -> Vec<Effect> {
        self.has_answered = !matches!(
            end,
            TurnEnd::Pause { .. } | TurnEnd::Waiting | TurnEnd::WaitingFor { .. } | TurnEnd::Handoff(_)
        );
        match end {
            TurnEnd::Pause { after_ms, reason } => self.pause(*after_ms, reason, event),
            TurnEnd::Waiting => self.wait(event),
            TurnEnd::WaitingFor { task } => self.wait_for(task, event),
            TurnEnd::Handoff(asked) => self.end_with_handoff(asked, event),
            TurnEnd::Done { message: Some(text) } | TurnEnd::Message { text } => {
                self.finish(TaskState::Completed, Some(text.clone()))
            }
            TurnEnd::Done { message: None } if !self.task.ownership.produced().is_empty() => {
                self.finish(TaskState::Completed, Some("see the artifacts".to_owned()))
            }
            TurnEnd::Done { message: None } => self.fail("done without an answer".to_owned()),
            TurnEnd::Seat { .. } => self.fail(NO_SEAT.to_owned()),
            TurnEnd::Failed { reason }
            | TurnEnd::LastingFailure { reason }
            | TurnEnd::Rejected { reason } => self.fail(reason.clone()),
        }
    }
}
