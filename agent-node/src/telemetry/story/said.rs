//! What was said, for those who capture it, and what a span tells of a payload whether anybody does or not.

use crate::telemetry::{names as n, span::Span};
use protocol::{
    coordination::{Outcome, What, thought::TurnEnd},
    message::Payload,
};
use serde_json::{Value, json};

/// The content of a message, if it has any.
pub(super) fn content(payload: &Payload) -> Option<Value> {
    match payload {
        Payload::TaskRequest(said) => Some(json!(said)),
        Payload::HelpRequest(said) => Some(json!(said)),
        Payload::HelpResponse(said) => Some(json!(said)),
        Payload::Broadcast(said) => Some(json!(said)),
        Payload::TaskUpdate(said) => Some(json!(said)),
        Payload::TaskResponse(said) => Some(json!(said)),
        Payload::TaskCancel(said) => Some(json!(said)),
        Payload::Cfp(said) => Some(json!(said)),
        Payload::Bid(said) => Some(json!(said)),
        Payload::NoBid(said) => Some(json!(said)),
        Payload::Award(said) => Some(json!(said)),
        Payload::AwardDecline(said) => Some(json!(said)),
        Payload::Reject(said) => Some(json!(said)),
        Payload::AwardAccept(_) => None,
    }
}

/// What a brain said at the end of a turn.
pub(super) fn thought(what: &What) -> Option<Value> {
    let What::Thought { updates, end, .. } = what else { return None };
    let end = match end {
        TurnEnd::Done { message } => json!({ "done": message }),
        TurnEnd::Failed { reason } => json!({ "failed": reason }),
        TurnEnd::Rejected { reason } => json!({ "rejected": reason }),
        TurnEnd::Message { text } => json!({ "message": text }),
        TurnEnd::Waiting => json!("waiting"),
    };
    Some(json!({ "end": end, "updates": updates }))
}

/// What a conversation came to.
pub(super) fn outcome(outcome: &Outcome) -> Option<Value> {
    let said = outcome.status.message.is_some() || !outcome.artifacts.is_empty();
    said.then(|| json!({ "message": outcome.status.message, "artifacts": outcome.artifacts }))
}

/// The terms of a message, which are no content: the award, the offer, the state.
pub(super) fn terms(span: &mut Span, payload: &Payload) {
    match payload {
        Payload::Bid(bid) => {
            span.set(n::MESH_BID_COST, json!(bid.cost.get()));
            span.set(
                n::MESH_BID_ETA,
                json!(u64::try_from(bid.eta.duration().as_millis()).unwrap_or(u64::MAX)),
            );
        }
        Payload::Award(award) => span.set(n::MESH_EPOCH, json!(award.epoch)),
        Payload::AwardAccept(accept) => span.set(n::MESH_EPOCH, json!(accept.epoch)),
        Payload::AwardDecline(decline) => span.set(n::MESH_EPOCH, json!(decline.epoch)),
        Payload::TaskResponse(response) => span.set(n::MESH_STATE, json!(response.state.word())),
        Payload::Cfp(cfp) => span.set(n::MESH_SKILL, json!(cfp.capability)),
        Payload::TaskRequest(request) => {
            span.set(n::MESH_SKILL, request.capability.as_ref().map(|skill| json!(skill)));
        }
        Payload::HelpRequest(request) => {
            span.set(n::MESH_SKILL, request.capability.as_ref().map(|skill| json!(skill)));
        }
        Payload::TaskUpdate(_)
        | Payload::TaskCancel(_)
        | Payload::HelpResponse(_)
        | Payload::Broadcast(_)
        | Payload::NoBid(_)
        | Payload::Reject(_) => {}
    }
}
