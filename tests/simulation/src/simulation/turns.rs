//! Turns of the brains.

use super::{Simulation, event::Event};
use crate::{
    brain::{self, BrainAction},
    invariants, plan,
};
use engine::{BidQuestion, Input, TurnKey, TurnStart, records::EffectKey};
use patterns::{Effect, turn::TurnSubject};

impl Simulation {
    /// Schedules the actions of a turn, and its timeout.
    pub(super) fn start_turn(&mut self, agent: usize, life: u64, turn: TurnStart) {
        let (id, effect) = (&turn.key.conversation, turn.key.effect);
        let node = &self.nodes[agent];
        let is_turn =
            |key: &EffectKey, open: &Effect| *key == effect && matches!(open, Effect::RunTurn { .. });
        if !invariants::is_open(&node.id, &node.store.settled, id, is_turn) {
            let what = format!("{}, conversation {id}: turn {effect} begins before it is durable", node.id);
            return self.fail(what);
        }
        self.note_turn(agent, &turn.key, "begins");
        self.check_checkpoints(agent, &turn);
        let script =
            brain::script(self.settings.seed, &self.nodes[agent].id, &turn.prompt, self.nodes[agent].is_slow);
        let token = self.next_id();
        self.nodes[agent].turns.insert(turn.key.clone(), token);
        let mut at = 0;
        for (pause, action) in script {
            at += pause;
            let (key, action) = (turn.key.clone(), Box::new(action));
            self.after(at, Event::Turn { agent, life, key, token, action });
        }
        let action = Box::new(BrainAction::End(Err("it took too long".to_owned())));
        self.after(plan::MAX_TURN, Event::Turn { agent, life, key: turn.key, token, action });
    }

    /// Schedules the answer of a brain to a call for proposals.
    pub(super) fn ask_for_bid(&mut self, agent: usize, life: u64, question: &BidQuestion) {
        let (after, answer) = brain::bid(self.settings.seed, &self.nodes[agent].id, question);
        self.after(after, Event::BidAnswered { agent, life, id: question.id, answer });
    }

    /// A turn is given every acknowledged checkpoint of its task, and each once: no checkpointed work is repeated. The check
    /// of a result is given none.
    fn check_checkpoints(&mut self, agent: usize, turn: &TurnStart) {
        if let TurnSubject::Check { .. } = turn.prompt.about {
            return;
        }
        let (node, id) = (&self.nodes[agent], &turn.key.conversation);
        let acknowledged = node.checkpoints.get(id).copied().unwrap_or_default();
        let given: Vec<_> = turn.prompt.checkpoints.iter().filter_map(serde_json::Value::as_u64).collect();
        if given.len() < acknowledged || given.iter().zip(0..).any(|(given, expected)| *given != expected) {
            let what = format!("{}, conversation {id}: {acknowledged} checkpoints are acknowledged", node.id);
            self.fail(format!("{what}, and a turn is given {given:?}"));
        }
    }

    /// Checkpoints of a running turn are acknowledged.
    pub(super) fn acknowledge_checkpoints(&mut self, agent: usize, key: &TurnKey, count: usize) {
        self.note_turn(agent, key, "has a checkpoint");
        *self.nodes[agent].checkpoints.entry(key.conversation.clone()).or_default() += count;
    }

    /// A brain acts, unless its turn has ended.
    pub(super) fn advance_turn(&mut self, agent: usize, key: TurnKey, token: u64, action: BrainAction) {
        if self.nodes[agent].turns.get(&key) != Some(&token) {
            return;
        }
        match action {
            BrainAction::Report(updates) => self.handle(agent, Input::TurnProgress(key, updates)),
            BrainAction::End(end) => {
                self.note_turn(agent, &key, "ends");
                self.nodes[agent].turns.remove(&key);
                self.handle(agent, Input::TurnEnded(key, Vec::new(), end));
            }
        }
    }

    pub(super) fn note_turn(&mut self, agent: usize, key: &TurnKey, what: &str) {
        let id = self.nodes[agent].id.clone();
        self.note(|| format!("{id} turn {}/{} {what}", key.conversation, key.effect));
    }
}
