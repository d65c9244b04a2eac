//! Commits of the agents' stores: issued, executed, settled, each after a while.

use super::{CommitSurvival, Simulation, event::Event};
use crate::{invariants, store::Operation};
use engine::Input;
use protocol::ids::ConversationId;
use store_types::{Batch, Error};

impl Simulation {
    /// An agent issues a commit; the run may have it crash here.
    pub(super) fn commit(&mut self, agent: usize, life: u64, operation: Operation) {
        self.nodes[agent].store.enqueue(operation);
        self.execute_later(agent, life);
        self.commits += 1;
        let rate = self.faults.crash_at_commit;
        match self.settings.only_crash.filter(|(at, _)| *at == self.commits) {
            Some((_, CommitSurvival::Lost)) => self.crash_at_commit(agent, 0),
            Some((_, CommitSurvival::Kept)) => {
                let all = self.nodes[agent].store.unsettled();
                self.crash_at_commit(agent, all);
            }
            None => {
                if self.chance(rate) {
                    self.crash(agent, "at a commit");
                }
            }
        }
    }

    /// The store takes the next operation after a while.
    pub(super) fn execute_later(&mut self, agent: usize, life: u64) {
        let slow = self.faults.slow_store;
        let delay = if self.chance(slow) { self.random.below(3_000) } else { self.random.below(4) };
        self.after(delay, Event::Execute { agent, life });
    }

    /// The store executes an operation or refuses it; the outcome settles later.
    pub(super) fn execute(&mut self, agent: usize, life: u64) {
        let rate = self.faults.store_refusal;
        let refusal = self.chance(rate).then(|| match self.random.below(8) {
            0..3 => (Error::Full, false),
            3..5 => (Error::StorageFull, false),
            5..7 => {
                let key = store_types::Key::new(&["a", "conflict"]);
                (Error::Conflict { key, actual: 0 }, false)
            }
            _ => (Error::Unknown("the disk did not answer".to_owned()), self.random.chance(500)),
        });
        // After an unknown outcome the process ends.
        if matches!(refusal, Some((Error::Unknown(_), _))) {
            self.after(200, Event::Crash { agent, life });
        }
        self.nodes[agent].store.execute(refusal);
        let slow = self.faults.slow_store;
        let delay = if self.chance(slow) { self.random.below(3_000) } else { self.random.below(4) };
        self.after(delay, Event::Settle { agent, life });
    }

    /// The agent learns the outcome of its oldest executed operation.
    pub(super) fn settle(&mut self, agent: usize) {
        let me = self.nodes[agent].id.clone();
        let Some((id, result, written)) = self.nodes[agent].store.settle() else { return };
        if let Some(batch) = &written {
            self.observer.record(&me, &self.nodes[agent].store.settled, batch);
            self.note_steps(agent, batch);
            self.check_ends(agent, batch);
            self.check_acceptance(agent, batch);
            self.check_chunks(agent, batch);
        }
        let rate = self.faults.crash_after_commit;
        if self.chance(rate) {
            return self.crash(agent, "after a commit");
        }
        if let Err(error) = &result {
            self.note(|| format!("{me}'s store refuses: {error}"));
        }
        self.handle(agent, Input::CommitSettled(id, result));
        self.users_react(agent, written.as_ref());
    }

    fn note_steps(&mut self, agent: usize, batch: &Batch) {
        let me = self.nodes[agent].id.clone();
        for write in batch.writes.iter().filter(|write| write.value().is_some()) {
            let tokens = write.key().tokens();
            if tokens.get(1).is_none_or(|topic| topic != "journal") {
                continue;
            }
            let Some(id) = tokens.get(2).and_then(|id| ConversationId::parse(id).ok()) else {
                continue;
            };
            let conversation = self.observer.agent(&me).conversations.get(&id);
            let Some(line) =
                conversation.and_then(|observed| observed.steps.last()).map(invariants::step_line)
            else {
                continue;
            };
            self.note(|| format!("{me} {id} {line}"));
        }
    }
}
