//! Turns of the brain, and the conversations that ask for them.

use crate::{TurnKey, TurnStart, agent::Agent, context::Context, records::EffectKey};
use patterns::{
    EventKind, WorkPhase,
    session::host_work::HOST_WORK,
    turn::{Progress, Prompt, TurnEnd},
};
use protocol::{
    ids::{ConversationId, EffectId},
    task::TaskState,
    time::WallTime,
    trace::SpanName,
};

impl Agent {
    /// Queues a turn; it starts as soon as fewer than `maxParallel` run.
    pub(super) fn run_turn(
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
            return self.turns.start_beside(turn, cx);
        }
        let principal = conversation.and_then(|conversation| conversation.principal.clone());
        let contact = conversation.and_then(|open| open.task.as_ref()?.task.spec.contact.as_ref());
        let is_addressed = contact.is_some_and(|contact| contact.is_addressed);
        self.turns.add(principal, is_addressed, turn);
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
    pub(super) fn start_turns(&mut self, cx: &mut Context<'_>) {
        for (id, turn) in self.turns.start_ready(cx) {
            let row = self.conversations.get(&id).and_then(|conversation| conversation.task.as_ref());
            if row.is_some_and(|row| row.task.status.state == TaskState::Submitted) {
                self.events.push(&id, None, EventKind::TurnStarted { turn });
            }
        }
    }

    pub(super) fn turn_progress(&mut self, key: &TurnKey, updates: Vec<Progress>, cx: &mut Context<'_>) {
        let Some((closes, what)) = self.turns.report(key, updates, cx) else { return };
        if closes.is_some() {
            self.start_turns(cx);
        }
        self.events.push(&key.conversation, closes, what);
    }

    pub(super) fn turn_ended(
        &mut self,
        key: &TurnKey,
        updates: Vec<Progress>,
        end: Result<TurnEnd, String>,
        cx: &mut Context<'_>,
    ) {
        let Some(what) = self.turns.end(key, updates, end, cx.world.now()) else { return };
        self.start_turns(cx);
        self.events.push(&key.conversation, Some(key.effect), what);
    }

    /// Whether a turn of a conversation that takes no time may be answered now: it has a place, and is before no turn that
    /// waits.
    pub(super) fn has_free_turn(&self, id: &ConversationId) -> bool {
        let own = u32::from(self.conversations.phase(id) == Some(WorkPhase::Active));
        self.turns.would_start() && self.taken_places().saturating_sub(own) < self.max_parallel()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod waiting_tests;
