//! One step decided: the rule runs over everything that waits, and what follows from it becomes one batch.

use crate::{
    Ack, ReplyTo, content,
    conversation::{Conversation, HandledEvent, QueuedEvent},
    records::{EffectKey, SealedReceipt, keys},
};
use protocol::{
    ids::{AgentId, TaskId},
    patterns::{AnyPattern, Effect, Event, EventKind, contract_net::track_record::TrackRecord},
    time::{NodeTime, WallTime},
};
use std::collections::{BTreeMap, BTreeSet};
use store_types::{Batch, Error, Key, Revision, Write};

/// A decided step on its way to the store.
#[derive(Default)]
pub(crate) struct DecidedStep {
    /// Which step it is.
    pub step: u64,
    /// What is to be written.
    pub batch: Batch,
    /// What to perform once it is.
    pub effects: Vec<(EffectKey, Effect)>,
    /// Whom to tell.
    pub waiters: Vec<(ReplyTo, Ack)>,
    /// Where the claims stand in the batch, with the effects that wrote them.
    pub claims: Vec<(usize, EffectKey, AgentId)>,
    /// Receipts the batch holds, with the task each is about.
    pub receipts: Vec<(Key, Option<TaskId>)>,
    /// Events to hand in again if the commit fails: nobody outside will repeat them.
    pub inside: Vec<(EventKind, Option<EffectKey>)>,
    /// How far the board has been followed with it.
    pub cursor: Option<Revision>,
    /// The track records that changed.
    pub track_records: Vec<(AgentId, TrackRecord)>,
    /// Effects that were dropped by the step: their timers and thoughts end.
    pub dropped: Vec<EffectKey>,
}

/// What came of looking at the queue.
pub(crate) enum AdvanceResult {
    /// Nothing to record.
    Nothing,
    /// Something that may wait for the next commit.
    Deferred(Vec<(ReplyTo, Ack)>),
    /// A step to commit.
    Commit(Box<DecidedStep>),
    /// The rule panicked, or a record can't be written. What is in memory is not true any more.
    Failed(StepFailed),
}

/// What is left of a step whose rule panicked, or that can't be written.
pub(crate) struct StepFailed {
    /// What the rule said when it panicked, or why it can't be written.
    pub why: String,
    /// Whoever waits for the step.
    pub waiters: Vec<(ReplyTo, Ack)>,
    /// Receipts that were not written.
    pub receipts: Vec<Key>,
    /// What happened inside, without the event that the rule could not take.
    pub inside: Vec<(EventKind, Option<EffectKey>)>,
}

/// The clocks at which an event is recorded, and what is known of the peers then.
#[derive(Clone, Copy)]
pub(crate) struct StepContext<'a> {
    /// Whose conversation it is.
    pub me: &'a AgentId,
    /// The node's clock.
    pub at: NodeTime,
    /// The wall clock.
    pub wall: WallTime,
    /// How peers kept their word.
    pub records: &'a BTreeMap<AgentId, TrackRecord>,
}

/// The most events that are kept in memory for a later step.
const MOST_DEFERRED: usize = 1_024;

impl Conversation {
    /// Runs the rule over everything that waits, and makes one step of it. While a step is being written, events wait.
    /// `force` commits even what could be deferred.
    pub(crate) fn advance(&mut self, now: StepContext<'_>, force: bool) -> AdvanceResult {
        let has_work = !self.queue.is_empty() || force && self.has_uncommitted();
        if self.is_committing || !has_work {
            return AdvanceResult::Nothing;
        }
        let mut decided =
            DecidedStep { inside: std::mem::take(&mut self.deferred), ..DecidedStep::default() };
        let (mut effects, mut may_wait) = (Vec::new(), true);
        while let Some(queued) = self.queue.pop_front() {
            may_wait &= queued.may_be_forgotten();
            if let Err(fault) = self.take(now, queued, &mut effects, &mut decided) {
                return self.fail(fault, decided);
            }
        }
        if may_wait && !force && effects.is_empty() && self.uncommitted.len() < MOST_DEFERRED {
            self.deferred = decided.inside;
            return AdvanceResult::Deferred(decided.waiters);
        }
        match self.seal(now.me, effects, &mut decided) {
            Ok(()) => AdvanceResult::Commit(Box::new(decided)),
            Err(error) => self.fail(error.into(), decided),
        }
    }

    fn fail(&mut self, fault: StepError, mut decided: DecidedStep) -> AdvanceResult {
        let why = match fault {
            StepError::Panicked(why) => why,
            StepError::Unwritten(why) => {
                // Any of them may be what can't be written: it must not come back for ever. What became of an effect is
                // short, and an effect that never hears of it stays open.
                decided.inside.retain(|(what, _)| is_short_result(what));
                why
            }
        };
        AdvanceResult::Failed(failed(why, decided, self.queue.drain(..)))
    }

