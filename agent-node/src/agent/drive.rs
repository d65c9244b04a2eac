//! One driver for every pattern: run the rule over what waits, commit, and only then answer and perform.

use super::{
    AgentActor, Happened,
    admit::{Ack, store_problem},
    reply::Waiter,
    think::Thinker,
};
use crate::{
    conversation::{Advance, Decided, Now, Queued, record::Place},
    outbox::letter::{Letter, envelope},
};
use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use blackboard::store::{Batch, Error, Key, Lane, Revision, Write};
use protocol::{
    coordination::{Tell, What},
    envelope::Envelope,
    ids::{AgentId, ConversationId, MessageId, TaskId},
    principal::Principal,
    problem::Problem,
    trace::{SpanName, TraceContext},
};
use std::time::{Duration, Instant};

/// How long news that may be forgotten waits for a step that it can share.
const FLUSH: Duration = Duration::from_millis(200);
/// The most conversations whose news shares a commit.
const FLUSHED_TOGETHER: usize = 64;

/// Messages of a step, by the keys of their receipts, with the task that each is about.
pub(super) type Receipts<'a> = &'a [(Key, Option<TaskId>)];

impl AgentActor {
    pub(super) fn happened(&mut self, happened: Happened, ctx: &mut Context<Self>) {
        let Happened { conversation: id, closes, what } = happened;
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        if let Some(place) = closes {
            self.timers.remove(&(id.clone(), place));
            if matches!(what, What::Thought { .. } | What::ThoughtFailed { .. }) {
                self.thoughts.remove(&(id.clone(), place));
            }
            let is_open = conversation.open.contains_key(&place);
            if !is_open {
                return;
            }
        }
        let what = self.settle_open_claim(&id, what, ctx);
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        conversation.queue.push_back(Queued::from_inside(what, closes));
        self.advance(&id, false, ctx);
    }

    /// Runs what waits in a conversation, and starts its commit.
    pub(super) fn advance(&mut self, id: &ConversationId, force: bool, ctx: &mut Context<Self>) {
        if let Some(decided) = self.decide(id, force, ctx) {
            self.write(id, decided, ctx);
        }
    }

    /// Commits a step.
    pub(super) fn write(&mut self, id: &ConversationId, mut decided: Box<Decided>, ctx: &mut Context<Self>) {
        let lane = self.lane_of(id);
        let journal_bytes = decided.batch.writes.last().map_or(0, Write::size);
        let commit = self.parts.store.commit(lane, std::mem::take(&mut decided.batch));
        let (id, begun) = (id.clone(), Instant::now());
        let settled = commit.into_actor(self).map(move |outcome, this, ctx| {
            this.parts.telemetry.meters().commit.took(begun.elapsed());
            this.settled(&id, *decided, journal_bytes, outcome, ctx);
        });
        ctx.spawn(settled);
    }

    /// The step that follows from what waits in a conversation, if it must be committed.
    pub(super) fn decide(
        &mut self,
        id: &ConversationId,
        force: bool,
        ctx: &mut Context<Self>,
    ) -> Option<Box<Decided>> {
        let (me, clock, records) = (&self.me, self.parts.clock, &self.track_records);
        let thinker = Thinker { parts: &self.parts, places: &self.thinking_places };
        let at_once = |turn, prompt: &_, deadline| thinker.at_once(turn, prompt, deadline);
        let conversation = self.conversations.get_mut(id)?;
        let now = Now { me, at: clock.node(), wall: clock.wall(), records, at_once: &at_once };
        match conversation.advance(now, force) {
            Advance::Nothing => None,
            Advance::Deferred(waiters) => {
                waiters.into_iter().for_each(|(waiter, ack)| waiter.send(Ok(ack)));
                self.flush_later(id, ctx);
                None
            }
            Advance::Commit(decided) => {
                self.deferred.remove(id);
                Some(decided)
            }
            Advance::Poisoned(left) => {
                self.poisoned(id, left, ctx);
                None
            }
        }
    }

