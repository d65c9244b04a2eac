//! What the work on a task may use: it is announced when most of it is used, and the task fails when all is.

use super::{Delegation, MAX_TURNS, labels::DelegationEffect};
use crate::{
    budget::Budget,
    patterns::Update,
    task::TaskState,
    usage::{BudgetVerdict, ModelUsage, TaskBounds, Usage},
};

impl Delegation {
    /// The most turns that the task may take.
    pub(super) fn max_turns(&self) -> u32 {
        self.work_limits.bounds.turns.unwrap_or(MAX_TURNS)
    }

    /// What the task may use: the bounds of the agent, and no more than its requester has given.
    pub(super) fn bounds(&self) -> TaskBounds {
        self.work_limits.bounds.within(self.ownership.spec.budget)
    }

    /// Adds what a call of a model of this agent has used.
    pub(super) fn charge_call(&mut self, call: &ModelUsage) -> Vec<DelegationEffect> {
        let mut effects = self.charge(&Usage::from(call));
        if let (Some(cost), None) = (self.bounds().cost, call.cost) {
            let (cost, model) = (cost.get(), &call.model);
            effects.extend(self.fail(format!(
                "its bound of {cost} (cost) can't be kept: the cost of {model} is unknown; give its price, or bound tokens"
            )));
        }
        effects
    }

    /// Adds to what the task has used.
    pub(super) fn charge(&mut self, usage: &Usage) -> Vec<DelegationEffect> {
        let before = *self.ownership.usage();
        let mut effects: Vec<_> = self.ownership.add_usage(usage).into_iter().collect();
        let reserved = self.pending.reserved();
        effects.extend(match self.bounds().judge(&before, self.ownership.usage(), reserved) {
            BudgetVerdict::Fine => Vec::new(),
            BudgetVerdict::NearlyUsed(figures) => {
                self.ownership.status(TaskState::Working, format!("most of its budget is used: {figures}"))
            }
            BudgetVerdict::UsedUp(figures) => self.fail(format!("its budget is used up: {figures}")),
        });
        effects
    }

    /// Charges what was reserved for agents that will not say what they have used: they are silent, or were told to stop.
    pub(super) fn charge_lost(&mut self) -> Vec<DelegationEffect> {
        match self.pending.take_lost() {
            lost if lost.is_none() => Vec::new(),
            lost => self.charge(&lost.charged_whole()),
        }
    }

    /// The same at the end of the task, whose own brain may be one that does not say what it uses.
    pub(super) fn settle_usage(&mut self) -> Vec<DelegationEffect> {
        let lost = self.pending.take_lost();
        let mut effects: Vec<_> = self.ownership.add_usage(&lost.charged_whole()).into_iter().collect();
        if self.work_limits.is_unmetered && self.turn > 0 && self.auction.is_none() {
            let unknown = match self.ownership.spec.budget {
                budget if budget.is_none() => Usage { unknown: 1, ..Usage::default() },
                budget => budget.left(self.ownership.usage(), Budget::default()).charged_whole(),
            };
            effects.extend(self.ownership.add_usage(&unknown));
        }
        effects
    }

    /// Shows what is reserved, if that is not `before`.
    pub(super) fn show_reserved(&self, before: Budget) -> Option<DelegationEffect> {
        let reserved = self.pending.reserved();
        let is_news = reserved != before && !self.ownership.has_ended();
        is_news.then_some(DelegationEffect::Update(Update::Reserved(reserved)))
    }
}
