//! What the doers of a task may use: each is given what is left, and one that falls silent is charged all of it.

use super::{ActiveAward, AuctionStage, ContractNet, ContractNetEffect};
use crate::{
    budget::Budget,
    patterns::Update,
    usage::{BudgetVerdict, TaskBounds, Usage},
};

impl ContractNet {
    /// What is left of the task's budget.
    pub(super) fn budget_left(&self) -> Budget {
        self.ownership.spec.budget.left(self.ownership.usage(), Budget::default())
    }

    /// Charges the doer under `award`, which will not say what it has used.
    pub(super) fn charge_silent(&mut self, award: &ActiveAward) -> Option<ContractNetEffect> {
        let used = match &award.result {
            Some(response) => response.usage,
            None => self.budget_left().charged_whole(),
        };
        self.ownership.add_usage(&used)
    }

    /// Why the task can't be awarded again, if its budget is used up or can't be kept.
    pub(super) fn why_budget_is_used_up(&self) -> Option<String> {
        let (budget, used, none) = (self.ownership.spec.budget, self.ownership.usage(), Budget::default());
        match TaskBounds::default().judge(budget, &Usage::default(), used, none) {
            BudgetVerdict::UsedUp(figures) => Some(figures),
            BudgetVerdict::Fine | BudgetVerdict::NearlyUsed(_) => self.unknown_cost(used, "the work on it"),
        }
    }

    /// Why the budget of cost can't be kept, if the cost of a part of `used` is unknown. `what` has used it.
    pub(super) fn unknown_cost(&self, used: &Usage, what: &str) -> Option<String> {
        TaskBounds::default().unknown_cost(self.ownership.spec.budget, used, what)
    }

    /// What the doer or the reviewer may use.
    pub(super) fn reserved(&self) -> Budget {
        match &self.stage {
            AuctionStage::Awarded(_) | AuctionStage::Checking(_) => self.budget_left(),
            AuctionStage::Opening
            | AuctionStage::Bidding { .. }
            | AuctionStage::Between { .. }
            | AuctionStage::Searching
            | AuctionStage::Queued { .. }
            | AuctionStage::Claiming { .. }
            | AuctionStage::Over => Budget::default(),
        }
    }

    /// Shows what is reserved, if that is not `before`.
    pub(super) fn show_reserved(&self, before: Budget) -> Option<ContractNetEffect> {
        let reserved = self.reserved();
        (reserved != before).then_some(ContractNetEffect::Update(Update::Reserved(reserved)))
    }
}
