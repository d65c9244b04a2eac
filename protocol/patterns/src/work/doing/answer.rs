//! The end of the turn that answers a peer's question. There is one turn, and it asks nobody.

use super::{Doing, Effect, Event, TaskState, TurnEnd};

impl Doing {
    /// Whether its brain itself has ended the answer; otherwise a bound, a fault or a cancel has.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered
    }

    pub(super) fn end_answer(&mut self, end: &TurnEnd, event: &Event) -> Vec<Effect> {
        self.has_answered = !matches!(end, TurnEnd::Pause { .. });
        match end {
            TurnEnd::Pause { after_ms, reason } => self.pause(*after_ms, reason, event),
            TurnEnd::Done { message: Some(text) }
            | TurnEnd::Message { text }
            | TurnEnd::Seat { message: Some(text), .. } => {
                self.finish(TaskState::Completed, Some(text.clone()))
            }
            TurnEnd::Done { message: None } if !self.task.ownership.produced().is_empty() => {
                self.finish(TaskState::Completed, Some("see the artifacts".to_owned()))
            }
            TurnEnd::Done { message: None } | TurnEnd::Seat { message: None, .. } => {
                self.fail("done without an answer".to_owned())
            }
            TurnEnd::Failed { reason } | TurnEnd::Rejected { reason } => self.fail(reason.clone()),
            TurnEnd::Waiting => self.fail("answering may not ask others".to_owned()),
        }
    }
}