    /// New work waits behind work in progress.
    pub(super) fn lane_of(&self, id: &ConversationId) -> Lane {
        let is_new = self.conversations.get(id).is_none_or(|conversation| conversation.head() == 0);
        if is_new { Lane::Admission } else { Lane::Progress }
    }

    /// One timer for all: an actor looks at each of its timers whenever it does anything. Where nothing more can come
    /// that would share a step, enough of the kind need not wait for it.
    fn flush_later(&mut self, id: &ConversationId, ctx: &mut Context<Self>) {
        if !std::mem::replace(&mut self.will_flush, true) {
            ctx.run_later(FLUSH, |this, ctx| {
                this.will_flush = false;
                this.closing.clear();
                let due: Vec<_> = std::mem::take(&mut this.deferred).into_iter().collect();
                due.chunks(FLUSHED_TOGETHER).for_each(|some| this.flush(some, ctx));
            });
        }
        self.deferred.insert(id.clone());
        if self.conversations.get(id).is_some_and(|conversation| conversation.is_closing()) {
            self.closing.push(id.clone());
        }
        if self.closing.len() >= FLUSHED_TOGETHER {
            let due = std::mem::take(&mut self.closing);
            self.flush(&due, ctx);
        }
    }

    /// What became of a step. Of two under way, news of the second may come first: it waits.
    pub(super) fn settled(
        &mut self,
        id: &ConversationId,
        decided: Decided,
        journal_bytes: usize,
        outcome: Result<Vec<Revision>, Error>,
        ctx: &mut Context<Self>,
    ) {
        if let Some(conversation) = self.conversations.get_mut(id)
            && conversation.is_second(decided.step)
        {
            conversation.early = Some((Box::new(decided), journal_bytes, outcome));
            return;
        }
        self.settled_in_turn(id, decided, journal_bytes, outcome, ctx);
        let early = self.conversations.get_mut(id).and_then(|conversation| conversation.early.take());
        if let Some((decided, journal_bytes, outcome)) = early {
            self.settled(id, *decided, journal_bytes, outcome, ctx);
        }
    }

    fn settled_in_turn(
        &mut self,
        id: &ConversationId,
        decided: Decided,
        journal_bytes: usize,
        outcome: Result<Vec<Revision>, Error>,
        ctx: &mut Context<Self>,
    ) {
        let Decided { effects, waiters, claims, inside, track_records, dropped, receipts, .. } = decided;
        let revisions = match outcome {
            Ok(revisions) => revisions,
            Err(error) => return self.abandon(id, error, (waiters, &receipts), inside, ctx),
        };
        self.counts.steps += 1;
        if let Some(times) = self.unrecorded.worked() {
            tracing::warn!(agent = %self.me, times, "steps are recorded again");
        }
        self.journal_bytes.add(journal_bytes);
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        if !conversation.committed(&revisions) {
            (self.parts.fatal)(&format!(
                "the store of {} did a step, and not the one it stands upon",
                self.me
            ));
        }
        for (write, place, holder) in claims {
            if let Some(epoch) = revisions.get(write) {
                let what = What::Claimed { holder, epoch: *epoch };
                conversation.queue.push_back(Queued::from_inside(what, Some(place)));
            }
        }
        if self.tell_of(id) {
            self.over(id);
        }
        self.track_records.extend(track_records);
        let joined = self.joiners.remove(id).unwrap_or_default();
        let ended = self.conversations.get(id).and_then(|conversation| conversation.ended_task());
        let answered = |ack| Ack { ended: ended.cloned().map(Box::new), ..ack };
        let waiters: Vec<_> = waiters.into_iter().map(|(waiter, ack)| (waiter, answered(ack))).collect();
        // What has queued up is on its way to the writer while this step is answered and performed.
        self.advance(id, false, ctx);
        for (waiter, ack) in waiters.into_iter().chain(joined) {
            waiter.send(Ok(ack));
        }
        self.answer_repeats(&receipts, &Ok(Some(id.clone())));
        self.forget(id, &dropped, ctx);
        self.count(&effects);
        for (place, effect) in effects {
            self.perform(id, place, &effect, ctx);
        }
        self.leave_if_over(id);
        self.count_running(id);
    }

