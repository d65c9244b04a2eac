//! The auction of a task whose doer's own brain has failed.

use super::{Delegation, Effect, Event, EventKind, Label, Timer};
use crate::{
    patterns::{
        Pattern as _,
        contract_net::{Auction, ContractNet},
    },
    task::TaskState,
};

impl Delegation {
    /// An auction on these terms follows if its own brain fails.
    #[must_use]
    pub fn with_auction(mut self, terms: Auction) -> Self {
        (self.may_auction, self.auction_terms) = (true, terms);
        self
    }

    /// The brain failed for a technical reason. Other agents may do work that is the agent's own.
    pub(super) fn brain_failed(&mut self, why: String, event: &Event) -> Vec<Effect> {
        if !self.may_auction || self.ownership.spec.capability.is_none() {
            return self.fail(why);
        }
        let mut effects = self.stop(&why);
        effects.extend(self.ownership.add_usage(&self.pending.take_lost().charged_whole()));
        effects.push(Effect::ClearTimer { timer: Timer::Deadline });
        effects.extend(self.ownership.discard_artifacts());
        let status = format!("{} could not do it: {why}", self.me);
        effects.extend(self.ownership.status(TaskState::Submitted, status));
        let terms = (self.auction_terms.clone(), self.checks.terms().clone());
        let ownership = self.ownership.clone();
        let auction = ContractNet::after_own_failure(self.me.clone(), ownership, terms, why, event.wall);
        self.auction = Some(Box::new(auction));
        let started = Event { what: EventKind::Started, at: event.at, wall: event.wall };
        effects.extend(self.run_auction(&started).unwrap_or_default());
        effects
    }

    /// The effects of the auction on `event`; `None` if there is no auction.
    pub(super) fn run_auction(&mut self, event: &Event) -> Option<Vec<Effect>> {
        let is_of_earlier_work =
            matches!(&event.what, EventKind::MessageReceived { answers: Some(Label::Request(_)), .. });
        let auction = self.auction.as_mut()?;
        Some(if is_of_earlier_work { Vec::new() } else { auction.on(event) })
    }
}