    /// Takes one event into the step. An error says why what is in memory is not true any more.
    fn take(
        &mut self,
        now: StepContext<'_>,
        queued: QueuedEvent,
        effects: &mut Vec<Effect>,
        decided: &mut DecidedStep,
    ) -> Result<(), StepError> {
        let StepContext { me, at, wall, .. } = now;
        let is_inside = queued.receipt.is_none() && queued.waiters.is_empty();
        // Whatever goes wrong from here on: whoever waits is told.
        decided.waiters.extend(queued.waiters);
        if let Some(SealedReceipt { key, task_id, bytes }) = queued.receipt {
            decided.receipts.push((key.clone(), task_id));
            decided.batch.writes.push(Write::Put(key, bytes));
        }
        if let Some(effect) = queued.closes
            && let Some(closed) = self.open.remove(&effect)
            && let EventKind::Undelivered { reason, message, .. } = &queued.what
        {
            self.move_to_dead_letters(
                me,
                &closed,
                effect,
                (reason, message),
                wall,
                &mut decided.batch.writes,
            )?;
        }
        if let Some(cursor) = queued.cursor {
            let bytes = content::encode(me, &cursor, &mut Vec::new(), &mut BTreeSet::new())?;
            decided.batch.writes.push(Write::Put(keys::cursor(me), bytes));
            decided.cursor = Some(cursor);
        }
        if matches!(queued.what, EventKind::Draining { .. }) {
            self.excuse_attempts();
        }
        let event = Event { at, wall, what: queued.what };
        if let (Some(row), EventKind::Answered { message: Some(said), .. }) = (&mut self.task, &event.what) {
            row.task.hear(said.as_ref().clone());
        }
        let follow = rule(&mut self.pattern, &event).map_err(StepError::Panicked)?;
        if is_inside {
            decided.inside.push((event.what.clone(), queued.closes));
        }
        self.uncommitted.push(HandledEvent { event, closes: queued.closes });
        for effect in follow {
            let key = EffectKey(self.step + 1, u32::try_from(effects.len()).unwrap_or(u32::MAX));
            self.note(now, &effect, key, decided)?;
            effects.push(effect);
        }
        Ok(())
    }

    /// Makes one batch of what has been taken in.
    fn seal(&mut self, me: &AgentId, effects: Vec<Effect>, decided: &mut DecidedStep) -> Result<(), Error> {
        for key in std::mem::take(&mut self.again) {
            decided.effects.extend(self.open.get(&key).map(|open| (key, open.effect.clone())));
        }
        let step = self.step + 1;
        self.record(me, step, effects, decided)?;
        (self.step, decided.step) = (step, step);
        self.is_committing = true;
        Ok(())
    }
}

/// Whether it says what became of an effect, in a few words.
fn is_short_result(what: &EventKind) -> bool {
    match what {
        EventKind::Claimed { .. }
        | EventKind::ClaimLost { .. }
        | EventKind::ClaimExpired { .. }
        | EventKind::ClaimEnded { .. }
        | EventKind::Delivered { .. }
        | EventKind::Undelivered { .. }
        | EventKind::Published { .. }
        | EventKind::PublishRefused { .. } => true,
        EventKind::Started
        | EventKind::MessageReceived { .. }
        | EventKind::TurnProgress { .. }
        | EventKind::TurnEnded { .. }
        | EventKind::TurnFailed { .. }
        | EventKind::TimerFired { .. }
        | EventKind::PeersFound { .. }
        | EventKind::Answered { .. }
        | EventKind::Cancelled { .. }
        | EventKind::Draining { .. } => false,
    }
}

/// Why a step came to nothing.
enum StepError {
    Panicked(String),
    Unwritten(String),
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self::Unwritten(error.to_string())
    }
}

/// Runs the rule; a panic in it ends the step, not the agent.
fn rule(pattern: &mut AnyPattern, event: &Event) -> Result<Vec<Effect>, String> {
    let run = || {
        #[cfg(feature = "planted-faults")]
        crate::faults::panic_if_asked(event);
        pattern.on(event)
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

fn failed(why: String, decided: DecidedStep, rest: impl Iterator<Item = QueuedEvent>) -> StepFailed {
    let mut left = StepFailed {
        why,
        waiters: decided.waiters,
        receipts: decided.receipts.into_iter().map(|(key, _)| key).collect(),
        inside: decided.inside,
    };
    for queued in rest {
        left.receipts.extend(queued.receipt.as_ref().map(|receipt| receipt.key.clone()));
        if queued.receipt.is_none() && queued.waiters.is_empty() {
            left.inside.push((queued.what, queued.closes));
        }
        left.waiters.extend(queued.waiters);
    }
    left
}
