//! A step that came to nothing: back to what the store holds.

use super::{
    AgentActor,
    admit::{Ack, store_problem},
    drive::Receipts,
    reply::Waiter,
};
use crate::conversation::{Poisoned, Queued, record::Place};
use actix::{AsyncContext, Context};
use blackboard::store::Error;
use protocol::{
    coordination::What,
    ids::ConversationId,
    principal::Principal,
    problem::{Problem, Reason},
};
use std::time::{Duration, Instant};

/// How long until a step is tried again that the store did not take.
const AGAIN: Duration = Duration::from_millis(500);

impl AgentActor {
    /// A rule panicked: the conversation goes back to what the store holds and is ended, visibly. If it can't take that
    /// either, it is parked: it stays in the store, and a restart tries again.
    pub(super) fn poisoned(&mut self, id: &ConversationId, left: Poisoned, ctx: &mut Context<Self>) {
        let Poisoned { why, waiters, receipts, mut inside } = left;
        let (task, trace) = self.known_of(id);
        tracing::error!(agent = %self.me, conversation = %id, task, trace, why, "a step came to nothing");
        self.counts.panics += 1;
        let problem = Problem::new(Reason::Internal, format!("a rule of {} failed: {why}", self.me));
        let receipts: Vec<_> = receipts.into_iter().map(|key| (key, None)).collect();
        self.answer_repeats(&receipts, &Err(problem.clone()));
        let is_ending = inside.iter().any(|(what, _)| matches!(what, What::Cancelled { .. }));
        inside.retain(|(what, _)| !matches!(what, What::Cancelled { .. }));
        if is_ending || !self.poisoned.insert(id.clone()) {
            waiters.into_iter().for_each(|(waiter, _)| waiter.send(Err(problem.clone())));
            let parked =
                self.conversations.remove(id).map(|conversation| conversation.queue).unwrap_or_default();
            self.refuse(parked, &problem);
            return self.park(id, &why, ctx);
        }
        let by = Principal::Agent(self.me.clone());
        inside.push((What::Cancelled { by, reason: format!("an internal fault ended it: {why}") }, None));
        self.go_back(id, &problem, waiters, inside, ctx);
    }

    /// Refuses messages that wait for a conversation that will not take them.
    fn refuse(&mut self, queue: impl IntoIterator<Item = Queued>, problem: &Problem) {
        for queued in queue {
            if let Some(receipt) = &queued.receipt {
                self.answer_repeats(&[(receipt.key.clone(), None)], &Err(problem.clone()));
            }
            queued.waiters.into_iter().for_each(|(waiter, _)| waiter.send(Err(problem.clone())));
        }
    }

    /// A step that the store did not take: what is in memory is not true. Messages are refused, what happened inside is
    /// handed in again, and the conversation goes on from what the store holds.
    pub(super) fn abandon(
        &mut self,
        id: &ConversationId,
        error: Error,
        (waiters, receipts): (Vec<(Waiter, Ack)>, Receipts<'_>),
        inside: Vec<(What, Option<Place>)>,
        ctx: &mut Context<Self>,
    ) {
        let (error, inside, is_known) = match self.conversations.get_mut(id) {
            Some(conversation) => conversation.failed(error, inside),
            None => (error, inside, true),
        };
        let problem = store_problem(&error);
        self.answer_repeats(receipts, &Err(problem.clone()));
        if !is_known {
            // The step upon it will not be done either; what the store holds is known then.
            return waiters.into_iter().for_each(|(waiter, _)| waiter.send(Err(problem.clone())));
        }
        if matches!(error, Error::Unknown(_) | Error::Closed(_)) {
            (self.parts.fatal)(&format!("the store of {} failed: {error}", self.me));
        }
        let (task, trace) = self.known_of(id);
        // What is tried again until there is room would fill the log as well.
        let times = match error {
            Error::Full | Error::StorageFull => self.unrecorded.failed(Instant::now()),
            Error::Conflict { .. }
            | Error::Trimmed { .. }
            | Error::Corrupt { .. }
            | Error::Unknown(_)
            | Error::Closed(_)
            | Error::Refused(_) => Some(1),
        };
        if let Some(times) = times {
            tracing::warn!(agent = %self.me, conversation = %id, task, trace, %error, times, "a step was not recorded");
        }
        self.go_back(id, &problem, waiters, inside, ctx);
    }

    /// Back to what the store holds: whoever waits is refused, what happened inside is handed in again.
    fn go_back(
        &mut self,
        id: &ConversationId,
        problem: &Problem,
        waiters: Vec<(Waiter, Ack)>,
        mut inside: Vec<(What, Option<Place>)>,
        ctx: &mut Context<Self>,
    ) {
        let joined = self.joiners.remove(id).unwrap_or_default();
        waiters.into_iter().chain(joined).for_each(|(waiter, _)| waiter.send(Err(problem.clone())));
        let (queue, ahead) =
            self.conversations.remove(id).map(|conversation| conversation.unrecorded()).unwrap_or_default();
        // What was to be the next step has been computed from one that never was.
        if let Some(Poisoned { why, waiters, receipts, inside: more }) = ahead {
            if !why.is_empty() {
                tracing::error!(agent = %self.me, conversation = %id, why, "what came next could not be taken either");
            }
            waiters.into_iter().for_each(|(waiter, _)| waiter.send(Err(problem.clone())));
            let receipts: Vec<_> = receipts.into_iter().map(|key| (key, None)).collect();
            self.answer_repeats(&receipts, &Err(problem.clone()));
            inside.extend(more);
        }
        self.tasks.retain(|_, open| open != id);
        let restored = self.restore(id).unwrap_or_else(|error| {
            tracing::error!(agent = %self.me, conversation = %id, %error, "a conversation can't be read back");
            None
        });
        let Some(conversation) = restored else {
            self.count_running(id);
            return self.refuse(queue, problem);
        };
        self.keep(id.clone(), conversation);
        let again: Vec<_> =
            inside.into_iter().map(|(what, closes)| Queued::from_inside(what, closes)).chain(queue).collect();
        let id = id.clone();
        ctx.run_later(AGAIN, move |this, ctx| {
            if let Some(conversation) = this.conversations.get_mut(&id) {
                conversation.queue.extend(again);
            }
            this.advance(&id, false, ctx);
        });
    }
}
