//! A conversation's part of the trace, told from its journal: the span of the conversation, of what opened it, and of
//! everything it decided and heard.
//!
//! A message that opens something elsewhere is the parent of what it opens; one that comes back into a conversation hangs
//! under that conversation and is *linked* to its sending. So no span of ours ever hangs under one that a peer, which may
//! die, has yet to tell, except where the peer asked for the work.

mod deeds;
mod offer;
mod said;

pub use offer::offers;
pub(crate) use offer::{Call, offer};
use said::{content, terms};

use super::{
    capture::{Capture, Telling},
    names as n,
    span::{Kind, Span, hex},
};
use crate::conversation::{
    opening::{Arrived, Opening},
    record::{Place, Step},
};
use protocol::{
    coordination::{Event, What},
    envelope::Envelope,
    ids::{AgentId, ConversationId},
    message::Kind as Type,
    principal::Principal,
    time::WallTime,
    trace::{SpanName, TraceContext},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One span and the step in which it was complete.
#[derive(Debug)]
pub struct Told {
    /// The step; the conversation's own is complete with its end.
    pub complete_in: Option<u64>,
    /// The span.
    pub span: Span,
}

/// Tells one conversation.
struct Story<'a> {
    me: &'a AgentId,
    id: &'a ConversationId,
    opening: &'a Opening,
    telling: Telling<'a>,
    told: Vec<Told>,
    /// Where the spans of effects stand that have brought no result.
    open: BTreeMap<Place, usize>,
    /// Calls for proposals that nobody has answered.
    called: BTreeMap<String, usize>,
    step: u64,
}

/// The spans of `steps`, oldest first; none if the first step is gone. What goes on has no end.
pub fn of(me: &AgentId, id: &ConversationId, steps: &[Step], capture: &Capture) -> Vec<Told> {
    let Some((opening, begun)) =
        steps.first().and_then(|step| Some((step.opening.as_deref()?, step.events.first()?.wall)))
    else {
        return Vec::new();
    };
    let (open, called) = (BTreeMap::new(), BTreeMap::new());
    let mut story =
        Story { me, id, opening, telling: Telling::of(capture), told: Vec::new(), open, called, step: 1 };
    story.begin(begun);
    for step in steps {
        story.step = step.step;
        let places = (0..).map(|index| Place(step.step, index));
        let mut effects = places.zip(&step.effects).peekable();
        let mut decided = begun;
        for (at, event) in step.events.iter().enumerate() {
            let closes = step.closes.iter().find(|(index, _)| *index == at).map(|(_, place)| *place);
            // What was asked and answered within the step was asked first.
            while let Some((place, effect)) = effects.next_if(|(place, _)| Some(*place) <= closes) {
                story.decide(place, effect, decided);
            }
            story.hear(event, closes);
            decided = event.wall;
        }
        effects.for_each(|(place, effect)| story.decide(place, effect, decided));
    }
    story.told
}

