//! Decides one step: the pattern handles all queued events, and the results become one batch.

use crate::{
    Ack, ReplyTo, World, board_cursor, catch_panic,
    chunks::StepChunks,
    conversation::{Conversation, HandledEvent, QueuedEvent},
    records::{AnsweredQuestion, EffectKey, SealedReceipt, expense::Expense, large_bytes},
    turn_end::TurnTerms,
};
use patterns::{
    AnyPattern, Effect, Event, EventKind, RecordedTurnProgress, contract_net::track_record::TrackRecord,
};
use protocol::{
    ids::{AgentId, TaskId},
    signal::Cursor,
    time::{NodeTime, WallTime},
};
use std::collections::BTreeMap;
use store_types::{Batch, Error, Key, Snapshot};

/// A decided step on its way to the store.
#[derive(Default)]
pub(crate) struct DecidedStep {
    /// Which step it is.
    pub step: u64,
    pub batch: Batch,
    /// The effects to perform after the commit.
    pub effects: Vec<(EffectKey, Effect)>,
    /// The callers to answer after the commit.
    pub waiters: Vec<(ReplyTo, Ack)>,
    /// The claims: index of the write in the batch, effect, holder.
    pub claims: Vec<(usize, EffectKey, AgentId)>,
    /// The keys of the receipts in the batch, with the task of each.
    pub receipts: Vec<(Key, Option<TaskId>)>,
    /// Events that the agent produced itself; they are queued again if the commit fails.
    pub inside: Vec<(EventKind, Option<EffectKey>)>,
    /// The board cursor in the batch.
    pub cursor: Option<Cursor>,
    /// The track records that changed.
    pub track_records: Vec<(AgentId, TrackRecord)>,
    /// The chunks of artifacts in it.
    pub chunks: StepChunks,
    /// What it uses.
    pub spent: Option<Box<Expense>>,
    /// Effects that the step dropped; their timers and turns are stopped.
    pub dropped: Vec<EffectKey>,
}

/// The result of `Conversation::advance`.
pub(crate) enum AdvanceResult {
    /// Nothing is queued, a commit is running, or the conversation is paused.
    Nothing,
    /// The events may wait for the next commit; the callers are answered now.
    Deferred(Vec<(ReplyTo, Ack)>),
    /// A step to commit.
    Commit(Box<DecidedStep>),
    /// The pattern panicked, or a record can't be written. The state in memory is invalid.
    Failed(Box<StepFailed>),
}

/// A step whose pattern panicked, or that can't be written.
pub(crate) struct StepFailed {
    /// The panic message, or the write error.
    pub why: String,
    /// The callers that wait for the step.
    pub waiters: Vec<(ReplyTo, Ack)>,
    /// The keys of the receipts that were not written.
    pub receipts: Vec<Key>,
    /// The board cursor that was not written.
    pub cursor: Option<Cursor>,
    /// Events that the agent produced itself, before the one that failed.
    pub inside: Vec<(EventKind, Option<EffectKey>)>,
    /// The event that failed, if it is the short result of an effect: without it the effect stays open.
    pub failed: Option<(EventKind, Option<EffectKey>)>,
    /// Events that the agent produced itself, after the one that failed.
    pub rest: Vec<(EventKind, Option<EffectKey>)>,
}

/// The agent, the time and the peers' track records when a step is decided.
#[derive(Clone, Copy)]
pub(crate) struct StepContext<'a> {
    pub me: &'a AgentId,
    pub world: &'a dyn World,
    pub at: NodeTime,
    pub wall: WallTime,
    /// The peers' track records.
    pub records: &'a BTreeMap<AgentId, TrackRecord>,
    pub store: &'a dyn Snapshot,
    /// Whether a quota counts tasks.
    pub counts_tasks: bool,
    /// What a turn may say that takes no time, if the brain has a turn free.
    pub brain: Option<TurnTerms>,
}

/// The most events that are kept in memory for a later step.
const MOST_DEFERRED: usize = 1_024;

