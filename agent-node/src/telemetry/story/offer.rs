//! The two spans of a bidder: it keeps nothing, so it tells of its offer at once, and the manager, whose journal holds the
//! call and the answer, can tell the same.

use super::{content, messaging, sent_as, terms};
use crate::{
    conversation::record::Step,
    telemetry::{
        capture::{Capture, Telling},
        names as n,
        span::{Kind, Span},
    },
};
use protocol::{
    coordination::{Effect, What},
    envelope::Envelope,
    ids::{Address, AgentId, ConversationId, EffectId, MessageId},
    message::Payload,
    time::WallTime,
    trace::{SpanName, TraceContext},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A call for proposals, as it came to a bidder.
pub(crate) struct Call<'a> {
    /// Who is called.
    pub bidder: &'a AgentId,
    /// Who calls.
    pub manager: &'a str,
    /// The manager's conversation: a bidder has none.
    pub conversation: Option<&'a ConversationId>,
    /// The call's message.
    pub message: &'a MessageId,
    /// What it says.
    pub payload: &'a Payload,
}

/// How `call` came, under the span `under` in another process, and how it was answered.
pub(crate) fn offer(
    trace: &TraceContext,
    under: u64,
    call: &Call<'_>,
    answer: &Envelope,
    (came, sent): (WallTime, WallTime),
    capture: &Capture,
) -> [Span; 2] {
    let &Call { bidder, manager, conversation, message, payload } = call;
    let task = payload.task_id().map(|task| json!(task));
    let skill = if let Payload::Cfp(call) = payload { Some(json!(call.capability)) } else { None };
    let mut telling = Telling::of(capture);
    let mut span =
        |word: &str, name, id, parent, kind, (message, payload): (&MessageId, &Payload), ends: [&str; 2]| {
            let mut span = Span::new(trace, id, Some(parent), bidder, kind, name, came)
                .with(n::MESH_SPAN, json!(word))
                .with(n::GEN_AI_AGENT_ID, json!(bidder))
                .with(n::MESH_TASK, task.clone())
                .with(n::MESH_CONVERSATION, conversation.map(|id| json!(id)))
                .with(n::MESH_SKILL, skill.clone())
                .with(n::LANGFUSE_TYPE, json!("span"))
                .with(n::PEER_FROM, json!(ends[0]))
                .with(n::PEER_TO, json!(ends[1]))
                .with(n::MESH_TYPE, json!(payload.kind().wire()))
                .with(n::MESH_MESSAGE, json!(message));
            let what = if kind == Kind::Server { "process" } else { "send" };
            messaging(&mut span, what, word, ends[1], message.as_str(), conversation);
            terms(&mut span, payload);
            let said = content(payload).and_then(|said| telling.told(&said));
            span.set(n::LANGFUSE_INPUT, said.map(Value::from));
            span.end = Some(sent);
            span
        };
    let arrival = SpanName::Arrival(bidder, message).id();
    let heard = format!("receive {}", payload.kind().wire());
    let to_me = [manager, bidder.as_str()];
    let mut received = span("receive", heard, arrival, under, Kind::Server, (message, payload), to_me);
    received.is_parent_remote = true;
    let (word, name) = sent_as(answer.kind());
    let id = SpanName::Message(&answer.message_id).id();
    let (said, to_manager) = ((&answer.message_id, &answer.payload), [bidder.as_str(), manager]);
    [received, span(word, name, id, arrival, Kind::Producer, said, to_manager)]
}

/// What bidders told of the calls of `me` in conversation `id`, as its journal holds their answers.
pub fn offers(me: &AgentId, id: &ConversationId, steps: &[Step], capture: &Capture) -> Vec<Span> {
    let Some(opening) = steps.first().and_then(|step| step.opening.as_deref()) else { return Vec::new() };
    let mut calls: BTreeMap<(MessageId, AgentId), &Payload> = BTreeMap::new();
    let mut spans = Vec::new();
    for step in steps {
        for event in &step.events {
            let What::Heard { by, envelope, .. } = &event.what else { continue };
            let (Some(bidder), Payload::Bid(_) | Payload::NoBid(_)) = (by.agent(), &envelope.payload) else {
                continue;
            };
            let Some((message, payload)) = envelope
                .in_reply_to
                .as_ref()
                .and_then(|call| calls.get_key_value(&(call.clone(), bidder.clone())))
            else {
                continue;
            };
            let message = &message.0;
            let call = Call { bidder, manager: me.as_str(), conversation: Some(id), message, payload };
            let at = envelope.timestamp.unwrap_or(event.wall);
            let under = SpanName::Message(message).id();
            spans.extend(offer(&opening.trace, under, &call, envelope, (at, at), capture));
        }
        for (index, effect) in (0..).zip(&step.effects) {
            let Effect::Tell(tell) = effect else { continue };
            if let (Payload::Cfp(_), Address::Agent(bidder)) = (&tell.payload, &tell.to) {
                let effect = EffectId { agent: me.clone(), conversation: id.clone(), step: step.step, index };
                calls.insert((effect.message_id(), bidder.clone()), &tell.payload);
            }
        }
    }
    spans
}
