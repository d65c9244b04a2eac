//! What the lines of a brain do, by the kind of its turn.

use super::{Doing, WorkLimits};
use crate::{ownership::TaskOwnership, session::seat, turn::Progress};
use protocol::{
    budget::Budget,
    ids::{AgentId, Capability, TaskId},
    principal::Principal,
    spaces::MemoryScope,
    task::{TaskSpec, TaskTerms},
};
use serde::{Deserialize, Serialize};

/// What a brain works on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WorkKind {
    #[default]
    Task,
    /// The answer to a peer's question.
    Answer,
    /// The reaction to a signal.
    Reaction,
}

impl WorkKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(super) fn is_task(&self) -> bool {
        *self == Self::Task
    }
}

/// What a brain works on that is no task.
pub(crate) struct HiddenWork {
    pub(crate) kind: WorkKind,
    /// No visible task has this id.
    pub(crate) task_id: TaskId,
    pub(crate) description: String,
    pub(crate) capability: Option<Capability>,
    pub(crate) root: Principal,
    pub(crate) budget: Budget,
}

/// The kinds of turns. What a turn may do follows from its kind alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::work) enum TurnKind {
    Task,
    /// A seat's turn in a session.
    Seat,
    /// The same in a sealed stage: nothing of it is shown to others.
    SealedSeat,
    Answer,
    Reaction,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::work) enum LineFate {
    Done,
    Ignored,
    /// The turn goes on, and the task shows why it was not done.
    NotDone(String),
    /// The turn goes on; this is the failed result of the request.
    Refused(&'static str),
    /// The turn fails.
    Fails(String),
}

impl TurnKind {
    /// The table of what a turn may do.
    pub(in crate::work) fn fate(self, line: &Progress) -> LineFate {
        match (self, line) {
            (_, Progress::Tool(_) | Progress::Brief(_) | Progress::Log { .. }) => LineFate::Ignored,
            (_, Progress::Artifact { .. } | Progress::Checkpoint(_) | Progress::Usage(_)) => LineFate::Done,
            (Self::Answer, _) => LineFate::Ignored,
            (Self::Reaction, Progress::Question(_)) => {
                LineFate::Refused("nobody can be asked: a signal has no owner")
            }
            (Self::SealedSeat, Progress::Signal { .. } | Progress::Post { .. }) if !is_own(line) => {
                LineFate::NotDone(format!("nothing was published: {}", seat::SEALED))
            }
            (Self::SealedSeat, Progress::Help { .. } | Progress::Delegate { .. }) => {
                LineFate::Refused(seat::SEALED)
            }
            (Self::Task | Self::Reaction, Progress::Say { .. }) => {
                LineFate::Fails("say: the task is no turn of a session".to_owned())
            }
            (Self::Task | Self::Reaction, Progress::Directive(_)) => {
                LineFate::Fails("directive: the task is no turn of a session".to_owned())
            }
            _ => LineFate::Done,
        }
    }
}

/// Whether nobody else sees the entry. Areas of expertise are in the briefs of teammates, whatever the scope is.
fn is_own(line: &Progress) -> bool {
    matches!(line, Progress::Post { entry } if entry.scope == Some(MemoryScope::Own) && entry.expertise.is_empty())
}

impl Doing {
    /// `me` works on something that is no task: nothing of it is shown but its end.
    pub(crate) fn hidden(me: AgentId, work: HiddenWork, limits: WorkLimits) -> Self {
        let HiddenWork { kind, task_id, description, capability, root, budget } = work;
        let terms = TaskTerms { capability, ..TaskTerms::new(description) };
        let spec = TaskSpec { budget, ..TaskSpec::new(task_id, terms, root) };
        let mut ownership = TaskOwnership::new(spec, None);
        (ownership.is_hidden, ownership.announces) = (true, false);
        Self { kind, ..Self::new(me, ownership, None, limits) }
    }

    /// The kind of its turns.
    pub(super) fn turn_kind(&self) -> TurnKind {
        let spec = &self.task.ownership.spec;
        match self.kind {
            WorkKind::Answer => TurnKind::Answer,
            WorkKind::Reaction => TurnKind::Reaction,
            WorkKind::Task if seat::is_sealed(spec) => TurnKind::SealedSeat,
            WorkKind::Task if seat::is_seat_turn(spec) => TurnKind::Seat,
            WorkKind::Task => TurnKind::Task,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::question::Question;
    use serde_json::{from_value, json};

    #[test]
    fn a_turn_may_do_what_the_table_says() {
        let line = |json| from_value::<Progress>(json).unwrap();
        let help = line(json!({ "type": "help", "id": "h", "to": "capability:x", "question": "?" }));
        let say = line(json!({ "type": "say", "to": ["a"], "text": "hi" }));
        let signal = line(json!({ "type": "signal", "signal": "x.y" }));
        let own = line(
            json!({ "type": "post", "entry": { "kind": "memory", "title": "t", "content": "c", "scope": "own" } }),
        );
        let question = Progress::Question(Question::new("q", "which?"));
        let status = Progress::Status { message: "at work".into() };
        let kinds =
            [TurnKind::Task, TurnKind::Seat, TurnKind::SealedSeat, TurnKind::Answer, TurnKind::Reaction];
        let fates = |line: &Progress| {
            kinds.map(|kind| match kind.fate(line) {
                LineFate::Done => "done",
                LineFate::Ignored => "ignored",
                LineFate::NotDone(_) => "not done",
                LineFate::Refused(_) => "refused",
                LineFate::Fails(_) => "fails",
            })
        };
        assert_eq!(fates(&status), ["done", "done", "done", "ignored", "done"]);
        assert_eq!(fates(&help), ["done", "done", "refused", "ignored", "done"]);
        assert_eq!(fates(&question), ["done", "done", "done", "ignored", "refused"]);
        assert_eq!(fates(&say), ["fails", "done", "done", "ignored", "fails"]);
        assert_eq!(fates(&signal), ["done", "done", "not done", "ignored", "done"]);
        assert_eq!(fates(&own)[2], "done", "nobody else sees it");
    }
}
