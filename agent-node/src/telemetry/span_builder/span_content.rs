//! The content of messages, turns and results for payload capture, and the attributes of a payload that are no content.

use crate::telemetry::{names as n, span::Span};
use patterns::{EventKind, Outcome, turn::TurnEnd};
use protocol::{
    budget::Budget,
    message::{MessageKind, Payload},
    task::seat_turn,
};
use serde_json::{Value, json};

pub(super) fn of_message(payload: &Payload) -> Option<Value> {
    (payload.kind() != MessageKind::AwardAccept).then(|| payload.to_json())
}

/// The updates and the end of a brain's turn.
pub(super) fn of_turn(what: &EventKind) -> Option<Value> {
    let EventKind::TurnEnded { updates, end, .. } = what else { return None };
    let end = match end {
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
    };
    Some(json!({ "end": end, "updates": updates }))
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