impl Conversation {
    /// Decides one step from all queued events. While a step is being committed or the conversation is paused, events wait.
    /// `force` commits events that could be deferred, too.
    pub(crate) fn advance(&mut self, now: StepContext<'_>, force: bool) -> AdvanceResult {
        let has_work = !self.queue.is_empty() || force && self.has_uncommitted();
        if self.is_committing() || !has_work {
            return AdvanceResult::Nothing;
        }
        let mut decided =
            DecidedStep { inside: std::mem::take(&mut self.deferred), ..DecidedStep::default() };
        let (mut effects, mut may_wait) = (Vec::new(), true);
        while let Some(queued) = self.queue.pop_front() {
            // It is refused when this step is durable.
            if self.why_fenced(&queued).is_some() {
                self.queue.push_front(queued);
                break;
            }
            may_wait &= queued.may_be_forgotten();
            if let Err(fault) = self.take(now, queued, &mut effects, &mut decided) {
                return self.fail(fault, decided);
            }
        }
        if may_wait && !force && effects.is_empty() && self.uncommitted.len() < MOST_DEFERRED {
            self.deferred = decided.inside;
            return AdvanceResult::Deferred(decided.waiters);
        }
        match self.seal(now, effects, &mut decided) {
            Ok(()) => AdvanceResult::Commit(Box::new(decided)),
            Err(error) => self.fail(error.into(), decided),
        }
    }

    fn fail(&mut self, fault: StepError, mut decided: DecidedStep) -> AdvanceResult {
        let (why, result) = match fault {
            StepError::Panicked(why, result) => (why, result.map(|boxed| *boxed)),
            StepError::Unwritten(why) => {
                // Any of the events may be the one that can't be written, so they are not queued again. Short results of
                // effects are, because an effect without its result stays open.
                decided.inside.retain(|(what, _)| is_short_result(what));
                (why, None)
            }
        };
        let left = failed(why, decided, self.queue.drain(..));
        AdvanceResult::Failed(Box::new(StepFailed { failed: result, ..left }))
    }

    /// Handles one event. After an error the state in memory is invalid.
    fn take(
        &mut self,
        now: StepContext<'_>,
        queued: QueuedEvent,
        effects: &mut Vec<Effect>,
        decided: &mut DecidedStep,
    ) -> Result<(), StepError> {
        let StepContext { me, at, wall, .. } = now;
        let is_inside = queued.receipt.is_none() && queued.waiters.is_empty();
        if is_inside && queued.closes.is_some_and(|effect| !self.open.contains_key(&effect)) {
            return Ok(());
        }
        // Before anything can fail: the callers get an answer in any case.
        decided.waiters.extend(queued.waiters);
        if let Some(SealedReceipt { write, task_id }) = queued.receipt {
            decided.receipts.push((write.key().clone(), task_id));
            decided.batch.writes.push(write);
        }
        if let Some(effect) = queued.closes {
            // The result of an effect of this step: a turn that takes no time.
            decided.effects.retain(|(key, _)| *key != effect);
        }
        if let Some(effect) = queued.closes
            && let Some(closed) = self.open.remove(&effect)
            && let EventKind::Undelivered { reason, message, .. } = &queued.what
        {
            self.move_to_dead_letters(now, &closed, effect, (reason, message), &mut decided.batch.writes)?;
        }
        if let Some(cursor) = queued.cursor {
            decided.batch.writes.push(board_cursor::write(me, &cursor)?);
            decided.cursor = Some(cursor);
        }
        if matches!(queued.what, EventKind::Draining { .. }) {
            self.discount_turn_attempts();
        }
        let event = Event { at, wall, what: queued.what };
        if let (Some(row), EventKind::Answered { message: Some(said), .. }) = (&mut self.task, &event.what) {
            row.request_bytes = row.request_bytes.saturating_add(large_bytes(said));
            row.note_files(&said.parts);
            row.task.append_owner_message(said.as_ref().clone());
        }
        if let (Some(row), EventKind::Answered { by, question: Some(id), answer, .. }) =
            (&mut self.task, &event.what)
        {
            let (id, by, decision) = (id.clone(), by.clone(), answer.decision());
            row.note_answer(AnsweredQuestion { id, by, at: wall, decision });
        }
        let follow = match catch_panic(|| now.world.run_rule(&mut self.pattern, &event)) {
            Ok(follow) => follow,
            Err(why) => {
                let is_result = is_inside && queued.closes.is_some() && is_short_result(&event.what);
                return Err(StepError::Panicked(
                    why,
                    is_result.then(|| Box::new((event.what, queued.closes))),
                ));
            }
        };
        if is_inside {
            decided.inside.push((event.what.clone(), queued.closes));
        }
        self.uncommitted.push(HandledEvent { event, closes: queued.closes });
        for effect in follow {
            let key = EffectKey(self.step + 1, u32::try_from(effects.len()).unwrap_or(u32::MAX));
            self.apply_effect(now, &effect, key, decided)?;
            if let Some(end) = answer_at_once(now, &effect, &self.pattern) {
                self.queue.push_front(QueuedEvent::from_inside(end, Some(key)));
            }
            effects.push(effect);
        }
        Ok(())
    }

