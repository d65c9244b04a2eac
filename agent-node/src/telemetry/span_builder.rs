//! Builds the spans of a conversation from its journal: one for the conversation, one for the message that opened it, and
//! one for each effect and each later message.
//!
//! The span of a sent message is the parent of the conversation that it opens. A message that arrives in an open
//! conversation is a child of that conversation and is *linked* to the span of its sending. So the parent of a span is
//! exported by the same process, except where a peer asked for the work: a peer that dies leaves no orphans here.

mod bid_spans;
mod call_spans;
mod effect_spans;
mod span_content;

pub use bid_spans::bids_in_journal;
pub(crate) use bid_spans::{ReceivedCfp, bid_spans};

use super::{
    capture::Capture,
    names as n,
    span::{Span, SpanKind, hex},
};
use engine::{
    origin::{OpeningMessage, Origin},
    records::{EffectKey, Step},
};
use patterns::{Event, EventKind, turn::TurnEnd};
use protocol::{
    envelope::Envelope,
    ids::{AgentId, ConversationId},
    message::MessageKind as Type,
    principal::Principal,
    spaces::request::SpaceAnswer,
    time::WallTime,
    trace::{SpanName, TraceContext},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One span and the step that completed it.
#[derive(Debug)]
pub struct BuiltSpan {
    /// The step; `None` while the span has no end.
    pub complete_in: Option<u64>,
    pub span: Span,
}

struct SpanBuilder<'a> {
    me: &'a AgentId,
    id: &'a ConversationId,
    origin: &'a Origin,
    capture: &'a Capture,
    spans: Vec<BuiltSpan>,
    /// Indices of the spans of effects that have no result.
    open_effects: BTreeMap<EffectKey, usize>,
    /// Indices of the spans of calls for proposals that have no answer, by bidder.
    open_cfps: BTreeMap<String, usize>,
    turns: BTreeMap<u32, call_spans::TurnCalls>,
    /// What the turns are given and what they have brought, if content is captured.
    content: span_content::TurnContent,
    step: u64,
}

/// The spans of `steps`, oldest first; none if the first step has been removed.
pub fn build(me: &AgentId, id: &ConversationId, steps: &[Step], capture: &Capture) -> Vec<BuiltSpan> {
    let Some((origin, begun)) =
        steps.first().and_then(|step| Some((step.origin.as_deref()?, step.events.first()?.wall)))
    else {
        return Vec::new();
    };
    let mut builder = SpanBuilder {
        me,
        id,
        origin,
        capture,
        spans: Vec::new(),
        open_effects: BTreeMap::new(),
        open_cfps: BTreeMap::new(),
        turns: BTreeMap::new(),
        content: span_content::TurnContent::default(),
        step: 1,
    };
    builder.start_conversation(begun);
    for step in steps {
        builder.step = step.step;
        let keys = (0..).map(|index| EffectKey(step.step, index));
        let mut effects = keys.zip(&step.effects).peekable();
        let mut decided = begun;
        for (at, event) in step.events.iter().enumerate() {
            let closes = step.closes.iter().find(|(index, _)| *index == at).map(|(_, key)| *key);
            // An effect precedes its result, also within one step.
            while let Some((key, effect)) = effects.next_if(|(key, _)| Some(*key) <= closes) {
                builder.record_effect(key, effect, decided);
            }
            builder.record_event(event, closes);
            decided = event.wall;
        }
        effects.for_each(|(key, effect)| builder.record_effect(key, effect, decided));
    }
    builder.spans
}

