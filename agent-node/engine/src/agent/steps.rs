//! Drives all conversations: decides a step, commits it, then answers the callers and performs the effects.

use crate::{
    CommitId, Observation,
    agent::Agent,
    commits::{PendingCommit, StandaloneRecords, StepCommit},
    context::Context,
    conversation::{AdvanceResult, DecidedStep, QueuedEvent, StepContext},
    internal_events::InternalEvent,
    records::EffectKey,
    timer_purpose::TimerPurpose,
};
use patterns::{Effect, EventKind, Label};
use protocol::{
    ids::ConversationId,
    message::MessageKind,
    problem::{Problem, Reason},
    trace::TraceContext,
};
use std::time::Duration;
use store_types::{Batch, Error, Lane, Revision, Write};

/// How long deferred events wait for a later step before they are committed as a step of their own.
const FLUSH_DELAY: Duration = Duration::from_millis(200);

impl Agent {
    /// Queues an event for its conversation and decides the next step. The result of an effect that is no longer open is
    /// dropped. During a commit it is queued, because the commit may fail and the effect be open again.
    pub(crate) fn handle_event(&mut self, event: InternalEvent, cx: &mut Context<'_>) {
        let InternalEvent { conversation: id, closes, what } = event;
        let Some(conversation) = self.conversations.get(&id) else { return };
        let is_late = closes.is_some_and(|effect| !conversation.open.contains_key(&effect));
        if is_late && !conversation.is_committing() {
            return;
        }
        let (what, mut next) = self.settle_open_claim(&id, what, cx);
        let Some(conversation) = self.conversations.get_mut(&id) else { return };
        let is_check_in = is_about_check_in(&what);
        conversation.queue.push_back(QueuedEvent::from_inside(what, closes));
        if is_check_in {
            self.release_turns(&id, cx);
        }
        next.push(id);
        // The end of an expired claim and the new one are one commit. A conversation that commits a step follows by itself.
        next.retain(|id| self.conversations.get(id).is_some_and(|open| !open.is_committing()));
        self.advance_together(&next, cx);
    }

    /// Decides the next step of a conversation and commits it. `force` commits deferred events, too.
    pub(crate) fn advance(&mut self, id: &ConversationId, force: bool, cx: &mut Context<'_>) {
        self.commit_steps(std::slice::from_ref(id), force, cx);
    }

    /// Decides the next step of each conversation and commits them in one batch. If one of them fails, none is recorded.
    pub(crate) fn advance_together(&mut self, ids: &[ConversationId], cx: &mut Context<'_>) {
        self.commit_steps(ids, false, cx);
    }

    fn commit_steps(&mut self, ids: &[ConversationId], force: bool, cx: &mut Context<'_>) {
        let (mut combined, mut steps, mut lane) = (Batch::default(), Vec::new(), Lane::Admission);
        for id in ids {
            let Some(mut decided) = self.decide(id, force, cx) else { continue };
            if let Some(spent) = &decided.spent {
                self.quotas.begin(id, spent);
            }
            // Alone, the first step of a new conversation goes to the admission lane, behind steps of work in progress.
            let is_new = self.conversations.get(id).is_none_or(|conversation| conversation.head() == 0);
            if !is_new || ids.len() > 1 {
                lane = Lane::Progress;
            }
            let Batch { writes, expectations } = std::mem::take(&mut decided.batch);
            // The journal record is the last write of a step.
            let journal_bytes = writes.last().map_or(0, Write::size);
            let first_write = combined.writes.len();
            combined.writes.extend(writes);
            combined.expectations.extend(expectations);
            let writes = first_write..combined.writes.len();
            steps.push(StepCommit { conversation: id.clone(), decided, journal_bytes, writes });
        }
        if !steps.is_empty() && steps.len() < ids.len() {
            let error = Error::Refused("the other conversation's step failed".to_owned());
            for StepCommit { conversation, decided, .. } in steps {
                let DecidedStep { waiters, receipts, inside, .. } = *decided;
                self.step_not_recorded(&conversation, &error, (waiters, &receipts), inside, cx);
            }
            return;
        }
        if !steps.is_empty() {
            self.commits.issue(lane, combined, PendingCommit::Steps(steps), cx);
        }
    }

