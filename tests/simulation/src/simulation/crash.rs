//! Crashes and drains of the agents.

use super::{Simulation, event::Event, replies::ReplyTarget};
use crate::store::SimulatedStore;
use engine::{AttemptResult, Input};
use protocol::{
    problem::{Problem, Reason},
    time::NodeTime,
};

impl Simulation {
    /// An agent crashes; a random part of its unsettled commits survives.
    pub(super) fn crash(&mut self, agent: usize, why: &str) {
        self.crashes += 1;
        let rate = self.faults.data_loss;
        let loses_data = why == "as planned" && self.chance(rate);
        let unsettled = self.nodes[agent].store.unsettled() as u64;
        let kept = usize::try_from(self.random.below(unsettled + 1)).unwrap_or(0);
        self.stop_agent(agent, why, kept, loses_data);
    }

    /// An agent crashes; the first `kept` of its unsettled commits survive.
    pub(super) fn crash_at_commit(&mut self, agent: usize, kept: usize) {
        self.crashes += 1;
        self.stop_agent(agent, "at the commit", kept, false);
    }

    /// Ends a life: open connections are reset, and the node starts again after a while.
    fn stop_agent(&mut self, agent: usize, why: &str, kept: usize, loses_data: bool) {
        let unsettled = self.nodes[agent].store.unsettled();
        let down = self.random.between(50, 8_000);
        let node = &mut self.nodes[agent];
        // The node's clock continues from the newest record, as after any restart.
        (node.agent, node.reader, node.incarnation) = (None, None, None);
        node.clock_base = 0;
        node.timers.clear();
        node.attempts.clear();
        node.failed_attempts.clear();
        node.sent.clear();
        node.turns.clear();
        let me = node.id.clone();
        let survived = node.store.crash(kept);
        for write in &survived {
            self.observer.record(&me, &self.nodes[agent].store.settled, write);
        }
        if loses_data {
            self.nodes[agent].store = SimulatedStore::default();
            self.nodes[agent].checkpoints.clear();
            self.nodes[agent].data_generation += 1;
            self.observer.forget(&me);
        }
        self.note(|| {
            format!("{me} crashes {why}; {kept} of {unsettled} commits survive; data lost: {loses_data}")
        });
        let owed = self.pending_replies.iter().filter(|(_, pending)| pending.agent == agent);
        let owed: Vec<u64> = owed.map(|(id, _)| *id).collect();
        for id in owed {
            let Some(pending) = self.pending_replies.remove(&id) else { continue };
            let reset = Problem::new(Reason::GatewayTimeout, "the connection was reset");
            match pending.target {
                ReplyTarget::Peer { from, life, attempt, .. } => {
                    let result = Box::new(AttemptResult::Failed(reset));
                    self.after(3, Event::Attempted { agent: from, life, attempt, result });
                }
                ReplyTarget::User { request } => self.on_user_reply(agent, request, Err(reset)),
                ReplyTarget::Owner { .. } | ReplyTarget::BoardReader { .. } | ReplyTarget::None => {}
            }
        }
        self.after(down, Event::Start { agent });
    }

    /// An agent leaves: it drains, hands back its work, deregisters and stops.
    pub(super) fn drain(&mut self, agent: usize, life: u64, stage: u8) {
        let me = self.nodes[agent].id.clone();
        self.note(|| format!("{me} leaves, stage {stage}"));
        match stage {
            0 => {
                self.handle(agent, Input::Drain);
                self.after(1_500, Event::Drain { agent, life, stage: 1 });
            }
            1 => {
                self.handle(agent, Input::HandBack);
                self.after(2_000, Event::Drain { agent, life, stage: 2 });
            }
            _ => {
                if let Some(incarnation) = self.nodes[agent].incarnation
                    && self.registry_is_up
                {
                    self.registry.leave(&me, incarnation, NodeTime(self.now));
                }
                self.crash(agent, "to leave");
            }
        }
    }
}