impl SpanBuilder<'_> {
    fn trace(&self) -> &TraceContext {
        &self.origin.trace
    }

    fn conversation_span_id(&self) -> u64 {
        SpanName::Conversation(self.me, self.id).id()
    }

    /// A span with the attributes that all spans of this conversation have.
    fn span(
        &self,
        word: &str,
        id: u64,
        parent: Option<u64>,
        kind: SpanKind,
        name: String,
        at: WallTime,
    ) -> Span {
        Span::new(self.trace(), id, parent, self.me, kind, name, at)
            .with(n::MESH_SPAN, json!(word))
            .with(n::MESH_CONVERSATION, json!(self.id))
            .with(n::GEN_AI_AGENT_ID, json!(self.me))
            .with(n::MESH_TASK, self.origin.task.as_ref().map(|task| json!(task)))
            .with(n::MESH_SKILL, self.origin.capability.as_ref().map(|skill| json!(skill)))
            .with(n::LANGFUSE_TYPE, json!("span"))
    }

    fn add(&mut self, span: Span, is_complete: bool) -> usize {
        let complete_in = is_complete.then_some(self.step);
        self.spans.push(BuiltSpan { complete_in, span });
        self.spans.len() - 1
    }

    /// Ends the span at index `at`; `None` if it has ended before.
    fn end(&mut self, at: usize, when: WallTime, failed: Option<String>) -> Option<&mut Span> {
        let step = self.step;
        let built = self.spans.get_mut(at).filter(|built| built.complete_in.is_none())?;
        built.complete_in = Some(step);
        built.span.end = Some(when);
        if let Some(reason) = failed {
            set_failure(&mut built.span, reason);
        }
        Some(&mut built.span)
    }

    fn start_conversation(&mut self, at: WallTime) {
        let parent = self.origin.parent(self.me, self.id);
        let is_entry = match &self.origin.message {
            Some(message) => message.by.agent().is_none(),
            None => parent.is_none(),
        };
        let above = match &self.origin.message {
            Some(message) => {
                let id = SpanName::Opening(self.me, self.id).id();
                let mut span = self.receive_span(message, id, parent, at);
                span.is_parent_remote = parent.is_some();
                if is_entry {
                    self.mark_as_entry(&mut span);
                }
                self.add(span, true);
                Some(id)
            }
            None => parent,
        };
        let name = format!("invoke_agent {}", self.me);
        let mut span =
            self.span("conversation", self.conversation_span_id(), above, SpanKind::Internal, name, at);
        span.is_parent_remote = self.origin.message.is_none() && parent.is_some();
        span = span
            .with(n::MESH_PATTERN, json!(self.origin.pattern))
            .with(n::PEER_FROM, self.origin.message.as_ref().map(|message| json!(message.from)))
            .with(n::PEER_TO, json!(self.me))
            .with(n::MESH_MESSAGE, self.origin.message.as_ref().map(|message| json!(message.id)))
            .with(n::GEN_AI_OPERATION, json!("invoke_agent"))
            .with(n::GEN_AI_PROVIDER, json!(n::SYSTEM))
            .with(n::GEN_AI_AGENT_NAME, json!(self.me))
            .with(n::GEN_AI_CONVERSATION, json!(self.id))
            .with(n::LANGFUSE_TYPE, json!("agent"));
        if is_entry {
            self.mark_as_entry(&mut span);
        }
        if let Some(signal) = &self.origin.signal {
            span.set(n::PEER_FROM, json!(signal.from));
            span.set(n::MESH_MESSAGE, json!(signal.id));
        }
        self.add(span, false);
    }

    /// Sets what a backend shows of the whole trace, on spans where a user's request enters.
    fn mark_as_entry(&self, span: &mut Span) {
        span.set(n::LANGFUSE_SESSION, json!(self.id));
        let skill =
            self.origin.capability.as_ref().map_or_else(|| self.origin.pattern.clone(), ToString::to_string);
        span.set(n::LANGFUSE_TRACE_NAME, json!(skill));
    }

    fn receive_span(&self, message: &OpeningMessage, id: u64, parent: Option<u64>, at: WallTime) -> Span {
        let name = format!("receive {}", message.kind.wire());
        let mut span = self
            .span("receive", id, parent, SpanKind::Server, name, at)
            .with(n::PEER_FROM, json!(message.from))
            .with(n::PEER_TO, json!(self.me))
            .with(n::MESH_TYPE, json!(message.kind.wire()))
            .with(n::MESH_MESSAGE, json!(message.id));
        set_messaging(&mut span, "process", "receive", self.me.as_str(), message.id.as_str(), Some(self.id));
        span.end = Some(at);
        span
    }

    fn record_event(&mut self, event: &Event, closes: Option<EffectKey>) {
        if let EventKind::MessageReceived { by, envelope, .. } = &event.what {
            return self.record_message(by, envelope, event.wall);
        }
        if let EventKind::TurnProgress { turn, updates } | EventKind::TurnEnded { turn, updates, .. } =
            &event.what
        {
            self.record_calls(*turn, updates, event.wall);
            if self.capture.is_on() {
                self.content.bring(updates);
            }
        }
        if let EventKind::Undelivered { to, reason, .. } = &event.what
            && closes.is_none()
            && let Some(at) = self.open_cfps.remove(to.as_str())
        {
            self.end(at, event.wall, Some(reason.clone()));
        }
        let Some(at) = closes.and_then(|key| self.open_effects.remove(&key)) else { return };
        let failed = failure_reason(&event.what).map(str::to_owned);
        let output = match &event.what {
            EventKind::TurnEnded { end, .. } => self.capture.render(&self.content.of_turn(end)),
            _ => None,
        };
        let Some(span) = self.end(at, event.wall, failed) else { return };
        if let EventKind::Claimed { epoch, .. } | EventKind::ClaimEnded { epoch } = &event.what {
            span.set(n::MESH_EPOCH, json!(epoch));
        }
        span.set(n::LANGFUSE_OUTPUT, output.map(Value::from));
    }

    fn record_message(&mut self, by: &Principal, envelope: &Envelope, at: WallTime) {
        let message = OpeningMessage::of(envelope, by);
        let id = SpanName::Arrival(self.me, &message.id).id();
        let mut span = self.receive_span(&message, id, Some(self.conversation_span_id()), at);
        span.link = by.agent().map(|_| hex(SpanName::Message(&message.id).id()));
        span.set(n::MESH_TASK, envelope.payload.task_id().map(|task| json!(task)));
        span_content::set_terms(&mut span, &envelope.payload);
        span.set(
            n::LANGFUSE_INPUT,
            span_content::of_message(&envelope.payload)
                .and_then(|content| self.capture.render(&content))
                .map(Value::from),
        );
        self.add(span, true);
        let is_answer = matches!(message.kind, Type::Bid | Type::NoBid);
        if is_answer && let Some(cfp) = self.open_cfps.remove(message.from.as_str()) {
            self.end(cfp, at, None);
        }
    }
}

