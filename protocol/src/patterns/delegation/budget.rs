//! What the work on a task may use: it is announced when most of it is used, and the task fails when all is.

use super::{Delegation, Effect, MAX_TURNS};
use crate::{
    budget::Budget,
    ids::AgentId,
    patterns::{Update, contract_net::record::clip},
    task::TaskState,
    usage::{BudgetVerdict, ModelUsage, TaskBounds, UnkeptCost, Usage},
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

    /// Adds what a call of a model of this agent has used. The task fails if a bound of cost can't be kept.
    pub(super) fn charge_call(&mut self, call: &ModelUsage) -> Vec<Effect> {
        let usage = Usage::from(call);
        let mut effects = self.charge(&usage);
        let of_call =
            |unkept: UnkeptCost| unkept.because(&unkept.of(&format!("{} at {}", call.model, self.me)));
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
            let what = match *by == self.me {
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
        let bounds = self.session.is_none().then_some(self.work_limits.bounds)?;
        bounds.unkept_cost(self.ownership.spec.budget, usage)
    }

    /// Adds to what the task has used.
    fn charge(&mut self, usage: &Usage) -> Vec<Effect> {
        let before = *self.ownership.usage();
        let mut effects: Vec<_> = self.ownership.add_usage(usage).into_iter().collect();
        if self.session.is_some() {
            // A session has a budget of its own, and ends with a record of what there is.
            return effects;
        }
        let (bounds, given) = (self.work_limits.bounds, self.ownership.spec.budget);
        effects.extend(match bounds.judge(given, &before, self.ownership.usage(), self.pending.reserved()) {
            BudgetVerdict::Fine => Vec::new(),
            BudgetVerdict::NearlyUsed(figures) => self.ownership.status(TaskState::Working, figures),
            BudgetVerdict::UsedUp(figures) => self.fail(figures),
        });
        effects
    }

    /// Charges what was reserved for agents that will not say what they have used: they are silent, or were told to stop.
    pub(super) fn charge_lost(&mut self) -> Vec<Effect> {
        match self.pending.take_lost() {
            lost if lost.is_none() => Vec::new(),
            lost => self.charge(&lost.charged_whole()),
        }
    }

    /// The same at the end of the task, whose own brain may be one that does not say what it uses.
    pub(super) fn settle_usage(&mut self) -> Vec<Effect> {
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
    pub(super) fn show_reserved(&self, before: Budget) -> Option<Effect> {
        let reserved = self.pending.reserved();
        (reserved != before).then_some(Effect::Update(Update::Reserved(reserved)))
    }
}
