//! The content of messages, turns and results for payload capture, and the attributes of a payload that are no content.

use crate::telemetry::{names as n, span::Span};
use patterns::{
    Outcome,
    turn::{Progress, Prompt, RequestResult, TurnEnd},
    turn_record::TurnRecord,
};
use protocol::{
    a2a::message::Message,
    artifact::{Artifact, merge_joined},
    budget::Budget,
    message::{MessageKind, Payload},
    task::seat_turn,
};
use serde_json::{Value, json};

pub(super) fn of_message(payload: &Payload) -> Option<Value> {
    (payload.kind() != MessageKind::AwardAccept).then(|| payload.to_json())
}

/// What the turns of a conversation are given beside their prompts, and what the one that runs has brought.
#[derive(Default)]
pub(super) struct TurnContent {
    answers: Vec<RequestResult>,
    /// The owner's messages that no turn was given yet.
    messages: Vec<Message>,
    artifacts: Vec<Artifact>,
    updates: Vec<Progress>,
}

impl TurnContent {
    /// Takes what the next turn is given.
    pub(super) fn give(&mut self, record: &TurnRecord) {
        match record {
            TurnRecord::Answer(answer) => self.answers.push(answer.clone()),
            TurnRecord::Message(message) => self.messages.push((**message).clone()),
            TurnRecord::Checkpoint(_) => {}
        }
    }

    /// What the turn of `prompt` is given.
    pub(super) fn begin_turn(&mut self, prompt: &Prompt) -> Value {
        (self.artifacts, self.updates) = (Vec::new(), Vec::new());
        let (mut whole, messages) = (prompt.clone(), std::mem::take(&mut self.messages));
        whole.answers.clone_from(&self.answers);
        whole.messages.extend(messages);
        json!(whole)
    }

    /// Takes what the turn reports but for calls, notes to itself and lines of a log, which have places of their own. Pieces of an
    /// artifact are joined.
    pub(super) fn bring(&mut self, updates: &[Progress]) {
        for update in updates {
            match update {
                Progress::Artifact { artifact, append, .. } => {
                    merge_joined(&mut self.artifacts, artifact.clone(), *append);
                }
                Progress::Usage(_) | Progress::Tool(_) | Progress::Log { .. } | Progress::Checkpoint(_) => {}
                other => self.updates.push(other.clone()),
            }
        }
    }

    /// What the turn that ends so has brought.
    pub(super) fn of_turn(&self, end: &TurnEnd) -> Value {
        json!({ "end": of_end(end), "artifacts": self.artifacts, "updates": self.updates })
    }
}

fn of_end(end: &TurnEnd) -> Value {
    match end {
        TurnEnd::Done { message } => json!({ "done": message }),
        TurnEnd::Failed { reason } => json!({ "failed": reason }),
        TurnEnd::LastingFailure { reason } => json!({ "failed": reason, "lasting": true }),
        TurnEnd::Rejected { reason } => json!({ "rejected": reason }),
        TurnEnd::Message { text } => json!({ "message": text }),
        TurnEnd::Seat { message, seat } => {
            json!({ "seat": { "message": message, "passed": seat.passed, "label": seat.label } })
        }
        TurnEnd::Handoff(to) => json!({ "handoff": { "to": to.to, "reason": to.reason } }),
        TurnEnd::Waiting => json!("waiting"),
        TurnEnd::WaitingFor { task } => json!({ "waiting": { "task": task } }),
        TurnEnd::Pause { after_ms, reason } => json!({ "pause": { "afterMs": after_ms, "reason": reason } }),
    }
}

/// The message and the artifacts of a result, if it has any.
pub(super) fn of_outcome(outcome: &Outcome) -> Option<Value> {
    let has_content = outcome.status.message.is_some() || !outcome.artifacts.is_empty();
    has_content.then(|| json!({ "message": outcome.status.message, "artifacts": outcome.artifacts }))
}

/// Sets the terms of a message, which are no content: epoch, cost, time, state.
pub(super) fn set_terms(span: &mut Span, payload: &Payload) {
    match payload {
        Payload::Bid(bid) => {
            span.set(n::MESH_BID_COST, json!(bid.cost.get()));
            span.set(
                n::MESH_BID_ETA,
                json!(u64::try_from(bid.eta.duration().as_millis()).unwrap_or(u64::MAX)),
            );
        }
        Payload::Award(award) => {
            span.set(n::MESH_EPOCH, json!(award.epoch));
            set_budget(span, award.task.budget);
        }
        Payload::AwardAccept(accept) => span.set(n::MESH_EPOCH, json!(accept.epoch)),
        Payload::AwardDecline(decline) => span.set(n::MESH_EPOCH, json!(decline.epoch)),
        Payload::TaskResponse(response) => {
            span.set(n::MESH_STATE, json!(response.state.word()));
            let used = response.usage.tokens();
            span.set(n::MESH_USED_TOKENS, (used > 0).then(|| json!(used)));
        }
        Payload::Cfp(cfp) => span.set(n::MESH_SKILL, json!(cfp.capability)),
        Payload::TaskRequest(request) => {
            span.set(n::MESH_SKILL, request.capability.as_ref().map(|skill| json!(skill)));
            set_budget(span, request.budget);
            set_turn(span, request.input.as_ref());
        }
        Payload::HelpRequest(request) => {
            span.set(n::MESH_SKILL, request.capability.as_ref().map(|skill| json!(skill)));
            set_budget(span, request.budget);
        }
        Payload::TaskUpdate(_)
        | Payload::TaskCancel(_)
        | Payload::TaskAnswer(_)
        | Payload::HelpResponse(_)
        | Payload::Broadcast(_)
        | Payload::NoBid(_)
        | Payload::Reject(_) => {}
    }
}

/// Which turn of a session the task is.
fn set_turn(span: &mut Span, input: Option<&Value>) {
    let Some(turn) = seat_turn(input) else { return };
    for (name, member) in [
        (n::MESH_STAGE, "stage"),
        (n::MESH_SEAT, "seat"),
        (n::MESH_ROUND, "round"),
        (n::MESH_ITERATION, "iteration"),
    ] {
        span.set(name, turn.get(member).cloned());
    }
}

fn set_budget(span: &mut Span, Budget { tokens, cost }: Budget) {
    span.set(n::MESH_BUDGET_TOKENS, tokens.map(|tokens| json!(tokens)));
    span.set(n::MESH_BUDGET_COST, cost.map(|cost| json!(cost)));
}
