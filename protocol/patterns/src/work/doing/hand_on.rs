//! The auction of a task whose doer's own brain has failed.

use super::{Doing, Effect, Event, TaskState, Timer};
use crate::contract_net::{Auction, ContractNet};

impl Doing {
    /// An auction on these terms follows if its own brain fails.
    #[must_use]
    pub fn with_auction(mut self, terms: Auction) -> Self {
        self.auction = Some(terms);
        self
    }

    /// The brain failed for a technical reason. Other agents may do work that is the agent's own.
    pub(super) fn brain_failed(&mut self, why: String, event: &Event) -> Vec<Effect> {
        let has_capability = self.task.ownership.spec.capability.is_some();
        let Some(auction) = self.auction.clone().filter(|_| has_capability) else { return self.fail(why) };
        let mut effects = self.stop(&why);
        let lost = self.task.pending.take_lost();
        effects.extend(self.task.ownership.add_usage(&lost.charged_whole()));
        effects.push(Effect::ClearTimer { timer: Timer::Deadline });
        effects.extend(self.task.ownership.discard_artifacts());
        let status = format!("{} could not do it: {why}", self.task.me);
        effects.extend(self.task.ownership.status(TaskState::Submitted, status));
        let terms = (auction, self.task.checks.terms().clone());
        let (me, ownership) = (self.task.me.clone(), self.task.ownership.clone());
        let auction = ContractNet::after_own_failure(me, ownership, terms, why, event.wall);
        effects.push(Effect::HandOn(Box::new(auction.into())));
        effects
    }
}