/// The `mesh.span` and the name of the span that sends a message of this type.
pub fn send_span_name(kind: Type) -> (&'static str, String) {
    match kind {
        Type::Cfp => ("cfp", "cfp".to_owned()),
        Type::Bid | Type::NoBid => ("bid", kind.wire().to_owned()),
        Type::Award => ("award", "award".to_owned()),
        _ => ("tell", format!("tell {}", kind.wire())),
    }
}

/// Marks a span as failed.
pub fn set_failure(span: &mut Span, reason: String) {
    span.set(n::ERROR_TYPE, json!(reason));
    span.set(n::LANGFUSE_LEVEL, json!("ERROR"));
    span.failed = Some(reason);
}

/// Sets the attributes of the messaging conventions.
pub fn set_messaging(
    span: &mut Span,
    kind: &str,
    word: &str,
    destination: &str,
    message: &str,
    conversation: Option<&ConversationId>,
) {
    span.set(n::MESSAGING_SYSTEM, json!(n::SYSTEM));
    span.set(n::MESSAGING_OPERATION_TYPE, json!(kind));
    span.set(n::MESSAGING_OPERATION, json!(word));
    span.set(n::MESSAGING_DESTINATION, json!(destination));
    span.set(n::MESSAGING_MESSAGE, json!(message));
    span.set(n::MESSAGING_CONVERSATION, conversation.map(|id| json!(id)));
}

/// Why an effect failed, as a code without content.
fn failure_reason(what: &EventKind) -> Option<&str> {
    match what {
        EventKind::Undelivered { reason, .. } | EventKind::PublishRefused { reason, .. } => Some(reason),
        EventKind::SpaceAnswered { answer: SpaceAnswer::Refused { reason, .. }, .. } => Some(reason),
        EventKind::TurnFailed { .. } => Some("thought_failed"),
        EventKind::TurnEnded { end: TurnEnd::Failed { .. } | TurnEnd::LastingFailure { .. }, .. } => {
            Some("failed")
        }
        EventKind::ClaimLost { .. } => Some("claim_lost"),
        EventKind::ClaimExpired { .. } => Some("claim_expired"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
