//! What the work on a task may use: it is announced when most of it is used, and the task fails when all is.

use super::{Delegation, MAX_TURNS, labels::DelegationEffect};
use crate::{
    task::TaskState,
    usage::{BudgetVerdict, ModelUsage, Usage},
};

impl Delegation {
    /// The most turns that the task may take.
    pub(super) fn max_turns(&self) -> u32 {
        self.work_limits.bounds.turns.unwrap_or(MAX_TURNS)
    }

    /// Adds what a call of a model of this agent has used.
    pub(super) fn charge_call(&mut self, call: &ModelUsage) -> Vec<DelegationEffect> {
        let mut effects = self.charge(&Usage::from(call));
        if let (Some(cost), None) = (self.work_limits.bounds.cost, call.cost) {
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
        if self.session.is_some() {
            // A session has a budget of its own, and ends with a record of what there is.
            return effects;
        }
        effects.extend(match self.work_limits.bounds.judge(&before, self.ownership.usage()) {
            BudgetVerdict::Fine => Vec::new(),
            BudgetVerdict::NearlyUsed(figures) => {
                self.ownership.status(TaskState::Working, format!("most of its budget is used: {figures}"))
            }
            BudgetVerdict::UsedUp(figures) => self.fail(format!("its budget is used up: {figures}")),
        });
        effects
    }
}