impl Story<'_> {
    fn trace(&self) -> &TraceContext {
        &self.opening.trace
    }

    fn conversation_span(&self) -> u64 {
        SpanName::Conversation(self.me, self.id).id()
    }

    /// What every span of this conversation knows.
    fn span(&self, word: &str, id: u64, parent: Option<u64>, kind: Kind, name: String, at: WallTime) -> Span {
        Span::new(self.trace(), id, parent, self.me, kind, name, at)
            .with(n::MESH_SPAN, json!(word))
            .with(n::MESH_CONVERSATION, json!(self.id))
            .with(n::GEN_AI_AGENT_ID, json!(self.me))
            .with(n::MESH_TASK, self.opening.task.as_ref().map(|task| json!(task)))
            .with(n::MESH_SKILL, self.opening.capability.as_ref().map(|skill| json!(skill)))
            .with(n::LANGFUSE_TYPE, json!("span"))
    }

    /// Adds a span; its place among those told.
    fn add(&mut self, span: Span, is_complete: bool) -> usize {
        let complete_in = is_complete.then_some(self.step);
        self.told.push(Told { complete_in, span });
        self.told.len() - 1
    }

    fn end(&mut self, at: usize, when: WallTime, failed: Option<String>) -> Option<&mut Span> {
        let step = self.step;
        let told = self.told.get_mut(at).filter(|told| told.complete_in.is_none())?;
        told.complete_in = Some(step);
        told.span.end = Some(when);
        if let Some(why) = failed {
            fail(&mut told.span, why);
        }
        Some(&mut told.span)
    }

    fn begin(&mut self, at: WallTime) {
        let parent = self.opening.parent(self.me, self.id);
        let is_entry = match &self.opening.message {
            Some(message) => message.by.agent().is_none(),
            None => parent.is_none(),
        };
        let above = match &self.opening.message {
            Some(message) => {
                let id = SpanName::Opening(self.me, self.id).id();
                let mut span = self.arrival(message, id, parent, at);
                span.is_parent_remote = parent.is_some();
                if is_entry {
                    self.be_entry(&mut span);
                }
                self.add(span, true);
                Some(id)
            }
            None => parent,
        };
        let name = format!("invoke_agent {}", self.me);
        let mut span = self.span("conversation", self.conversation_span(), above, Kind::Internal, name, at);
        span.is_parent_remote = self.opening.message.is_none() && parent.is_some();
        span = span
            .with(n::MESH_PATTERN, json!(self.opening.pattern))
            .with(n::PEER_FROM, self.opening.message.as_ref().map(|message| json!(message.from)))
            .with(n::PEER_TO, json!(self.me))
            .with(n::MESH_MESSAGE, self.opening.message.as_ref().map(|message| json!(message.id)))
            .with(n::GEN_AI_OPERATION, json!("invoke_agent"))
            .with(n::GEN_AI_PROVIDER, json!(n::SYSTEM))
            .with(n::GEN_AI_AGENT_NAME, json!(self.me))
            .with(n::GEN_AI_CONVERSATION, json!(self.id))
            .with(n::LANGFUSE_TYPE, json!("agent"));
        if is_entry {
            self.be_entry(&mut span);
        }
        if let Some(signal) = &self.opening.signal {
            span.set(n::PEER_FROM, json!(signal.from));
            span.set(n::MESH_MESSAGE, json!(signal.id));
        }
        self.add(span, false);
    }

    /// What a backend shows of the whole trace stands on the spans where a user's request comes in.
    fn be_entry(&self, span: &mut Span) {
        span.set(n::LANGFUSE_SESSION, json!(self.id));
        let skill = self
            .opening
            .capability
            .as_ref()
            .map_or_else(|| self.opening.pattern.clone(), ToString::to_string);
        span.set(n::LANGFUSE_TRACE_NAME, json!(skill));
    }

    fn arrival(&self, message: &Arrived, id: u64, parent: Option<u64>, at: WallTime) -> Span {
        let name = format!("receive {}", message.kind.wire());
        let mut span = self
            .span("receive", id, parent, Kind::Server, name, at)
            .with(n::PEER_FROM, json!(message.from))
            .with(n::PEER_TO, json!(self.me))
            .with(n::MESH_TYPE, json!(message.kind.wire()))
            .with(n::MESH_MESSAGE, json!(message.id));
        messaging(&mut span, "process", "receive", self.me.as_str(), message.id.as_str(), Some(self.id));
        span.end = Some(at);
        span
    }

    fn hear(&mut self, event: &Event, closes: Option<Place>) {
        if let What::Heard { by, envelope, .. } = &event.what {
            return self.heard(by, envelope, event.wall);
        }
        if let What::Undelivered { label, reason, .. } = &event.what
            && closes.is_none()
            && let Some(at) = label.strip_prefix("cfp:").and_then(|agent| self.called.remove(agent))
        {
            self.end(at, event.wall, Some(reason.clone()));
        }
        let Some(at) = closes.and_then(|place| self.open.remove(&place)) else { return };
        let failed = failure(&event.what).map(str::to_owned);
        let output = said::thought(&event.what).and_then(|said| self.telling.told(&said));
        let Some(span) = self.end(at, event.wall, failed) else { return };
        if let What::Claimed { epoch, .. } | What::ClaimEnded { epoch } = &event.what {
            span.set(n::MESH_EPOCH, json!(epoch));
        }
        span.set(n::LANGFUSE_OUTPUT, output.map(Value::from));
    }

    fn heard(&mut self, by: &Principal, envelope: &Envelope, at: WallTime) {
        let message = Arrived::of(envelope, by);
        let id = SpanName::Arrival(self.me, &message.id).id();
        let mut span = self.arrival(&message, id, Some(self.conversation_span()), at);
        span.link = by.agent().map(|_| hex(SpanName::Message(&message.id).id()));
        span.set(n::MESH_TASK, envelope.payload.task_id().map(|task| json!(task)));
        said::terms(&mut span, &envelope.payload);
        span.set(
            n::LANGFUSE_INPUT,
            said::content(&envelope.payload).and_then(|said| self.telling.told(&said)).map(Value::from),
        );
        self.add(span, true);
        let is_offer = matches!(message.kind, Type::Bid | Type::NoBid);
        if is_offer && let Some(called) = self.called.remove(message.from.as_str()) {
            self.end(called, at, None);
        }
    }
}

/// A message's word among the spans, and its span's name.
pub fn sent_as(kind: Type) -> (&'static str, String) {
    match kind {
        Type::Cfp => ("cfp", "cfp".to_owned()),
        Type::Bid | Type::NoBid => ("bid", kind.wire().to_owned()),
        Type::Award => ("award", "award".to_owned()),
        Type::TaskRequest
        | Type::TaskUpdate
        | Type::TaskResponse
        | Type::TaskCancel
        | Type::HelpRequest
        | Type::HelpResponse
        | Type::Broadcast
        | Type::AwardAccept
        | Type::AwardDecline
        | Type::Reject => ("tell", format!("tell {}", kind.wire())),
    }
}

/// Names the failure of a span.
pub fn fail(span: &mut Span, why: String) {
    span.set(n::ERROR_TYPE, json!(why));
    span.set(n::LANGFUSE_LEVEL, json!("ERROR"));
    span.failed = Some(why);
}

/// What the messaging conventions want to know.
pub fn messaging(
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

/// Why what was done came to nothing, in one word that holds no content.
fn failure(what: &What) -> Option<&str> {
    match what {
        What::Undelivered { reason, .. } => Some(reason),
        What::ThoughtFailed { .. } => Some("thought_failed"),
        What::Thought { end: protocol::coordination::thought::TurnEnd::Failed { .. }, .. } => Some("failed"),
        What::ClaimLost { .. } => Some("claim_lost"),
        What::ClaimExpired { .. } => Some("claim_expired"),
        What::Started
        | What::Heard { .. }
        | What::Progress { .. }
        | What::Thought { .. }
        | What::Claimed { .. }
        | What::ClaimEnded { .. }
        | What::Woke { .. }
        | What::Told { .. }
        | What::Published { .. }
        | What::PeersFound { .. }
        | What::Answered { .. }
        | What::Cancelled { .. }
        | What::Leaving { .. } => None,
    }
}

#[cfg(test)]
mod tests;
