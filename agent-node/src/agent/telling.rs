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
        story,
    },
};
use blackboard::store::{Error, Filter, Revision, Store};
use protocol::{
    coordination::Effect,
    envelope::Envelope,
    ids::{AgentId, ConversationId},
    principal::Principal,
    time::WallTime,
    trace::TraceContext,
};
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

/// The oldest step of a conversation, of those its journal goes back to.
pub(crate) fn first_step(
    store: &dyn Store,
    me: &AgentId,
    id: &ConversationId,
) -> Result<Option<Step>, Error> {
    let found = store.read(&Filter::Exactly(keys::journal(me, id)), 0, 1)?;
    found.first().map(|record| spill::decode(me, store, &record.value)).transpose()
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
    /// After a step is durable: a conversation that has ended is told of, and later what closes afterwards. Whether this
    /// step ended it.
    pub(super) fn tell_of(&mut self, id: &ConversationId) -> bool {
        let Some(conversation) = self.conversations.get_mut(id) else { return false };
        let Some(ended) = conversation.end() else { return false };
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
            return from == 0;
        }
        let step = self.told.as_ref().map(|told| told.begin(conversation.head()));
        self.tell_steps(id.clone(), from, to, step);
        from == 0
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
            calls += u64::from(kind == protocol::message::Kind::Cfp);
            awards += u64::from(kind == protocol::message::Kind::Award);
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
        let call = story::Call {
            bidder: &self.me,
            manager: message.from.as_str(),
            conversation: came.reply_conversation_id.as_ref(),
            message: &message.id,
            payload: &came.payload,
        };
        let times = (at, self.parts.clock.wall());
        telemetry.tell(story::offer(trace, trace.span_id, &call, answer, times, telemetry.capture()).into());
    }
}
