//! What the lines of a brain do, by the kind of its turn.

use super::{Doing, WorkLimits};
use crate::{
    ownership::{Requester, TaskOwnership},
    session::seat,
    turn::Progress,
};
use protocol::{ids::AgentId, task::TaskSpec};
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
    /// One request of the agent's own process. It has no turn.
    LoneRequest,
}

impl WorkKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(super) fn is_task(&self) -> bool {
        *self == Self::Task
    }
}

/// The kinds of turns. What a turn may do follows from its kind alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::work) enum TurnKind {
    Task,
    /// A seat's turn in a session.
    Seat,
    /// The same in a sealed stage: nothing of it is shown to others.
    SealedSeat,
    /// The answer to a question.
    Answer {
        /// Whether it asks other agents: it is not on the path of the question.
        asks_agents: bool,
        /// Whether it asks a person, the owner of the work of the agent that asks.
        asks_person: bool,
    },
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
            (Self::Reaction, Progress::Question(_)) => {
                LineFate::Refused("nobody can be asked: a signal has no owner")
            }
            (Self::Answer { asks_person: false, .. }, Progress::Question(_)) => {
                LineFate::Refused("nobody can be asked: no agent waits for this answer")
            }
            (Self::Answer { asks_agents: false, .. }, Progress::Help { .. } | Progress::Delegate { .. }) => {
                LineFate::Refused(ON_PATH)
            }
            (Self::SealedSeat, Progress::Signal { .. }) => {
                LineFate::NotDone(format!("nothing was published: {}", seat::SEALED))
            }
            (
                Self::SealedSeat,
                Progress::Help { .. } | Progress::Delegate { .. } | Progress::AwaitTask { .. },
            ) => LineFate::Refused(seat::SEALED),
            (Self::Seat | Self::SealedSeat, Progress::Handoff(_)) => {
                LineFate::Refused("a seat can't hand its session over: tell the others, or end your part")
            }
            (Self::Answer { .. } | Self::Reaction, Progress::Handoff(_)) => LineFate::Refused(NO_CHAT),
            (Self::Task | Self::Reaction | Self::Answer { .. }, Progress::Say { .. }) => {
                LineFate::Fails("say: the task is no turn of a session".to_owned())
            }
            (Self::Task | Self::Reaction | Self::Answer { .. }, Progress::Directive(_)) => {
                LineFate::Fails("directive: the task is no turn of a session".to_owned())
            }
            _ => LineFate::Done,
        }
    }
}

/// Why an agent that is on the path of a question asks nobody: a question makes no loop.
const ON_PATH: &str =
    "on_path: this agent is on the path of the question; it answers, and asks no other agent";

/// Why a turn can't hand over what it is about.
pub(super) const NO_CHAT: &str =
    "this is no message of a chat with a person, which alone can be handed over; delegate the task instead";

/// Whether a turn has done something with this, beside words and artifacts.
pub(super) fn is_action(line: &Progress) -> bool {
    matches!(line, Progress::Tool(_) | Progress::Post { .. } | Progress::Signal { .. })
        || line.request_id().is_some()
}

/// Whether a turn that says this goes on with its work. What a further call has used is charged, and ends it then.
pub(super) fn goes_on(line: &Progress) -> bool {
    is_action(line) || matches!(line, Progress::Say { .. } | Progress::Directive(_))
}

impl Doing {
    /// `me` works on something that is no task: nothing of it is shown but its end.
    pub(crate) fn hidden(me: AgentId, kind: WorkKind, spec: TaskSpec, limits: WorkLimits) -> Self {
        let mut ownership = TaskOwnership::new(spec, None);
        (ownership.is_hidden, ownership.announces) = (true, false);
        Self { kind, ..Self::new(me, ownership, None, limits) }
    }

    /// `me` answers a question of `requester`. What it reports is for that agent.
    pub(crate) fn answering(
        me: AgentId,
        spec: TaskSpec,
        requester: Option<Requester>,
        limits: WorkLimits,
    ) -> Self {
        let mut ownership = TaskOwnership::new(spec, requester);
        ownership.announces = false;
        // While it waits for others, signs of life keep the agent waiting that asks.
        Self { kind: WorkKind::Answer, ..Self::new(me, ownership, Some(limits.help), limits) }
    }

    /// The kind of its turns.
    pub(super) fn turn_kind(&self) -> TurnKind {
        let spec = &self.task.ownership.spec;
        match self.kind {
            WorkKind::Answer => TurnKind::Answer {
                asks_agents: !spec.path.contains(&self.task.me),
                asks_person: self.task.ownership.requester.is_some(),
            },
            WorkKind::Reaction => TurnKind::Reaction,
            WorkKind::Task if seat::is_sealed(spec) => TurnKind::SealedSeat,
            WorkKind::Task if seat::is_seat_turn(spec) => TurnKind::Seat,
            WorkKind::Task | WorkKind::LoneRequest => TurnKind::Task,
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
        let post =
            line(json!({ "type": "post", "entry": { "kind": "finding", "title": "t", "content": "c" } }));
        let question = Progress::Question(Question::new("q", "which?"));
        let status = Progress::Status { message: "at work".into() };
        let answer = |asks_agents, asks_person| TurnKind::Answer { asks_agents, asks_person };
        let kinds = [
            TurnKind::Task,
            TurnKind::Seat,
            TurnKind::SealedSeat,
            answer(true, true),
            answer(false, false),
            TurnKind::Reaction,
        ];
        let handoff = line(json!({ "type": "handoff", "id": "o", "to": "b", "reason": "r" }));
        let fates = |line: &Progress| {
            kinds.map(|kind| match kind.fate(line) {
                LineFate::Done => "done",
                LineFate::Ignored => "ignored",
                LineFate::NotDone(_) => "not done",
                LineFate::Refused(_) => "refused",
                LineFate::Fails(_) => "fails",
            })
        };
        let done = "done";
        assert_eq!(fates(&status), [done; 6]);
        assert_eq!(fates(&help), [done, done, "refused", done, "refused", done]);
        assert_eq!(fates(&question), [done, done, done, done, "refused", "refused"]);
        assert_eq!(fates(&say), ["fails", done, done, "fails", "fails", "fails"]);
        assert_eq!(fates(&signal), [done, done, "not done", done, done, done]);
        assert_eq!(fates(&post), [done; 6], "a sealed one is kept apart");
        assert_eq!(fates(&handoff), [done, "refused", "refused", "refused", "refused", "refused"]);
    }
}
