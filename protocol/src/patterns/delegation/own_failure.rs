//! The auction of a task whose doer's own brain has failed.

use super::{
    Delegation, DelegationLabel, DelegationTimer,
    labels::{DelegationEffect, DelegationEvent},
};
use crate::{
    patterns::{
        Effect, EventKind, Pattern as _,
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
    pub(super) fn brain_failed(&mut self, why: String, event: &DelegationEvent) -> Vec<DelegationEffect> {
        if !self.may_auction || self.ownership.spec.capability.is_none() {
            return self.fail(why);
        }
        let mut effects = self.stop(&why);
        effects.extend(self.ownership.add_usage(&self.pending.take_lost().charged_whole()));
        effects.push(DelegationEffect::ClearTimer { timer: DelegationTimer::Deadline });
        effects.extend(self.ownership.discard_artifacts());
        let status = format!("{} could not do it: {why}", self.me);
        effects.extend(self.ownership.status(TaskState::Submitted, status));
        let terms = (self.auction_terms.clone(), self.checks.terms().clone());
        let ownership = self.ownership.clone();
        let auction = ContractNet::after_own_failure(self.me.clone(), ownership, terms, why, event.wall);
        self.auction = Some(Box::new(auction));
        let started = DelegationEvent { what: EventKind::Started, ..event.clone() };
        effects.extend(self.run_auction(&started).unwrap_or_default());
        effects
    }

    /// The effects of the auction on `event`; `None` if there is no auction.
    pub(super) fn run_auction(&mut self, event: &DelegationEvent) -> Option<Vec<DelegationEffect>> {
        let auction = self.auction.as_mut()?;
        let label = |label: &DelegationLabel| {
            if let DelegationLabel::Auction(label) = label { Some(*label) } else { None }
        };
        let timer = |timer: &DelegationTimer| {
            if let DelegationTimer::Auction(timer) = timer { Some(*timer) } else { None }
        };
        let event = event.try_map(label, timer);
        let effects = event.map(|event| auction.on(&event)).unwrap_or_default();
        let effect = |effect: Effect<_, _>| effect.map(DelegationLabel::Auction, DelegationTimer::Auction);
        Some(effects.into_iter().map(effect).collect())
    }
}
