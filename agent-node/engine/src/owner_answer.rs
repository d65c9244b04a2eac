//! The answer of a task's owner: which question it is for, and whether it is an answer to it.

use crate::{
    RelayedApproval,
    conversation::{Conversation, QueuedEvent},
    records::{AnsweredQuestion, TaskRow},
};
use patterns::EventKind;
use protocol::{
    a2a::message::Message,
    identity::approval_digest,
    ids::{QuestionId, TaskId},
    message::TaskAnswer,
    principal::Principal,
    problem::{Problem, Reason},
    question::{Answer, Decision, Question, QuestionKind},
};

/// The answer of a task's owner, or a message without one.
pub(crate) struct OwnerAnswer {
    /// The question; if absent, the only open one that takes such an answer. A decision names what it decides.
    pub(crate) question: Option<QuestionId>,
    pub(crate) answer: Answer,
    pub(crate) message: Option<Box<Message>>,
    /// Whether it is proven to be the person's, who may approve.
    pub(crate) is_persons: bool,
}

impl OwnerAnswer {
    /// The event of the answer, which names its question. Fails if no open question is meant, or if it is no answer to it.
    pub(crate) fn event(
        self,
        task: &TaskId,
        by: Principal,
        conversation: &Conversation,
    ) -> Result<EventKind, Problem> {
        let Self { question, answer, message, is_persons } = self;
        let open = conversation.task.as_ref().map(|row| row.task.status.questions.as_slice());
        let open = open.unwrap_or_default();
        let not_awaiting = |why: String| Problem::new(Reason::NotAwaitingAnswer, why);
        let ids = || open.iter().map(|question| question.id.as_str()).collect::<Vec<_>>().join(", ");
        let late = |problem| match (&question, &conversation.task) {
            (Some(id), Some(row)) => told_who_answered(problem, row, id),
            _ => problem,
        };
        let asked = match &question {
            _ if open.is_empty() => None,
            Some(id) => {
                let asked = open.iter().find(|question| question.id == id.as_str());
                let why = || format!("task {task} has no open question {id}; open are {}", ids());
                Some(asked.ok_or_else(|| late(not_awaiting(why()).with("questions", ids())))?)
            }
            None => {
                let of = |takes: fn(&Question) -> bool| open.iter().filter(move |asked| takes(asked));
                let mut taking: Vec<_> = match &answer {
                    Answer::Text(_) => of(Question::takes_plain_text).collect(),
                    Answer::Values(_) => of(|asked| asked.kind == QuestionKind::Form).collect(),
                    Answer::Decision { .. } => Vec::new(),
                };
                if taking.is_empty() && matches!(answer, Answer::Text(_)) {
                    taking = of(|asked| asked.kind == QuestionKind::Choice).collect();
                }
                let only = match taking.as_slice() {
                    [only] => Some(*only),
                    _ => None,
                };
                let why = || {
                    let why = match &answer {
                        Answer::Decision { .. } => "a decision names its question by `questionId`",
                        Answer::Text(_) | Answer::Values(_) => {
                            "not exactly one open question takes such an answer: name it by `questionId`"
                        }
                    };
                    format!("{why}; open in task {task}: {}", ids())
                };
                Some(only.ok_or_else(|| not_awaiting(why()).with("questions", ids()))?)
            }
        };
        if asked.is_none() && message.is_none() {
            return Err(late(not_awaiting(format!("task {task} waits for no answer"))));
        }
        let mut question = None;
        if let Some(asked) = asked {
            answer.check(asked).map_err(|why| Problem::new(Reason::InvalidField, why))?;
            if answer.decision() == Some(Decision::Approve) && !is_persons {
                let why = format!(
                    "question {} is an approval: it needs the person's token (`mesh token`) or the credential of a caller, at \
                     POST /a2a/tasks/{task}/answer",
                    asked.id
                );
                return Err(Problem::new(Reason::Forbidden, why));
            }
            if asked.asked_by.is_some() && matches!(by, Principal::User(_)) && !is_persons {
                let why = format!(
                    "question {} is asked in a session: the answer needs the person's token (`mesh token`) or the credential of a \
                     caller, at POST /a2a/tasks/{task}/answer",
                    asked.id
                );
                return Err(Problem::new(Reason::Forbidden, why));
            }
            question = QuestionId::parse(&asked.id).ok();
            let answerer = |queued: &QueuedEvent| {
                let EventKind::Answered { by, question: other, .. } = &queued.what else { return None };
                (*other == question).then(|| by.to_string())
            };
            if let Some(by) = conversation.queue.iter().find_map(answerer) {
                let why = format!("question {} has just been answered by {by}", asked.id);
                return Err(not_awaiting(why).with("answeredBy", by));
            }
        }
        Ok(EventKind::Answered { by, question, answer, message })
    }
}

