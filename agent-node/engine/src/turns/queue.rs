//! The turns of the brain that run, and those that wait.

use crate::{Output, TurnKey, TurnStart, context::Context, records::EffectKey};
use protocol::ids::ConversationId;
use std::collections::{BTreeMap, VecDeque};

/// Which turns run, and which wait for a place.
pub(crate) struct Turns {
    pub(crate) places: usize,
    /// The number of each turn that runs.
    pub(crate) running: BTreeMap<TurnKey, u32>,
    pub(crate) ready: VecDeque<Box<TurnStart>>,
}

impl Turns {
    pub(crate) fn with_places(places: usize) -> Self {
        Self { places, running: BTreeMap::new(), ready: VecDeque::new() }
    }

    /// How many run or wait for a place.
    pub(crate) fn len(&self) -> usize {
        self.running.len() + self.ready.len()
    }

    pub(crate) fn of(&self, conversation: &ConversationId) -> Vec<EffectKey> {
        let ready = self.ready.iter().map(|turn| &turn.key);
        let keys = self.running.keys().chain(ready).filter(|key| key.conversation == *conversation);
        keys.map(|key| key.effect).collect()
    }

    pub(crate) fn start_ready(&mut self, cx: &mut Context<'_>) {
        while self.running.len() < self.places
            && let Some(turn) = self.ready.pop_front()
        {
            self.running.insert(turn.key.clone(), turn.prompt.turn);
            cx.out.push(Output::StartTurn(turn));
        }
    }

    /// Stops a turn, or takes it off the queue.
    pub(crate) fn stop(&mut self, key: &TurnKey, cx: &mut Context<'_>) {
        self.ready.retain(|turn| turn.key != *key);
        if self.running.remove(key).is_some() {
            cx.out.push(Output::StopTurn(key.clone()));
            self.start_ready(cx);
        }
    }
}
