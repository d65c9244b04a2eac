//! What a conversation decided, as spans: a span is opened for each effect that brings a result, and ended by it.

use super::{
    super::{
        names as n,
        span::{Kind, Span, hex},
    },
    Story, messaging, said, sent_as,
};
use crate::conversation::record::Place;
use protocol::{
    coordination::{Effect, Outcome, Tell},
    ids::{Address, EffectId},
    message::Payload,
    task::TaskState,
    time::WallTime,
    trace::SpanName,
};
use serde_json::{Value, json};

impl Story<'_> {
    pub(super) fn decide(&mut self, place: Place, effect: &Effect, at: WallTime) {
        let effect_id =
            EffectId { agent: self.me.clone(), conversation: self.id.clone(), step: place.0, index: place.1 };
        let name = effect_id.to_string();
        let id = SpanName::Effect(&name).id();
        let mine = Some(self.conversation_span());
        let span = match effect {
            Effect::Tell(tell) => {
                let span = self.sending(&effect_id, tell, at);
                return self.send(place, tell, span);
            }
            Effect::Resend(letter) => {
                let kind = letter.kind().wire();
                let mut span = self
                    .span("tell", id, mine, Kind::Producer, format!("tell {kind}"), at)
                    .with(n::PEER_FROM, json!(self.me))
                    .with(n::PEER_TO, json!(letter.to_agent_id))
                    .with(n::MESH_TYPE, json!(kind))
                    .with(n::MESH_MESSAGE, json!(letter.message_id));
                let to = letter.to_agent_id.to_string();
                messaging(&mut span, "send", "tell", &to, letter.message_id.as_str(), Some(self.id));
                span.link = Some(hex(SpanName::Message(&letter.message_id).id()));
                span
            }
            Effect::Think { turn, prompt, .. } => {
                let asked = self.telling.told(&json!(prompt)).map(Value::from);
                self.was_asked(asked.as_ref());
                self.span("think", id, mine, Kind::Internal, "think".to_owned(), at)
                    .with(n::MESH_TURN, json!(turn))
                    .with(n::PEER_FROM, json!(self.me))
                    .with(n::LANGFUSE_TYPE, json!("chain"))
                    .with(n::LANGFUSE_INPUT, asked)
            }
            Effect::Publish { signal } => {
                let kind = signal.kind.as_str();
                let mut span = self
                    .span("publish", id, mine, Kind::Producer, format!("publish {kind}"), at)
                    .with(n::PEER_FROM, json!(self.me))
                    .with(n::PEER_TO, json!("board"))
                    .with(n::MESH_TYPE, json!(kind))
                    .with(n::MESH_MESSAGE, json!(name))
                    .with(n::MESH_TASK, signal.task_id.as_ref().map(|task| json!(task)));
                messaging(&mut span, "send", "publish", "board", &name, Some(self.id));
                span
            }
            Effect::Claim { task, holder, .. } => self
                .span("claim", id, mine, Kind::Internal, "claim".to_owned(), at)
                .with(n::MESH_TASK, json!(task))
                .with(n::PEER_FROM, json!(self.me))
                .with(n::PEER_TO, json!(holder)),
            Effect::ClaimOpen { task, .. }
            | Effect::CloseOpen { task, .. }
            | Effect::ReleaseOpen { task, .. } => self
                .span("claim", id, mine, Kind::Client, "claim".to_owned(), at)
                .with(n::MESH_TASK, json!(task))
                .with(n::PEER_FROM, json!(self.me))
                .with(n::PEER_TO, json!("board")),
            Effect::StopThinking => return self.stop(at, |span| span == "think"),
            Effect::Assign { doer } => {
                let own = self.own();
                return own.set(n::MESH_DOER, doer.as_ref().map(|doer| json!(doer)));
            }
            Effect::TakeOn { spec, epoch, .. } => {
                let own = self.own();
                own.set(n::MESH_TASK, json!(spec.task_id));
                return own.set(n::MESH_EPOCH, json!(epoch));
            }
            Effect::Finish(outcome) => return self.finish(outcome, at),
            Effect::RenewOpen { .. }
            | Effect::Release { .. }
            | Effect::FindPeers { .. }
            | Effect::WakeAt { .. }
            | Effect::Forget { .. }
            | Effect::AskHuman { .. }
            | Effect::Update(_) => return,
        };
        let index = self.add(span, false);
        self.open.insert(place, index);
    }

    pub(super) fn sending(&mut self, effect: &EffectId, tell: &Tell, at: WallTime) -> Span {
        let (kind, message) = (tell.payload.kind(), effect.message_id());
        let (word, name) = sent_as(kind);
        let to = tell.to.to_string();
        let id = SpanName::Message(&message).id();
        let mut span = self
            .span(word, id, Some(self.conversation_span()), Kind::Producer, name, at)
            .with(n::PEER_FROM, json!(self.me))
            .with(n::PEER_TO, json!(to))
            .with(n::MESH_TYPE, json!(kind.wire()))
            .with(n::MESH_MESSAGE, json!(message))
            .with(n::MESH_TASK, tell.payload.task_id().map(|task| json!(task)));
        messaging(&mut span, "send", word, &to, message.as_str(), Some(self.id));
        said::terms(&mut span, &tell.payload);
        let said = said::content(&tell.payload).and_then(|said| self.telling.told(&said));
        span.set(n::LANGFUSE_INPUT, said.map(Value::from));
        span
    }

    /// What is sent once and never again is over when it is sent; a call for proposals goes on until it is answered.
    pub(super) fn send(&mut self, place: Place, tell: &Tell, mut span: Span) {
        let is_call = matches!(tell.payload, Payload::Cfp(_));
        let is_over = tell.payload.kind().is_best_effort() && !is_call;
        if is_call {
            self.was_asked(span.attributes.get(n::LANGFUSE_INPUT));
        }
        if is_over {
            span.end = Some(span.start);
        }
        let index = self.add(span, is_over);
        match &tell.to {
            Address::Agent(agent) if is_call => drop(self.called.insert(agent.to_string(), index)),
            Address::Agent(_) | Address::Capability(_) if !is_over => drop(self.open.insert(place, index)),
            Address::Agent(_) | Address::Capability(_) => {}
        }
    }

    pub(super) fn own(&mut self) -> &mut Span {
        let at = usize::from(self.opening.message.is_some());
        &mut self.told[at].span
    }

    /// What a conversation was asked shows first in what it thinks about or calls for.
    pub(super) fn was_asked(&mut self, what: Option<&Value>) {
        let Some(what) = what.cloned() else { return };
        let own = self.own();
        if own.attributes.contains_key(n::LANGFUSE_INPUT) {
            return;
        }
        if own.attributes.contains_key(n::LANGFUSE_SESSION) {
            own.set(n::LANGFUSE_TRACE_INPUT, what.clone());
        }
        own.set(n::LANGFUSE_INPUT, what);
    }

    /// Ends what was being done and will bring no result any more.
    pub(super) fn stop(&mut self, at: WallTime, which: impl Fn(&str) -> bool) {
        let stopped: Vec<_> = self
            .open
            .iter()
            .filter(|(_, index)| self.told[**index].span.text(n::MESH_SPAN).is_some_and(&which))
            .map(|(place, index)| (*place, *index))
            .collect();
        for (place, index) in stopped {
            self.open.remove(&place);
            self.end(index, at, Some("stopped".to_owned()));
        }
    }

    pub(super) fn finish(&mut self, outcome: &Outcome, at: WallTime) {
        self.stop(at, |span| span == "think" || span == "claim");
        for index in std::mem::take(&mut self.called).into_values() {
            self.end(index, at, None);
        }
        let output = said::outcome(outcome).and_then(|said| self.telling.told(&said)).map(Value::from);
        let state = outcome.status.state;
        let failed = match state {
            TaskState::Failed | TaskState::Rejected | TaskState::Canceled => Some(state.word().to_owned()),
            TaskState::Completed
            | TaskState::Submitted
            | TaskState::Working
            | TaskState::InputRequired
            | TaskState::AuthRequired => None,
        };
        let own = usize::from(self.opening.message.is_some());
        let Some(span) = self.end(own, at, failed) else { return };
        span.set(n::MESH_STATE, json!(state.word()));
        let is_entry = span.attributes.contains_key(n::LANGFUSE_SESSION);
        span.set(n::LANGFUSE_OUTPUT, output.clone());
        if is_entry {
            span.set(n::LANGFUSE_TRACE_OUTPUT, output);
        }
    }
}