    /// The next step of a conversation, if there is one to commit.
    fn decide(&mut self, id: &ConversationId, force: bool, cx: &mut Context<'_>) -> Option<Box<DecidedStep>> {
        self.refuse_fenced(id, cx);
        self.leave_row_to_later_claim(id);
        let (me, at, wall, store) = (&self.me, cx.world.now(), cx.wall(), cx.store);
        let brain = self.has_free_turn(id).then(|| self.turns.terms());
        let step_context = StepContext {
            me,
            world: &*cx.world,
            at,
            wall,
            records: self.peers.track_records(),
            store,
            counts_tasks: self.quotas.count_tasks(),
            brain,
        };
        match self.conversations.get_mut(id)?.advance(step_context, force) {
            AdvanceResult::Nothing => None,
            AdvanceResult::Deferred(waiters) => {
                waiters.into_iter().for_each(|(reply, ack)| cx.reply(reply, Ok(ack)));
                if self.schedule.defer(id.clone()) {
                    self.timers.set(FLUSH_DELAY, TimerPurpose::Flush, cx);
                }
                None
            }
            AdvanceResult::Commit(decided) => Some(decided),
            AdvanceResult::Failed(failed) => {
                self.step_failed(id, *failed, cx);
                None
            }
        }
    }

    /// Refuses the next messages of a conversation that its pattern fences. Nothing is recorded.
    fn refuse_fenced(&mut self, id: &ConversationId, cx: &mut Context<'_>) {
        while let Some((queued, why)) = self.conversations.get_mut(id).and_then(|open| open.pop_fenced()) {
            tracing::warn!(agent = %self.me, conversation = %id, why, "a report was fenced");
            self.refuse([queued], &Problem::new(Reason::Fenced, why), cx);
        }
    }