    /// Answers everyone who sent the same message while its first copy was being recorded.
    pub(super) fn answer_repeats(
        &mut self,
        receipts: Receipts<'_>,
        outcome: &Result<Option<ConversationId>, Problem>,
    ) {
        for (key, task) in receipts {
            let Some((_, joined)) = self.in_flight.remove(key) else { continue };
            for (waiter, ack) in joined {
                let answer = match outcome {
                    Ok(conversation) => {
                        Ok(Ack { task_id: task.clone(), conversation_id: conversation.clone(), ..ack })
                    }
                    Err(problem) => Err(problem.clone()),
                };
                waiter.send(answer);
            }
        }
    }

    /// Stops timers and thoughts that a step dropped.
    pub(super) fn forget(&mut self, id: &ConversationId, dropped: &[Place], ctx: &mut Context<Self>) {
        for place in dropped {
            let of = (id.clone(), *place);
            if let Some(timer) = self.timers.remove(&of) {
                ctx.cancel_future(timer);
            }
            if let Some(thought) = self.thoughts.remove(&of) {
                thought.abort();
            }
        }
    }

    fn leave_if_over(&mut self, id: &ConversationId) {
        if !self.conversations.get(id).is_some_and(|conversation| conversation.is_over()) {
            return;
        }
        if let Some(conversation) = self.conversations.remove(id)
            && let Some(row) = conversation.task
        {
            let of = (row.task.spec.task_id, row.task.owner);
            if self.tasks.get(&of) == Some(id) {
                self.tasks.remove(&of);
            }
        }
    }

    /// Commits records that belong to no open conversation.
    pub(super) fn commit_loose(
        &mut self,
        lane: Lane,
        batch: Batch,
        receipts: Vec<Key>,
        waiters: Vec<(Waiter, Ack)>,
        ctx: &mut Context<Self>,
    ) {
        let commit = self.parts.store.commit(lane, batch);
        let settled = commit.into_actor(self).map(move |outcome, this, _| {
            let outcome = outcome.map(|_| ()).map_err(|error| store_problem(&error));
            let task = waiters.first().and_then(|(_, ack)| ack.task_id.clone());
            let repeats: Vec<_> = receipts.into_iter().map(|key| (key, task.clone())).collect();
            this.answer_repeats(&repeats, &outcome.clone().map(|()| None));
            waiters.into_iter().for_each(|(waiter, ack)| waiter.send(outcome.clone().map(|()| ack)));
        });
        ctx.spawn(settled);
    }

    /// Sends an answer that nothing depends on, to what `came`: once, and without a record.
    pub(super) fn answer_at_once(
        &self,
        tell: Tell,
        to: AgentId,
        came: (&Envelope, &Principal),
        trace: Option<TraceContext>,
    ) {
        let wall = self.parts.clock.wall();
        let minted = (ConversationId::parse("bid"), MessageId::parse(&uuid::Uuid::now_v7().to_string()));
        let ((Ok(nowhere), Ok(message_id)), Some(outbox)) = (minted, self.outbox()) else { return };
        let mut envelope = envelope(&self.me, &nowhere, Place(0, 0), &tell, wall);
        envelope.message_id = message_id;
        envelope.reply_conversation_id = None;
        self.tell_of_bid(came, &envelope, trace.as_ref(), wall);
        let trace = trace.map(|trace| trace.below(SpanName::Message(&envelope.message_id).id()));
        outbox.send(Letter { origin: None, label: tell.label, to, envelope, best_effort: true, trace });
    }
}
