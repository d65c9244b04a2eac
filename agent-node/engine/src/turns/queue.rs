//! The turns of the brain that run, and those that wait.

use crate::{Output, TurnKey, TurnStart, context::Context, records::EffectKey};
use protocol::ids::ConversationId;
use std::collections::{BTreeMap, VecDeque};

/// The running and the waiting turns.
pub(crate) struct Turns {
    pub(crate) limit: usize,
    /// The running turns, with the turn number of each.
    pub(crate) running: BTreeMap<TurnKey, u32>,
    pub(crate) ready: VecDeque<Box<TurnStart>>,
}

impl Turns {
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { limit, running: BTreeMap::new(), ready: VecDeque::new() }
    }

    /// The number of running and waiting turns.
    pub(crate) fn len(&self) -> usize {
        self.running.len() + self.ready.len()
    }

    pub(crate) fn of(&self, conversation: &ConversationId) -> Vec<EffectKey> {
        let ready = self.ready.iter().map(|turn| &turn.key);
        let keys = self.running.keys().chain(ready).filter(|key| key.conversation == *conversation);
        keys.map(|key| key.effect).collect()
    }

    pub(crate) fn start_ready(&mut self, cx: &mut Context<'_>) {
        while self.running.len() < self.limit
            && let Some(turn) = self.ready.pop_front()
        {
            self.running.insert(turn.key.clone(), turn.prompt.turn);
            cx.out.push(Output::StartTurn(turn));
        }
    }

    /// Stops a running turn, or removes it from the queue.
    pub(crate) fn stop(&mut self, key: &TurnKey, cx: &mut Context<'_>) {
        self.ready.retain(|turn| turn.key != *key);
        if self.running.remove(key).is_some() {
            cx.out.push(Output::StopTurn(key.clone()));
            self.start_ready(cx);
        }
    }
}