    /// Commits the deferred events of all conversations.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) {
        for id in self.schedule.take_deferred() {
            self.advance(&id, true, cx);
        }
    }

    /// Handles the result of a commit: the revision of each of its writes, or the error of the store.
    pub(crate) fn commit_settled(
        &mut self,
        id: CommitId,
        result: Result<Vec<Revision>, Error>,
        cx: &mut Context<'_>,
    ) {
        match self.commits.settled(id) {
            None => {}
            Some(PendingCommit::Steps(steps)) => {
                for StepCommit { conversation, decided, journal_bytes, writes } in steps {
                    let own_revisions =
                        |revisions: Vec<Revision>| revisions.get(writes).unwrap_or_default().to_vec();
                    let result = result.clone().map(own_revisions);
                    self.step_settled(&conversation, *decided, journal_bytes, result, cx);
                }
            }
            Some(PendingCommit::Standalone(StandaloneRecords { receipt, reply, ends, .. })) => {
                if let (Some(id), Err(error)) = (ends, &result) {
                    let task = self.recorded_task(&id, cx);
                    self.park(&id, task, &format!("its end was not recorded: {error}"), cx);
                }
                let result = result.map(drop).map_err(Problem::from);
                let task = reply.as_ref().and_then(|(_, ack)| ack.task_id.clone());
                let receipts: Vec<_> = receipt.into_iter().map(|key| (key, task.clone())).collect();
                self.admission.answer_repeats(&receipts, &result.clone().map(|()| None), cx);
                if let Some((reply, ack)) = reply {
                    cx.reply(reply, result.map(|()| ack));
                }
            }
            Some(PendingCommit::BoardCursor) => {
                let (subscription, mut own) = self.subscription();
                subscription.head_settled(result.map(drop), &mut own, cx);
            }
            Some(PendingCommit::Sweep(part)) => {
                let (retention, mut own) = self.retention();
                retention.sweep_settled(part, result.map(drop), &mut own, cx);
            }
        }
    }

    /// Handles the result of a commit for one step.
    fn step_settled(
        &mut self,
        id: &ConversationId,
        decided: DecidedStep,
        journal_bytes: usize,
        result: Result<Vec<Revision>, Error>,
        cx: &mut Context<'_>,
    ) {
        let DecidedStep {
            effects, waiters, claims, inside, track_records, dropped, receipts, cursor, ..
        } = decided;
        let revisions = match result {
            Ok(revisions) => revisions,
            Err(error) => {
                return self.step_not_recorded(id, &error, (waiters, &receipts), inside, cx);
            }
        };
        self.counts.steps += 1;
        self.expense_recorded(id, cx);
        if std::mem::take(&mut self.is_store_full) {
            tracing::warn!(agent = %self.me, "steps are recorded again");
        }
        if let Some(cursor) = cursor {
            self.subscription.set_cursor(cursor);
        }
        self.retention.add_journal_bytes(journal_bytes);
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        conversation.committed(&revisions);
        for (write, effect, holder) in claims {
            if let Some(epoch) = revisions.get(write) {
                let what = EventKind::Claimed { holder, epoch: *epoch };
                conversation.queue.push_back(QueuedEvent::from_inside(what, Some(effect)));
            }
        }
        self.observe_end(id, cx);
        self.turns.acknowledge_checkpoints(id, &inside, cx);
        self.peers.learn(track_records);
        let joiners = self.admission.joined(id);
        // The next step is committed while this one is answered and performed.
        self.advance(id, false, cx);
        waiters.into_iter().chain(joiners).for_each(|(reply, ack)| cx.reply(reply, Ok(ack)));
        self.admission.answer_repeats(&receipts, &Ok(Some(id.clone())), cx);
        self.stop_effects(id, &dropped, cx);
        observe_auctions(&effects, cx);
        for (key, effect) in effects {
            self.perform(id, key, &effect, cx);
        }
        self.conversations.remove_if_finished(id);
        self.note_change(id);
    }

    /// Reports the durable steps of an ended conversation to the trace: at its end, and again after later steps, which close
    /// effects. At its end it also logs it, counts its task and releases its brain.
    fn observe_end(&mut self, id: &ConversationId, cx: &mut Context<'_>) {
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let Some(ended) = conversation.ended else { return };
        let (from, to) = (conversation.traced_step, conversation.step);
        conversation.traced_step = to;
        let trace = conversation.trace.clone();
        cx.observe(Observation::StepsOfEnded { conversation: id.clone(), trace, from, to });
        if from > 0 {
            return;
        }
        let row = conversation.task.as_ref();
        if row.is_some() {
            cx.observe(Observation::TaskEnded(ended));
        }
        let task = row.map(|row| row.task.spec.task_id.as_str());
        let trace = conversation.trace.as_ref().map(TraceContext::trace);
        let (pattern, state) = (conversation.pattern.name(), ended.word());
        tracing::info!(agent = %self.me, conversation = %id, task, trace, pattern, state, "a conversation ended");
        let capability = row.and_then(|row| row.task.spec.capability.clone());
        cx.out.push(crate::Output::ReleaseBrain(id.clone(), capability));
    }

    /// Stops the timers, turns and claim requests of effects that are no longer open.
    pub(crate) fn stop_effects(&mut self, id: &ConversationId, effects: &[EffectKey], cx: &mut Context<'_>) {
        for effect in effects {
            self.timers.clear(id, *effect, cx);
            self.deliveries.withdraw_claim_request(id, *effect);
            self.turns.stop(&crate::TurnKey { conversation: id.clone(), effect: *effect }, cx);
        }
    }

    /// Commits records that belong to no open conversation.
    pub(super) fn commit_standalone(
        &mut self,
        batch: Batch,
        records: StandaloneRecords,
        cx: &mut Context<'_>,
    ) {
        self.commits.issue(Lane::Progress, batch, PendingCommit::Standalone(records), cx);
    }
}

/// Whether it says what became of the report that the agent is back.
fn is_about_check_in(what: &EventKind) -> bool {
    let (EventKind::Delivered { label, .. }
    | EventKind::Undelivered { label, .. }
    | EventKind::RecipientAway { label, .. }) = what
    else {
        return false;
    };
    *label == Label::CheckIn
}

/// Reports one bidding round if the step sends calls for proposals, and each award that it sends.
fn observe_auctions(effects: &[(EffectKey, Effect)], cx: &mut Context<'_>) {
    let sent_kinds = effects.iter().filter_map(|(_, effect)| {
        if let Effect::Send(message) = effect { Some(message.payload.kind()) } else { None }
    });
    let mut has_cfp = false;
    for kind in sent_kinds {
        if kind == MessageKind::Cfp && !std::mem::replace(&mut has_cfp, true) {
            cx.observe(Observation::RoundStarted);
        }
        if kind == MessageKind::Award {
            cx.observe(Observation::Awarded);
        }
    }
}