/// Adds to the refusal of a late answer who has answered the question `id` and when, if that is known.
pub(crate) fn told_who_answered(mut problem: Problem, row: &TaskRow, id: &QuestionId) -> Problem {
    let known = row.answered.iter().find(|answered| answered.id == *id);
    let Some(AnsweredQuestion { by, at, decision, .. }) = known else { return problem };
    let what = decision.map_or("answered", Decision::word);
    problem.message.push_str(&format!("; {id} was {what} by {by} at {at}"));
    problem.with("answeredBy", by).with("answeredAt", at)
}

/// Fails if `answer`, which an agent passes on, is no answer, or if it approves something and no person is proven to have done so.
pub(crate) fn check_relayed(
    answer: &TaskAnswer,
    approval: Option<RelayedApproval>,
    conversation: &Conversation,
) -> Result<(), Problem> {
    let invalid = |why| Problem::new(Reason::InvalidField, why).with("field", "payload.answer");
    let said = Answer::from_json(&answer.answer).map_err(invalid)?;
    if said.decision() != Some(Decision::Approve) {
        return Ok(());
    }
    let open = match &conversation.task {
        Some(row) => row.task.status.questions.as_slice(),
        None => conversation.pattern.view().questions,
    };
    let asked = answer.question_id.as_ref().and_then(|id| open.iter().find(|asked| asked.id == id.as_str()));
    if let (Some(asked), Some(_)) = (asked, said.edited()) {
        said.check(asked).map_err(invalid)?;
    }
    let is_proven = match approval {
        None => false,
        Some(RelayedApproval::ByTrustedAgent) => true,
        Some(RelayedApproval::SignedFor(digest)) => {
            asked.is_some_and(|asked| approval_digest(asked, said.edited()) == digest)
        }
    };
    if is_proven {
        return Ok(());
    }
    if matches!(approval, Some(RelayedApproval::SignedFor(_))) && asked.is_none() {
        let why = format!("the question is no longer open in task {}", answer.task_id);
        return Err(Problem::new(Reason::NotAwaitingAnswer, why));
    }
    let why = format!(
        "an agent does not approve: the approval of a question of task {} needs the person's token where it is given, or this agent \
         is named in `mesh: {{ approvers: [\u{2026}] }}` of the process that asks",
        answer.task_id
    );
    Err(Problem::new(Reason::Forbidden, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Input, Output,
        testing::{TestAgent, me},
    };
    use patterns::turn::{Progress, TurnEnd};
    use protocol::ids::{AgentId, Digest};
    use serde_json::json;

    #[test]
    fn an_agent_passes_on_an_approval_only_with_the_signature_for_that_question() {
        let mut agent = TestAgent::new(&[]);
        let request = json!({ "messageId": "m-1", "type": "task-request",
            "payload": { "taskId": "t-1", "description": "x" } });
        agent.send(Some("m"), request);
        agent.commit_all();
        let turn = agent
            .take(|output| if let Output::StartTurn(turn) = output { Some(turn.key.clone()) } else { None });
        let question = Question {
            kind: QuestionKind::Approval,
            call: Some(json!({ "name": "rm", "args": {} })),
            ..Question::new("rm", "delete it?")
        };
        let updates = vec![Progress::Question(question)];
        agent.handle(Input::TurnEnded(turn.unwrap(), updates, Ok(TurnEnd::Waiting)));
        agent.commit_all();
        let owner = Principal::Agent(AgentId::parse("m").unwrap());
        let task = TaskId::parse("t-1").unwrap();
        let task = crate::tasks::find(&agent.store, &me(), &task, &owner).unwrap().unwrap().task;
        let [open] = task.status.questions.as_slice() else { panic!("{task:?}") };
        let mut number = 1;
        let mut approve = |question: Option<&str>, approval| {
            number += 1;
            let payload =
                json!({ "taskId": "t-1", "questionId": question, "answer": { "decision": "approve" } });
            let message =
                json!({ "messageId": format!("m-{number}"), "type": "task-answer", "payload": payload });
            let reply = agent.send_with(Some("m"), message, approval);
            agent.commit_all();
            agent.reply(reply).unwrap().map(drop).map_err(|problem| problem.reason)
        };
        let signed = |digest| Some(RelayedApproval::SignedFor(digest));
        let (right, other) = (approval_digest(open, None), Digest::of(b"other"));
        assert_eq!(approve(Some(&open.id), None), Err(Reason::Forbidden));
        assert_eq!(approve(Some(&open.id), signed(other)), Err(Reason::Forbidden));
        assert_eq!(approve(None, signed(right)), Err(Reason::NotAwaitingAnswer));
        assert_eq!(approve(Some("gone"), signed(right)), Err(Reason::NotAwaitingAnswer));
        assert_eq!(approve(Some(&open.id), signed(right)), Ok(()));
    }
}
