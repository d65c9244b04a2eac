//! Turns of the brain: at most `maxParallel` at a time, the others wait in order.

pub(crate) mod queue;

use crate::{TurnKey, TurnStart, agent::Agent, context::Context, records::EffectKey};
use protocol::{
    ids::{ConversationId, EffectId},
    patterns::{
        AnyPattern, EventKind,
        turn::{Progress, Prompt, TurnEnd},
    },
    time::WallTime,
    trace::SpanName,
};

impl Agent {
    /// Queues a turn; it starts as soon as fewer than `maxParallel` run.
    pub(crate) fn run_turn(
        &mut self,
        id: &ConversationId,
        effect: EffectKey,
        prompt: &Prompt,
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
            prompt: prompt.clone(),
            deadline,
            trace,
            has_runner_up: pattern.is_some_and(AnyPattern::has_runner_up),
        };
        self.turns.ready.push_back(Box::new(turn));
        self.turns.start_ready(cx);
    }

    pub(crate) fn turn_progress(&mut self, key: &TurnKey, updates: Vec<Progress>) {
        if let Some(&turn) = self.turns.running.get(key) {
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
        let Some(turn) = self.turns.running.remove(key) else { return };
        self.turns.start_ready(cx);
        let what = end_of_turn(turn, updates, end, self.config.is_direct);
        self.queue_event(&key.conversation, Some(key.effect), what);
    }

    /// Whether a turn that takes no time may be answered now, before no turn that waits.
    pub(crate) fn has_free_turn(&self) -> bool {
        self.turns.ready.is_empty() && self.turns.running.len() < self.turns.limit
    }
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
