//! The two spans of a bid. A bidder has no journal of it and exports them at once; the manager, whose journal has the call
//! and the answer, builds the same.

use super::{
    send_span_name, set_messaging,
    span_content::{of_message, set_terms},
};
use crate::telemetry::{
    capture::Capture,
    names as n,
    span::{Span, SpanKind},
};
use engine::records::Step;
use patterns::{Effect, EventKind};
use protocol::{
    envelope::Envelope,
    ids::{Address, AgentId, ConversationId, EffectId, MessageId},
    message::Payload,
    time::WallTime,
    trace::{SpanName, TraceContext},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A call for proposals as a bidder received it.
pub(crate) struct ReceivedCfp<'a> {
    pub bidder: &'a AgentId,
    pub manager: &'a str,
    /// The manager's conversation: a bidder has none.
    pub conversation: Option<&'a ConversationId>,
    pub message: &'a MessageId,
    pub payload: &'a Payload,
}

/// The spans of receiving `cfp`, below the span `parent` of another process, and of `answer`.
pub(crate) fn bid_spans(
    trace: &TraceContext,
    parent: u64,
    cfp: &ReceivedCfp<'_>,
    answer: &Envelope,
    (received_at, sent_at): (WallTime, WallTime),
    capture: &Capture,
) -> [Span; 2] {
    let &ReceivedCfp { bidder, manager, conversation, message, payload } = cfp;
    let task = payload.task_id().map(|task| json!(task));
    let skill = if let Payload::Cfp(call) = payload { Some(json!(call.capability)) } else { None };
    let span =
        |word: &str, name, id, parent, kind, (message, payload): (&MessageId, &Payload), ends: [&str; 2]| {
            let mut span = Span::new(trace, id, Some(parent), bidder, kind, name, received_at)
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
            let operation = if kind == SpanKind::Server { "process" } else { "send" };
            set_messaging(&mut span, operation, word, ends[1], message.as_str(), conversation);
            set_terms(&mut span, payload);
            let content = of_message(payload).and_then(|content| capture.render(&content));
            span.set(n::LANGFUSE_INPUT, content.map(Value::from));
            span.end = Some(sent_at);
            span
        };
    let arrival = SpanName::Arrival(bidder, message).id();
    let receive = format!("receive {}", payload.kind().wire());
    let to_bidder = [manager, bidder.as_str()];
    let mut received =
        span("receive", receive, arrival, parent, SpanKind::Server, (message, payload), to_bidder);
    received.is_parent_remote = true;
    let (word, name) = send_span_name(answer.kind());
    let id = SpanName::Message(&answer.message_id).id();
    let (sent, to_manager) = ((&answer.message_id, &answer.payload), [bidder.as_str(), manager]);
    [received, span(word, name, id, arrival, SpanKind::Producer, sent, to_manager)]
}

/// The spans of the bids that conversation `id` of `me` received, from the journal of `me`.
pub fn bids_in_journal(me: &AgentId, id: &ConversationId, steps: &[Step], capture: &Capture) -> Vec<Span> {
    let Some(origin) = steps.first().and_then(|step| step.origin.as_deref()) else { return Vec::new() };
    let mut cfps: BTreeMap<(MessageId, AgentId), &Payload> = BTreeMap::new();
    let mut spans = Vec::new();
    for step in steps {
        for event in &step.events {
            let EventKind::MessageReceived { by, envelope, .. } = &event.what else { continue };
            let (Some(bidder), Payload::Bid(_) | Payload::NoBid(_)) = (by.agent(), &envelope.payload) else {
                continue;
            };
            let Some((message, payload)) = envelope
                .in_reply_to
                .as_ref()
                .and_then(|cfp| cfps.get_key_value(&(cfp.clone(), bidder.clone())))
            else {
                continue;
            };
            let message = &message.0;
            let cfp = ReceivedCfp { bidder, manager: me.as_str(), conversation: Some(id), message, payload };
            let at = envelope.timestamp.unwrap_or(event.wall);
            let parent = SpanName::Message(message).id();
            spans.extend(bid_spans(&origin.trace, parent, &cfp, envelope, (at, at), capture));
        }
        for (index, effect) in (0..).zip(&step.effects) {
            let Effect::Send(outgoing) = effect else { continue };
            if let (Payload::Cfp(_), Address::Agent(bidder)) = (&outgoing.payload, &outgoing.to) {
                let effect = EffectId { agent: me.clone(), conversation: id.clone(), step: step.step, index };
                cfps.insert((effect.message_id(), bidder.clone()), &outgoing.payload);
            }
        }
    }
    spans
}