    /// Completes the batch.
    fn seal(
        &mut self,
        now: StepContext<'_>,
        effects: Vec<Effect>,
        decided: &mut DecidedStep,
    ) -> Result<(), Error> {
        for key in std::mem::take(&mut self.restarted) {
            decided.effects.extend(self.open.get(&key).map(|open| (key, open.effect.clone())));
        }
        self.record_expense(now, decided)?;
        let step = self.step + 1;
        self.record((now.me, now.at), step, effects, decided)?;
        (self.step, decided.step) = (step, step);
        self.is_committing = true;
        Ok(())
    }
}

/// The end of a turn that takes no time, if its deadline has not passed. Such a turn is not run after the commit: its end is part
/// of the step that asks, as it changes nothing and is the same again after a crash. What was produced, answered, said or noted
/// before is read after the commit, so a turn that has any of it is run then.
fn answer_at_once(now: StepContext<'_>, effect: &Effect, pattern: &AnyPattern) -> Option<EventKind> {
    let (Effect::RunTurn { prompt, deadline, input, .. }, Some(terms)) = (effect, now.brain) else {
        return None;
    };
    let RecordedTurnProgress { produced, artifacts, checkpoints, context, .. } = pattern.view().turn;
    let has_read = !(produced.is_empty()
        && artifacts.is_empty()
        && input.is_empty()
        && checkpoints.is_empty()
        && context.is_none_or(patterns::context::ContextStart::is_empty));
    if has_read || deadline.is_some_and(|deadline| deadline <= now.wall) {
        return None;
    }
    let (updates, end) = now.world.answer_at_once(prompt)?;
    Some(terms.end(prompt.turn, updates, end))
}

/// Whether it is the result of an effect and short.
fn is_short_result(what: &EventKind) -> bool {
    matches!(
        what,
        EventKind::Claimed { .. }
            | EventKind::ClaimLost { .. }
            | EventKind::ClaimExpired { .. }
            | EventKind::ClaimEnded { .. }
            | EventKind::Delivered { .. }
            | EventKind::Undelivered { .. }
            | EventKind::Published { .. }
            | EventKind::PublishRefused { .. }
            | EventKind::SpaceAnswered { .. }
    )
}

/// Why a step failed.
enum StepError {
    /// With the event, if it is the short result of an effect.
    Panicked(String, Option<Box<(EventKind, Option<EffectKey>)>>),
    Unwritten(String),
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self::Unwritten(error.to_string())
    }
}

fn failed(why: String, decided: DecidedStep, rest: impl Iterator<Item = QueuedEvent>) -> StepFailed {
    let mut left = StepFailed {
        why,
        waiters: decided.waiters,
        receipts: decided.receipts.into_iter().map(|(key, _)| key).collect(),
        cursor: decided.cursor,
        inside: decided.inside,
        failed: None,
        rest: Vec::new(),
    };
    for queued in rest {
        left.receipts.extend(queued.receipt.as_ref().map(|receipt| receipt.write.key().clone()));
        if queued.receipt.is_none() && queued.waiters.is_empty() {
            left.rest.push((queued.what, queued.closes));
        }
        left.waiters.extend(queued.waiters);
    }
    left
}
