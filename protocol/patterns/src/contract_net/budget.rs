//! What the doers of a task may use: each is given what is left, and one that falls silent is charged all of it.

use super::{ActiveAward, AuctionStage, ContractNet, Effect};
use crate::Update;
use protocol::{
    budget::Budget,
    usage::{BudgetVerdict, TaskBounds, UnkeptCost, Usage},
};

impl ContractNet {
    /// What is left of the task's budget.
    pub(super) fn budget_left(&self) -> Budget {
        self.ownership.spec.budget.left(self.ownership.usage(), Budget::default())
    }

    /// Charges the doer under `award`, which will not say what it has used.
    pub(super) fn charge_silent(&mut self, award: &ActiveAward) -> Option<Effect> {
        let used = match &award.result {
            Some(response) => response.usage,
            None => self.budget_left().charged_whole(),
        };
        self.ownership.add_usage(&used)
    }

    /// Why the task can't be awarded again after it has failed for `reason`, if its budget is used up or can't be kept.
    pub(super) fn why_budget_ends_it(&self, reason: &str) -> Option<String> {
        let (budget, used, none) = (self.ownership.spec.budget, self.ownership.usage(), Budget::default());
        match TaskBounds::default().judge(budget, &Usage::default(), used, none) {
            BudgetVerdict::UsedUp(figures) => Some(format!("{figures}; {reason}")),
            BudgetVerdict::Fine | BudgetVerdict::NearlyUsed(_) => {
                self.unkept_cost(used).map(|unkept| unkept.because(reason))
            }
        }
    }

    /// The budget of cost, if it can't be kept because the cost of a part of `used` is unknown.
    pub(super) fn unkept_cost(&self, used: &Usage) -> Option<UnkeptCost> {
        TaskBounds::default().unkept_cost(self.ownership.spec.budget, used)
    }

    /// What the doer or the reviewer may use.
    pub(super) fn reserved(&self) -> Budget {
        match &self.stage {
            AuctionStage::Awarded(_) | AuctionStage::Checking(_) => self.budget_left(),
            _ if self.lapsed.is_some() => self.budget_left(),
            _ => Budget::default(),
        }
    }

    /// Shows what is reserved, if that is not `before`.
    pub(super) fn show_reserved(&self, before: Budget) -> Option<Effect> {
        let reserved = self.reserved();
        (reserved != before).then_some(Effect::Update(Update::Reserved(reserved)))
    }
}
