//! The spans of effects: a span starts with an effect that has a result, and ends with the result.

use super::{
    super::{
        names as n,
        span::{Span, SpanKind, hex},
    },
    SpanBuilder, send_span_name, set_messaging, span_content,
};
use engine::records::EffectKey;
use patterns::{Effect, Outcome, OutgoingMessage, turn::TurnSubject};
use protocol::{
    ids::{Address, EffectId},
    message::Payload,
    task::TaskState,
    time::WallTime,
    trace::SpanName,
};
use serde_json::{Value, json};

impl SpanBuilder<'_> {
    pub(super) fn record_effect(&mut self, key: EffectKey, effect: &Effect, at: WallTime) {
        let effect_id =
            EffectId { agent: self.me.clone(), conversation: self.id.clone(), step: key.0, index: key.1 };
        let name = effect_id.to_string();
        let id = SpanName::Effect(&name).id();
        let mine = Some(self.conversation_span_id());
        let span = match effect {
            Effect::Send(outgoing) => {
                let span = self.send_span(&effect_id, outgoing, at);
                return self.record_send(key, outgoing, span);
            }
            Effect::Resend { envelope: message, .. } => {
                let kind = message.kind().wire();
                let mut span = self
                    .span("tell", id, mine, SpanKind::Producer, format!("tell {kind}"), at)
                    .with(n::PEER_FROM, json!(self.me))
                    .with(n::PEER_TO, json!(message.to_agent_id))
                    .with(n::MESH_TYPE, json!(kind))
                    .with(n::MESH_MESSAGE, json!(message.message_id));
                let to = message.to_agent_id.to_string();
                set_messaging(&mut span, "send", "tell", &to, message.message_id.as_str(), Some(self.id));
                span.link = Some(hex(SpanName::Message(&message.message_id).id()));
                span
            }
            Effect::Record { record, .. } if self.capture.is_on() => return self.content.give(record),
            Effect::RunTurn { turn, prompt, .. } => {
                let input = self.capture.render(&self.content.begin_turn(prompt)).map(Value::from);
                self.set_input(input.as_ref());
                self.begin_turn(*turn, &name, id, at);
                let is_check = matches!(prompt.about, TurnSubject::Check { .. });
                let label = if is_check { "check" } else { "think" };
                self.span("think", id, mine, SpanKind::Internal, label.to_owned(), at)
                    .with(n::MESH_TURN, json!(turn))
                    .with(n::PEER_FROM, json!(self.me))
                    .with(n::LANGFUSE_TYPE, json!("chain"))
                    .with(n::LANGFUSE_INPUT, input)
            }
            Effect::Publish { signal } => {
                let kind = signal.kind.as_str();
                let mut span = self
                    .span("publish", id, mine, SpanKind::Producer, format!("publish {kind}"), at)
                    .with(n::PEER_FROM, json!(self.me))
                    .with(n::PEER_TO, json!("board"))
                    .with(n::MESH_TYPE, json!(kind))
                    .with(n::MESH_MESSAGE, json!(name))
                    .with(n::MESH_TASK, signal.task_id.as_ref().map(|task| json!(task)));
                set_messaging(&mut span, "send", "publish", "board", &name, Some(self.id));
                span
            }
            Effect::AskSpace { request, .. } => self
                .span("space", id, mine, SpanKind::Client, format!("{} in a space", request.name()), at)
                .with(n::PEER_FROM, json!(self.me))
                .with(n::PEER_TO, json!("board")),
            Effect::Claim { task, holder, .. } => self
                .span("claim", id, mine, SpanKind::Internal, "claim".to_owned(), at)
                .with(n::MESH_TASK, json!(task))
                .with(n::PEER_FROM, json!(self.me))
                .with(n::PEER_TO, json!(holder)),
            Effect::ClaimOpenTask { task, .. }
            | Effect::ConfirmResult { task, .. }
            | Effect::CloseOpenTask { task, .. }
            | Effect::ReleaseOpenTask { task, .. } => self
                .span("claim", id, mine, SpanKind::Client, "claim".to_owned(), at)
                .with(n::MESH_TASK, json!(task.task_id))
                .with(n::PEER_FROM, json!(self.me))
                .with(n::PEER_TO, json!("board")),
            Effect::StopTurn => return self.end_open(at, |span| span == "think"),
            Effect::Assign { doer } => {
                let span = self.conversation_span();
                return span.set(n::MESH_DOER, doer.as_ref().map(|doer| json!(doer)));
            }
            Effect::TrackTask { spec, epoch, .. } => {
                let span = self.conversation_span();
                span.set(n::MESH_TASK, json!(spec.task_id));
                return span.set(n::MESH_EPOCH, json!(epoch));
            }
            Effect::Finish(outcome) => return self.record_outcome(outcome, at),
            _ => return,
        };
        let index = self.add(span, false);
        self.open_effects.insert(key, index);
    }

    pub(super) fn send_span(&mut self, effect: &EffectId, outgoing: &OutgoingMessage, at: WallTime) -> Span {
        let (kind, message) = (outgoing.payload.kind(), effect.message_id());
        let (word, name) = send_span_name(kind);
        let to = outgoing.to.to_string();
        let id = SpanName::Message(&message).id();
        let mut span = self
            .span(word, id, Some(self.conversation_span_id()), SpanKind::Producer, name, at)
            .with(n::PEER_FROM, json!(self.me))
            .with(n::PEER_TO, json!(to))
            .with(n::MESH_TYPE, json!(kind.wire()))
            .with(n::MESH_MESSAGE, json!(message))
            .with(n::MESH_TASK, outgoing.payload.task_id().map(|task| json!(task)));
        set_messaging(&mut span, "send", word, &to, message.as_str(), Some(self.id));
        span_content::set_terms(&mut span, &outgoing.payload);
        let content =
            span_content::of_message(&outgoing.payload).and_then(|content| self.capture.render(&content));
        span.set(n::LANGFUSE_INPUT, content.map(Value::from));
        span
    }

    /// A best-effort message is complete when it is sent; a call for proposals when it is answered.
    pub(super) fn record_send(&mut self, key: EffectKey, outgoing: &OutgoingMessage, mut span: Span) {
        let is_cfp = matches!(outgoing.payload, Payload::Cfp(_));
        let is_complete = outgoing.payload.kind().is_best_effort() && !is_cfp;
        if is_cfp {
            self.set_input(span.attributes.get(n::LANGFUSE_INPUT));
        }
        if is_complete {
            span.end = Some(span.start);
        }
        let index = self.add(span, is_complete);
        match &outgoing.to {
            Address::Agent(agent) if is_cfp => drop(self.open_cfps.insert(agent.to_string(), index)),
            Address::Agent(_) | Address::Capability(_) if !is_complete => {
                self.open_effects.insert(key, index);
            }
            Address::Agent(_) | Address::Capability(_) => {}
        }
    }

    /// The index of the conversation's span, which follows that of the opening message.
    fn conversation_index(&self) -> usize {
        usize::from(self.origin.message.is_some())
    }

    pub(super) fn conversation_span(&mut self) -> &mut Span {
        let index = self.conversation_index();
        &mut self.spans[index].span
    }

    /// Sets the input of the conversation, which is that of its first prompt or call for proposals.
    pub(super) fn set_input(&mut self, input: Option<&Value>) {
        let Some(input) = input.cloned() else { return };
        let span = self.conversation_span();
        if span.attributes.contains_key(n::LANGFUSE_INPUT) {
            return;
        }
        if span.attributes.contains_key(n::LANGFUSE_SESSION) {
            span.set(n::LANGFUSE_TRACE_INPUT, input.clone());
        }
        span.set(n::LANGFUSE_INPUT, input);
    }

    /// Ends the open spans of the kinds that `which` accepts: their effects will have no result.
    pub(super) fn end_open(&mut self, at: WallTime, which: impl Fn(&str) -> bool) {
        let stopped: Vec<_> = self
            .open_effects
            .iter()
            .filter(|(_, index)| self.spans[**index].span.text(n::MESH_SPAN).is_some_and(&which))
            .map(|(key, index)| (*key, *index))
            .collect();
        for (key, index) in stopped {
            self.open_effects.remove(&key);
            self.end(index, at, Some("stopped".to_owned()));
        }
    }

    pub(super) fn record_outcome(&mut self, outcome: &Outcome, at: WallTime) {
        self.end_open(at, |span| span == "think" || span == "claim");
        for index in std::mem::take(&mut self.open_cfps).into_values() {
            self.end(index, at, None);
        }
        let output = span_content::of_outcome(outcome)
            .and_then(|content| self.capture.render(&content))
            .map(Value::from);
        let state = outcome.status.state;
        let failed = match state {
            TaskState::Failed | TaskState::Rejected | TaskState::Canceled => Some(state.word().to_owned()),
            _ => None,
        };
        let Some(span) = self.end(self.conversation_index(), at, failed) else { return };
        span.set(n::MESH_STATE, json!(state.word()));
        let is_entry = span.attributes.contains_key(n::LANGFUSE_SESSION);
        span.set(n::LANGFUSE_OUTPUT, output.clone());
        if is_entry {
            span.set(n::LANGFUSE_TRACE_OUTPUT, output);
        }
    }
}
