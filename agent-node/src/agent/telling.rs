//! What an agent tells of itself while it works: the trace of a conversation once it has ended, and of a bid at once,
//! because a bid is written nowhere.

use super::{
    AgentActor,
    recover::{every, every_after},
};
use crate::{
    conversation::{
        opening::Arrived,
        record::{Place, State, Step, keys},
        spill,
    },
    telemetry::{
        cursor::{Cursor, UnderWay},
        names as n, span,
        span::Kind,
        span::Span,
        story,
    },
};
use blackboard::store::{Error, Filter, Revision, Store};
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
use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

/// The steps of a conversation, oldest first, as far as its journal goes back.
pub(crate) fn steps(store: &dyn Store, me: &AgentId, id: &ConversationId) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    every(store, &Filter::Exactly(keys::journal(me, id)), |record| {
        steps.push(spill::decode(me, store, &record.value)?);
        Ok(())
    })?;
    Ok(steps)
}

/// Steps of a conversation that may not have been told.
struct Untold {
    /// The last step before them.
    from: u64,
    /// Whether the conversation's end is among them.
    ends: bool,
    /// The last of them, and its revision.
    last: (u64, Revision),
}

impl AgentActor {
    /// After a step is durable: a conversation that has ended is told of, and later what closes afterwards.
    pub(super) fn tell_of(&mut self, id: &ConversationId) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let Some(ended) = conversation.end().map(|end| end.status.state) else { return };
        let (from, to) = (conversation.told, conversation.step);
        conversation.told = to;
        if from == 0 {
            if conversation.task.is_some() {
                self.parts.telemetry.meters().end(ended);
            }
            let trace = conversation.trace.as_ref().map(TraceContext::trace).unwrap_or_default();
            let task = conversation.task.as_ref().map(|row| row.task.spec.task_id.as_str());
            let (pattern, state) = (conversation.pattern.name(), ended.word());
            tracing::info!(agent = %self.me, conversation = %id, task, trace, pattern, state, "a conversation ended");
        }
        if !self.parts.telemetry.wants(conversation.trace.as_ref()) {
            return;
        }
        let step = self.told.as_ref().map(|told| told.begin(conversation.head()));
        self.tell_steps(id.clone(), from, to, step);
    }

    /// Tells what was complete in the steps of a conversation after `from`, up to `to`.
    fn tell_steps(&self, id: ConversationId, from: u64, to: u64, step: Option<UnderWay>) {
        let (store, me) = (self.parts.store.clone(), self.me.clone());
        let capture = self.parts.telemetry.capture().clone();
        self.parts.telemetry.tell_later(step, move || {
            let steps = steps(store.as_ref(), &me, &id).unwrap_or_else(|error| {
                tracing::warn!(agent = %me, conversation = %id, %error, "a trace can't be told");
                Vec::new()
            });
            let opening = steps.first().and_then(|step| step.opening.as_ref());
            if !opening.is_some_and(|opening| opening.trace.sampled) {
                return Vec::new();
            }
            let is_new = |told: &story::Told| told.complete_in.is_some_and(|step| step > from && step <= to);
            story::of(&me, &id, &steps, &capture).into_iter().filter(is_new).map(|told| told.span).collect()
        });
    }

    /// The task and the trace of an open conversation, as logs name them.
    pub(super) fn known_of(&self, id: &ConversationId) -> (Option<String>, Option<String>) {
        let conversation = self.conversations.get(id);
        let task =
            conversation.and_then(|known| known.task.as_ref()).map(|row| row.task.spec.task_id.to_string());
        (task, conversation.and_then(|known| known.trace.as_ref()).map(TraceContext::trace))
    }

    /// At a start: tells again what a process that was killed had told, and its backend had not taken.
    pub(super) fn tell_again(&mut self) -> Result<(), Error> {
        if !self.parts.telemetry.tells() {
            return Ok(());
        }
        let store = self.parts.store.clone();
        let (cursor, from) = Cursor::load(store.clone(), keys::told(&self.me))?;
        self.told = Some(cursor.clone());
        let begun = cursor.clone();
        actix::spawn(async move { begun.save().await });
        let mut later: BTreeMap<ConversationId, Untold> = BTreeMap::new();
        let journal = keys::all(&self.me, "journal");
        every_after(store.as_ref(), &journal, from, |record| {
            let step: Step = spill::decode(&self.me, store.as_ref(), &record.value)?;
            let Some(id) = record.key.tokens().get(2).and_then(|id| ConversationId::parse(id).ok()) else {
                return Ok(());
            };
            let ends = step.effects.iter().any(|effect| matches!(effect, Effect::Finish(_)));
            let untold = later.entry(id).or_insert(Untold { from: step.step - 1, ends: false, last: (0, 0) });
            untold.ends |= ends;
            untold.last = (step.step, record.revision);
            Ok(())
        })?;
        for (id, Untold { from, ends, last: (to, revision) }) in later {
            let state = store.latest(&keys::state(&self.me, &id))?;
            let state: Option<State> =
                state.map(|record| spill::decode(&self.me, store.as_ref(), &record.value)).transpose()?;
            if state.is_none_or(|state| state.has_ended) {
                let from = if ends { 0 } else { from };
                self.tell_steps(id, from, to, Some(cursor.begin(revision)));
            }
        }
        Ok(())
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
        // A bidder has no conversation and keeps nothing: the call's is what the bid belongs to.
        let conversation = came.reply_conversation_id.as_ref();
        let skill =
            if let message::Payload::Cfp(call) = &came.payload { Some(json!(call.capability)) } else { None };
        let now = self.parts.clock.wall();
        let span = |word: &str, name: String, id, parent, kind, of: &Envelope, (from, to): (&str, &str)| {
            let mut span = Span::new(trace, id, Some(parent), &self.me, kind, name, at)
                .with(n::MESH_SPAN, json!(word))
                .with(n::GEN_AI_AGENT_ID, json!(self.me))
                .with(n::MESH_TASK, task.clone())
                .with(n::MESH_CONVERSATION, conversation.map(|id| json!(id)))
                .with(n::MESH_SKILL, skill.clone())
                .with(n::LANGFUSE_TYPE, json!("span"))
                .with(n::PEER_FROM, json!(from))
                .with(n::PEER_TO, json!(to))
                .with(n::MESH_TYPE, json!(of.kind().wire()))
                .with(n::MESH_MESSAGE, json!(of.message_id));
            let what = if kind == Kind::Server { "process" } else { "send" };
            story::messaging(&mut span, what, word, to, of.message_id.as_str(), conversation);
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
