//! Turns of the brain: at most `maxParallel` at a time. The others wait in order, the principals by turns.

pub(crate) mod queue;

use crate::{
    Output, TurnKey, TurnStart,
    agent::Agent,
    context::Context,
    faults::{self, PlantedFault},
    records::EffectKey,
};
use protocol::{
    ids::{ConversationId, EffectId},
    patterns::{
        EventKind, WorkPhase,
        session::host_work::HOST_WORK,
        turn::{Progress, Prompt, TurnEnd},
    },
    task::TaskState,
    time::WallTime,
    trace::SpanName,
};
use queue::RunningTurn;

impl Agent {
    /// Queues a turn; it starts as soon as fewer than `maxParallel` run.
    pub(crate) fn run_turn(
        &mut self,
        id: &ConversationId,
        effect: EffectKey,
        prompt: Prompt,
        deadline: Option<WallTime>,
        cx: &mut Context<'_>,
    ) {
        let key =
            EffectId { agent: self.me.clone(), conversation: id.clone(), step: effect.0, index: effect.1 };
        let conversation = self.conversations.get(id);
        let trace = conversation.and_then(|conversation| conversation.trace.as_ref());
        let trace = trace.map(|trace| trace.below(SpanName::Effect(&key.to_string()).id()));
        let pattern = conversation.map(|conversation| &conversation.pattern);
        let turn = TurnStart {
            key: TurnKey { conversation: id.clone(), effect },
            prompt,
            deadline,
            trace,
            has_runner_up: pattern.is_some_and(|pattern| pattern.view().has_runner_up),
        };
        if self.is_host_work(&turn.prompt) {
            return self.turns.start_beside(Box::new(turn), cx);
        }
        let principal = conversation.and_then(|conversation| conversation.principal.clone());
        let contact = conversation.and_then(|open| open.task.as_ref()?.task.spec.contact.as_ref());
        let is_addressed = contact.is_some_and(|contact| contact.is_addressed);
        self.turns.ready.push(principal, is_addressed, Box::new(turn));
        self.start_turns(cx);
    }

    /// Whether a turn is that of a session which this agent hosts: it waits for agents elsewhere, and its brain has no part in it.
    fn is_host_work(&self, prompt: &Prompt) -> bool {
        let Some(capability) = prompt.about.task().and_then(|task| task.capability.as_ref()) else {
            return false;
        };
        capability.as_str() == HOST_WORK && self.config.card.support(capability) == 0.0
    }

    /// Starts ready turns while fewer than `maxParallel` run. A task that was shown as queued is told.
    pub(crate) fn start_turns(&mut self, cx: &mut Context<'_>) {
        for (id, turn) in self.turns.start_ready(cx) {
            let row = self.conversations.get(&id).and_then(|conversation| conversation.task.as_ref());
            if row.is_some_and(|row| row.task.status.state == TaskState::Submitted) {
                self.queue_event(&id, None, EventKind::TurnStarted { turn });
            }
        }
    }

    /// Records what a turn reports. A signal that is too large stops and fails the turn.
    pub(crate) fn turn_progress(&mut self, key: &TurnKey, updates: Vec<Progress>, cx: &mut Context<'_>) {
        let Some(running) = self.turns.running.get_mut(key) else { return };
        let turn = running.turn;
        let (requests, updates): (_, Vec<_>) =
            updates.into_iter().partition(|update| update.waits() == Some(true));
        running.requests.extend::<Vec<_>>(requests);
        if updates.is_empty() {
            return;
        }
        if let Some(reason) = oversized_signal(&updates, self.config.limits.max_signal_bytes) {
            self.turns.stop(key, cx);
            self.start_turns(cx);
            self.queue_event(&key.conversation, Some(key.effect), EventKind::TurnFailed { turn, reason });
        } else {
            if faults::is_planted(PlantedFault::EarlyCheckpoint) {
                cx.out.push(Output::CheckpointsRecorded(key.clone(), checkpoints(&updates)));
            }
            self.queue_event(&key.conversation, None, EventKind::TurnProgress { turn, updates });
        }
    }

    pub(crate) fn turn_ended(
        &mut self,
        key: &TurnKey,
        updates: Vec<Progress>,
        end: Result<TurnEnd, String>,
        cx: &mut Context<'_>,
    ) {
        let Some(RunningTurn { turn, mut requests, .. }) = self.turns.end(key, cx.world.now()) else {
            return;
        };
        self.start_turns(cx);
        requests.extend(updates);
        let updates = requests;
        let end = oversized_signal(&updates, self.config.limits.max_signal_bytes).map_or(end, Err);
        let what = end_of_turn(turn, updates, end, self.config.is_direct);
        self.queue_event(&key.conversation, Some(key.effect), what);
    }

    /// Tells the running turn of a conversation that the checkpoints in these events are durable.
    pub(crate) fn acknowledge_checkpoints(
        &self,
        id: &ConversationId,
        recorded: &[(EventKind, Option<EffectKey>)],
        cx: &mut Context<'_>,
    ) {
        for (what, _) in recorded {
            let EventKind::TurnProgress { turn, updates } = what else { continue };
            let count = checkpoints(updates);
            let mut running = self.turns.running.iter();
            let running = running.find(|(key, running)| key.conversation == *id && running.turn == *turn);
            if let Some((key, _)) =
                running.filter(|_| count > 0 && !faults::is_planted(PlantedFault::EarlyCheckpoint))
            {
                cx.out.push(Output::CheckpointsRecorded(key.clone(), count));
            }
        }
    }

    /// Whether a turn of a conversation that takes no time may be answered now: it has a place, and is before no turn that
    /// waits.
    pub(crate) fn has_free_turn(&self, id: &ConversationId) -> bool {
        let own = u32::from(self.working.get(id) == Some(&WorkPhase::Active));
        self.turns.ready.is_empty()
            && self.turns.has_free_slot()
            && self.taken_places().saturating_sub(own) < self.max_parallel()
    }
}

fn checkpoints(updates: &[Progress]) -> usize {
    updates.iter().filter(|update| matches!(update, Progress::Checkpoint(_))).count()
}

/// The most bytes of JSON that the mesh adds to a signal of a brain: ids, the sender, the root, the time, the trace.
const SIGNAL_FRAME: usize = 640;

/// Why a turn with these updates fails: one is a signal that may have more than `most` bytes on the board.
pub fn oversized_signal(updates: &[Progress], most: usize) -> Option<String> {
    updates.iter().find_map(|update| {
        let Progress::Signal { signal, .. } = update else { return None };
        let bytes = serde_json::to_vec(update).map_or(usize::MAX, |json| json.len() + SIGNAL_FRAME);
        (bytes > most).then(|| {
            format!(
                "the signal {signal} has {bytes} bytes of JSON with what the mesh adds, the limit is {most} (maxSignalBytes); \
                 what is large goes by reference"
            )
        })
    })
}

/// The event of a turn's end. Only a `direct` agent answers with a message; elsewhere it is the result's text.
pub(crate) fn end_of_turn(
    turn: u32,
    updates: Vec<Progress>,
    end: Result<TurnEnd, String>,
    is_direct: bool,
) -> EventKind {
    match end {
        Ok(TurnEnd::Message { text }) if !is_direct => {
            EventKind::TurnEnded { turn, updates, end: TurnEnd::Done { message: Some(text) } }
        }
        Ok(end) => EventKind::TurnEnded { turn, updates, end },
        Err(reason) => EventKind::TurnFailed { turn, reason },
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
