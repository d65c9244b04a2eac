//! What an agent tells of itself while it works: the trace of a conversation once it has ended, and of a bid at once,
//! because a bid is written nowhere.

use super::{AgentActor, recover::every};
use crate::{
    conversation::{
        opening::Arrived,
        record::{Place, Step, keys},
        spill,
    },
    telemetry::{names as n, span, span::Kind, span::Span, story},
};
use blackboard::store::{Error, Filter, Store};
use protocol::{
    coordination::Effect,
    envelope::Envelope,
    ids::{AgentId, ConversationId},
    message,
    principal::Principal,
    time::WallTime,
    trace::{SpanName, TraceContext},
};
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;

/// The steps of a conversation, oldest first, as far as its journal goes back.
pub(crate) fn steps(store: &dyn Store, me: &AgentId, id: &ConversationId) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    every(store, &Filter::Exactly(keys::journal(me, id)), |record| {
        steps.push(spill::decode(me, store, &record.value)?);
        Ok(())
    })?;
    Ok(steps)
}

impl AgentActor {
    /// After a step is durable: a conversation that has ended is told of, and later what closes afterwards.
    pub(super) fn tell_of(&mut self, id: &ConversationId) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let Some(ended) = &conversation.ended else { return };
        let (from, to) = (conversation.told, conversation.step);
        conversation.told = to;
        if from == 0 {
            if conversation.task.is_some() {
                self.parts.telemetry.meters().end(ended.status.state);
            }
            let trace = conversation.trace.as_ref().map(TraceContext::trace).unwrap_or_default();
            let task = conversation.task.as_ref().map(|row| row.task.spec.task_id.as_str());
            let (pattern, state) = (conversation.pattern.name(), ended.status.state.word());
            tracing::info!(agent = %self.me, conversation = %id, task, trace, pattern, state, "a conversation ended");
        }
        if !self.parts.telemetry.wants(conversation.trace.as_ref()) {
            return;
        }
        let (store, me, id) = (self.parts.store.clone(), self.me.clone(), id.clone());
        let capture = self.parts.telemetry.capture().clone();
        self.parts.telemetry.tell_later(move || {
            let steps = steps(store.as_ref(), &me, &id).unwrap_or_else(|error| {
                tracing::warn!(agent = %me, conversation = %id, %error, "a trace can't be told");
                Vec::new()
            });
            let is_new = |told: &story::Told| told.complete_in.is_some_and(|step| step > from && step <= to);
            story::of(&me, &id, &steps, &capture).into_iter().filter(is_new).map(|told| told.span).collect()
        });
    }

    /// Counts what a step has decided about auctions.
    pub(super) fn count(&self, effects: &[(Place, Effect)]) {
        let meters = self.parts.telemetry.meters();
        let told = effects.iter().filter_map(|(_, effect)| {
            if let Effect::Tell(tell) = effect { Some(tell.payload.kind()) } else { None }
        });
        let (mut calls, mut awards) = (0, 0);
        for kind in told {
            calls += u64::from(kind == message::Kind::Cfp);
            awards += u64::from(kind == message::Kind::Award);
        }
        meters.rounds.fetch_add(calls.min(1), Relaxed);
        meters.awards.fetch_add(awards, Relaxed);
    }

    /// Tells that `came` was answered with `answer`, at once and without a record, under the trace it came with.
    pub(super) fn tell_of_bid(
        &self,
        (came, by): (&Envelope, &Principal),
        answer: &Envelope,
        trace: Option<&TraceContext>,
        at: WallTime,
    ) {
        let telemetry = &self.parts.telemetry;
        let Some(trace) = trace.filter(|trace| telemetry.wants(Some(trace))) else { return };
        let message = Arrived::of(came, by);
        let arrival = SpanName::Arrival(&self.me, &message.id).id();
        let task = came.payload.task_id().map(|task| json!(task));
        let now = self.parts.clock.wall();
        let span = |word: &str, name: String, id, parent, kind, of: &Envelope, (from, to): (&str, &str)| {
            let mut span = Span::new(trace, id, Some(parent), &self.me, kind, name, at)
                .with(n::MESH_SPAN, json!(word))
                .with(n::GEN_AI_AGENT_ID, json!(self.me))
                .with(n::MESH_TASK, task.clone())
                .with(n::LANGFUSE_TYPE, json!("span"))
                .with(n::PEER_FROM, json!(from))
                .with(n::PEER_TO, json!(to))
                .with(n::MESH_TYPE, json!(of.kind().wire()))
                .with(n::MESH_MESSAGE, json!(of.message_id));
            let what = if kind == Kind::Server { "process" } else { "send" };
            story::messaging(&mut span, what, word, to, of.message_id.as_str(), None);
            story::terms(&mut span, &of.payload);
            let said = story::content(&of.payload).and_then(|said| telemetry.capture().told(&said));
            span.set(n::LANGFUSE_INPUT, said.map(Value::from));
            span.end = Some(now);
            span
        };
        let (me, manager) = (self.me.as_str(), message.from.as_str());
        let heard = "receive cfp".to_owned();
        let mut received = span("receive", heard, arrival, trace.span_id, Kind::Server, came, (manager, me));
        received.is_parent_remote = true;
        let (word, name) = story::sent_as(answer.kind());
        let id = SpanName::Message(&answer.message_id).id();
        let mut sent = span(word, name, id, arrival, Kind::Producer, answer, (me, manager));
        sent.link = came.in_reply_to.as_ref().map(|message| span::hex(SpanName::Message(message).id()));
        telemetry.tell(vec![received, sent]);
    }
}
