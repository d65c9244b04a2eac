//! Failed steps: the conversation is restored from the store.

use crate::{
    Ack, ReplyTo,
    agent::Agent,
    commits::Receipts,
    context::Context,
    conversation::{QueuedEvent, StepFailed},
    records::EffectKey,
    timer_purpose::TimerPurpose,
};
use patterns::{Effect, EventKind};
use protocol::{
    ids::ConversationId,
    principal::Principal,
    problem::{Problem, Reason},
    trace::TraceContext,
};
use std::time::Duration;
use store_types::Error;

/// The pause before a restored conversation continues.
const AGAIN: Duration = Duration::from_millis(500);

impl Agent {
    /// A pattern panicked, or a step can't be written: the conversation is restored and cancelled. If that fails, too, it is
    /// parked.
    pub(super) fn step_failed(&mut self, id: &ConversationId, left: StepFailed, cx: &mut Context<'_>) {
        let StepFailed { why, waiters, receipts, cursor, mut inside, failed, rest } = left;
        let (task, trace) = self.task_and_trace(id);
        tracing::error!(agent = %self.me, conversation = %id, task, trace, why, "a step failed");
        self.counts.panics += 1;
        // Nothing of the conversation is recorded, and the same message would fail again.
        let is_new = self.conversations.get(id).is_none_or(|conversation| conversation.head() == 0);
        let reason = if is_new { Reason::MessageFailed } else { Reason::Internal };
        let problem = Problem::new(reason, format!("a rule of {} failed: {why}", self.me));
        if let Some(cursor) = cursor {
            self.subscription.reaction_failed(cursor, &self.me);
        }
        let receipts: Vec<_> = receipts.into_iter().map(|key| (key, None)).collect();
        self.admission.answer_repeats(&receipts, &Err(problem.clone()), cx);
        let is_cancel = |what: &EventKind| matches!(what, EventKind::Cancelled { .. });
        let is_ending = inside.iter().chain(&rest).any(|(what, _)| is_cancel(what));
        inside.retain(|(what, _)| !is_cancel(what));
        if is_ending || !self.conversations.note_failure(id) {
            waiters.into_iter().for_each(|(reply, _)| cx.reply(reply, Err(problem.clone())));
            let (queue, task) = self.conversations.remove_failed(id);
            self.refuse(queue, &problem, cx);
            return self.park(id, task, &why, cx);
        }
        let by = Principal::Agent(self.me.clone());
        let reason = format!("an internal fault ended it: {why}");
        inside.push((EventKind::Cancelled { by, reason }, None));
        // An ended pattern ignores most results, and all that a turn says: what follows a lost piece would leave a gap.
        inside.extend(failed);
        inside.extend(rest.into_iter().filter(|(what, _)| !is_cancel(what)));
        self.roll_back(id, &problem, waiters, inside, cx);
    }

    /// Refuses the messages in a queue.
    pub(super) fn refuse(
        &mut self,
        queue: impl IntoIterator<Item = QueuedEvent>,
        problem: &Problem,
        cx: &mut Context<'_>,
    ) {
        for queued in queue {
            if let Some(receipt) = &queued.receipt {
                self.admission.answer_repeats(
                    &[(receipt.write.key().clone(), None)],
                    &Err(problem.clone()),
                    cx,
                );
            }
            queued.waiters.into_iter().for_each(|(reply, _)| cx.reply(reply, Err(problem.clone())));
        }
    }

    /// The store refused a step, so the state in memory is invalid. The conversation is restored, messages are refused,
    /// and events that the agent produced itself are queued again.
    pub(super) fn step_not_recorded(
        &mut self,
        id: &ConversationId,
        error: &Error,
        (waiters, receipts): (Vec<(ReplyTo, Ack)>, Receipts<'_>),
        inside: Vec<(EventKind, Option<EffectKey>)>,
        cx: &mut Context<'_>,
    ) {
        self.quotas.settled(id, false, cx.wall());
        let problem = Problem::from(error.clone());
        self.admission.answer_repeats(receipts, &Err(problem.clone()), cx);
        if matches!(error, Error::Unknown(_) | Error::Closed(_)) {
            cx.out.push(crate::Output::Fatal(format!("the store of {} failed: {error}", self.me)));
        }
        let (task, trace) = self.task_and_trace(id);
        // Steps are retried until there is room; log only the first failure.
        let is_full = matches!(error, Error::Full | Error::StorageFull);
        if !(is_full && std::mem::replace(&mut self.is_store_full, true)) {
            tracing::warn!(agent = %self.me, conversation = %id, task, trace, %error, "a step was not recorded");
        }
        self.roll_back(id, &problem, waiters, inside, cx);
    }

    /// Restores a conversation from the store. Callers are refused, the events `inside` are queued again.
    fn roll_back(
        &mut self,
        id: &ConversationId,
        problem: &Problem,
        waiters: Vec<(ReplyTo, Ack)>,
        inside: Vec<(EventKind, Option<EffectKey>)>,
        cx: &mut Context<'_>,
    ) {
        let joined = self.admission.joined(id);
        waiters.into_iter().chain(joined).for_each(|(reply, _)| cx.reply(reply, Err(problem.clone())));
        let (queue, task) = self.conversations.remove_failed(id);
        self.auctions.forget(id);
        let mut conversation = match self.restore(id, cx.store) {
            Ok(Some(conversation)) => conversation,
            Ok(None) => {
                self.note_change(id);
                return self.refuse(queue, problem, cx);
            }
            Err(error) => {
                self.refuse(queue, problem, cx);
                return self.park(id, task, &format!("it can't be read back: {error}"), cx);
            }
        };
        if self.has_later_claim(&conversation) {
            conversation.task = None;
        }
        // Paused, so that no event overtakes those of the failed step.
        let inside = inside.into_iter().map(|(what, closes)| QueuedEvent::from_inside(what, closes));
        conversation.pause(inside.chain(queue).collect());
        self.insert_restored(conversation);
        self.restart_lost_effects(id, cx);
        self.timers.set(AGAIN, TimerPurpose::Resume(id.clone()), cx);
    }

    /// Performs again what nobody performs any more, because the failed step had closed it: turns that do not run, and
    /// searches. Their results are not queued.
    fn restart_lost_effects(&mut self, id: &ConversationId, cx: &mut Context<'_>) {
        let running = self.turns.of(id);
        let Some(conversation) = self.conversations.get_mut(id) else { return };
        let (mut turns, mut searches) = (Vec::new(), Vec::new());
        for (key, open) in &conversation.open {
            let is_search = matches!(open.effect, Effect::FindPeers { .. });
            let is_turn = matches!(open.effect, Effect::RunTurn { .. }) && !running.contains(key);
            if conversation.queue.iter().any(|queued| queued.closes == Some(*key)) {
                continue;
            }
            if is_turn {
                turns.push(*key);
            } else if is_search && !self.peers.waits(id, *key) {
                searches.push((*key, open.effect.clone()));
            }
        }
        turns.into_iter().for_each(|key| conversation.restart_turn(key, true));
        searches.into_iter().for_each(|(key, search)| self.perform(id, key, &search, cx));
    }

    /// The task id and the trace id of an open conversation, for logs.
    fn task_and_trace(&self, id: &ConversationId) -> (Option<String>, Option<String>) {
        let conversation = self.conversations.get(id);
        let row = conversation.and_then(|open| open.task.as_ref());
        let trace = conversation.and_then(|open| open.trace.as_ref());
        (row.map(|row| row.task.spec.task_id.to_string()), trace.map(TraceContext::trace))
    }
}

#[cfg(test)]
mod tests;
