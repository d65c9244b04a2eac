//! What the work on a task may use: it is announced when most of it is used, and the task fails when all is.

use super::{Doing, Effect, MAX_TURNS, WorkKind};
use crate::{Update, contract_net::record::clip};
use protocol::{
    ids::AgentId,
    task::TaskState,
    usage::{BudgetVerdict, ModelUsage, UnkeptCost, Usage},
};

impl Doing {
    /// The most turns that the task may take.
    pub(super) fn max_turns(&self) -> u32 {
        self.task.limits.bounds.turns.unwrap_or(MAX_TURNS)
    }

    /// Adds what a call of a model of this agent has used. The task fails if a bound of cost can't be kept.
    pub(super) fn charge_call(&mut self, call: &ModelUsage) -> Vec<Effect> {
        let usage = Usage::from(call);
        let mut effects = self.charge(&usage);
        let of_call =
            |unkept: UnkeptCost| unkept.because(&unkept.of(&format!("{} at {}", call.model, self.task.me)));
        let unknown = self.unkept_cost(&usage).map(of_call);
        effects.extend(unknown.map(|why| self.fail(why)).unwrap_or_default());
        effects
    }

    /// The same of what `by` has used for a request. A failure says itself what has no price.
    pub(super) fn charge_request(
        &mut self,
        usage: &Usage,
        by: &AgentId,
        answer: &Result<String, String>,
    ) -> Vec<Effect> {
        let mut effects = self.charge(usage);
        let of_work = |unkept: UnkeptCost| {
            let what = match *by == self.task.me {
                true => "the work for a capability".to_owned(),
                false => format!("the work of {by}"),
            };
            match answer {
                Ok(text) => format!("{}. The answer: {}", unkept.because(&unkept.of(&what)), clip(text)),
                Err(failure) => unkept.because(&clip(failure)),
            }
        };
        let unknown = self.unkept_cost(usage).map(of_work);
        effects.extend(unknown.map(|why| self.fail(why)).unwrap_or_default());
        effects
    }

    /// The bound of cost, if it can't be kept because the cost of a part of `usage` is unknown.
    fn unkept_cost(&self, usage: &Usage) -> Option<UnkeptCost> {
        self.task.limits.bounds.unkept_cost(self.task.ownership.spec.budget, usage)
    }

    /// Adds to what the task has used.
    fn charge(&mut self, usage: &Usage) -> Vec<Effect> {
        let before = *self.task.ownership.usage();
        let mut effects: Vec<_> = self.task.ownership.add_usage(usage).into_iter().collect();
        let (given, after) = (self.task.ownership.spec.budget, self.task.ownership.usage());
        let verdict = self.task.limits.bounds.judge(given, &before, after, self.task.pending.reserved());
        effects.extend(match verdict {
            BudgetVerdict::Fine => Vec::new(),
            BudgetVerdict::NearlyUsed(figures) => self.task.ownership.status(TaskState::Working, figures),
            // The call may have been the last one.
            BudgetVerdict::UsedUp(figures) if self.may_be_done() && self.over_budget.is_none() => {
                let mut effects =
                    self.task.ownership.status(TaskState::Working, format!("over budget: {figures}"));
                effects.push(Effect::Update(Update::OverBudget(figures.clone())));
                self.over_budget = Some(figures);
                effects
            }
            BudgetVerdict::UsedUp(figures) => self.fail(figures),
        });
        effects
    }

    /// Whether nothing more may be used: its turn may have made its last call, or all of it is the answer of another agent.
    fn may_be_done(&self) -> bool {
        self.is_thinking || self.kind == WorkKind::LoneRequest
    }

    /// Charges what was reserved for agents that will not say what they have used: they are silent, or were told to stop.
    pub(super) fn charge_lost(&mut self) -> Vec<Effect> {
        match self.task.pending.take_lost() {
            lost if lost.is_none() => Vec::new(),
            lost => self.charge(&lost.charged_whole()),
        }
    }
}
