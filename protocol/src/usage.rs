//! What work costs: tokens and money, and the bounds of both.

use crate::{bid::Cost, budget::Budget};
use serde::{Deserialize, Serialize};

pub use wire::usage::{ModelUsage, RemainingBudget, ToolUse, Usage, is_code};

/// What the work on one task may use. An absent bound does not limit it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskBounds {
    /// Turns of the brain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Tokens of models, in and out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost, in the mesh's own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl From<&TaskBounds> for Budget {
    fn from(bounds: &TaskBounds) -> Self {
        Self { tokens: bounds.tokens, cost: bounds.cost }
    }
}

/// What the use of a budget calls for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetVerdict {
    Fine,
    /// Four fifths of it have just been used: the bound and the figures.
    NearlyUsed(String),
    /// It is used up: the bound and the figures.
    UsedUp(String),
}

impl TaskBounds {
    /// Whether nothing is limited.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The same bounds, but no more than `budget`.
    #[must_use]
    pub fn within(self, budget: Budget) -> Self {
        let Budget { tokens, cost } = Budget::from(&self).within(budget);
        Self { turns: self.turns, tokens, cost }
    }

    /// What they leave after turn number `turn`, `used` and what is `reserved` for others.
    pub fn remaining(&self, turn: u32, used: &Usage, reserved: Budget) -> RemainingBudget {
        let Budget { tokens, cost } = Budget::from(self).left(used, reserved);
        let turns = self.turns.map(|turns| turns.saturating_sub(turn));
        RemainingBudget { turns, tokens, cost, ..RemainingBudget::default() }
    }

    /// The verdict on a change of the usage. What is `reserved` for others is in the figures and does not count: most of it may
    /// come back. `given` is the budget of the request, which limits the task as well.
    pub fn judge(&self, given: Budget, before: &Usage, after: &Usage, reserved: Budget) -> BudgetVerdict {
        let limit = |name: &str, own: Option<u64>, given: Option<u64>| match (own, given) {
            (own, Some(given)) if own.is_none_or(|own| given < own) => {
                Some((format!("budget.{name}"), given))
            }
            (own, _) => own.map(|own| (format!("bounds.{name}"), own)),
        };
        let micros = |cost: Option<Cost>| cost.map(Cost::micros);
        let show_tokens: fn(u64) -> String = |tokens| tokens.to_string();
        let show_cost: fn(u64) -> String = |micros| Cost::from_micros(micros).get().to_string();
        let members = [
            (
                limit("tokens", self.tokens, given.tokens),
                (before.tokens(), after.tokens()),
                (reserved.tokens, after.unreported_tokens),
                show_tokens,
            ),
            (
                limit("cost", micros(self.cost), micros(given.cost)),
                (before.cost.micros(), after.cost.micros()),
                (micros(reserved.cost), after.unreported_cost.micros()),
                show_cost,
            ),
        ];
        let mut verdict = BudgetVerdict::Fine;
        for (limit, (before, after), (reserved, unreported), show) in members {
            let Some((name, limit)) = limit else { continue };
            let of_silent = match unreported {
                0 => String::new(),
                unreported => format!(", {} of it charged for agents that fell silent", show(unreported)),
            };
            let of_others = match reserved.unwrap_or_default() {
                0 => String::new(),
                reserved => format!(", {} reserved for others", show(reserved)),
            };
            let (limit_shown, used) = (show(limit), show(after));
            if after >= limit {
                return BudgetVerdict::UsedUp(format!(
                    "{name}: {limit_shown} used up: {used} used{of_silent}{of_others}"
                ));
            }
            let is_nearly_used = |used: u64| used.saturating_mul(5) >= limit.saturating_mul(4);
            if !is_nearly_used(before) && is_nearly_used(after) {
                verdict = BudgetVerdict::NearlyUsed(format!(
                    "{name}: {used} of {limit_shown} used{of_silent}{of_others}"
                ));
            }
        }
        verdict
    }

    /// Why a bound of cost, of this or `given`, can't be kept: `used` has a part whose cost is unknown. `what` has used it.
    pub fn unknown_cost(&self, given: Budget, used: &Usage, what: &str) -> Option<String> {
        self.unkept_cost(given, used).map(|unkept| unkept.because(&unkept.of(what)))
    }

    /// The bound of cost, of this or `given`, that can't be kept, because `used` has a part whose cost is unknown.
    pub fn unkept_cost(&self, given: Budget, used: &Usage) -> Option<UnkeptCost> {
        let (name, limit) = match (self.cost, given.cost) {
            (own, Some(given)) if own.is_none_or(|own| given.get() < own.get()) => ("budget", given),
            (own, _) => ("bounds", own?),
        };
        let why = match (used.unpriced_tokens, used.unknown) {
            (0, 0) => return None,
            (0, _) => "it does not report what it uses".to_owned(),
            (tokens, _) => format!("{tokens} tokens without a price"),
        };
        Some(UnkeptCost { bound: format!("{name}.cost: {}", limit.get()), why })
    }
}

/// A bound of cost that can't be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnkeptCost {
    bound: String,
    why: String,
}

impl UnkeptCost {
    /// That it can't be kept, for `reason`: [`Self::of`], or the failure of the work whose cost is unknown.
    pub fn because(&self, reason: &str) -> String {
        format!("{} can't be kept: {reason}", self.bound)
    }

    /// That the cost of `what` is unknown, why, and the remedy.
    pub fn of(&self, what: &str) -> String {
        let why = &self.why;
        format!("the cost of {what} is unknown ({why}); give its model a price, or bound tokens")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(tokens: u64, cost: f64) -> Usage {
        Usage { input_tokens: tokens, cost: Cost::new(cost).unwrap(), ..Usage::default() }
    }

    #[test]
    fn a_budget_is_announced_once_and_ends_at_its_limit() {
        let bounds = TaskBounds { turns: None, tokens: Some(100), cost: Cost::new(2.0) };
        let none = Budget::default();
        let judge = |before, after| bounds.judge(none, &before, &after, none);
        assert_eq!(judge(used(0, 0.0), used(79, 1.5)), BudgetVerdict::Fine);
        let nearly = BudgetVerdict::NearlyUsed("bounds.tokens: 80 of 100 used".into());
        assert_eq!(judge(used(79, 0.0), used(80, 0.0)), nearly);
        assert_eq!(judge(used(80, 0.0), used(99, 0.0)), BudgetVerdict::Fine, "only once");
        let used_up = |figures: &str| BudgetVerdict::UsedUp(figures.to_owned());
        assert_eq!(judge(used(1, 1.0), used(1, 2.5)), used_up("bounds.cost: 2 used up: 2.5 used"));
        let unbounded = TaskBounds::default().judge(none, &used(0, 0.0), &used(u64::MAX, 1e8), none);
        assert_eq!(unbounded, BudgetVerdict::Fine);
        let reserved = Budget { tokens: Some(30), cost: None };
        let judge = |given, after| bounds.judge(given, &used(0, 0.0), &used(after, 0.0), reserved);
        assert_eq!(judge(none, 79), BudgetVerdict::Fine, "what is reserved may come back");
        assert_eq!(judge(none, 100), used_up("bounds.tokens: 100 used up: 100 used, 30 reserved for others"));
        let given = Budget { tokens: Some(50), cost: None };
        assert_eq!(judge(given, 50), used_up("budget.tokens: 50 used up: 50 used, 30 reserved for others"));
    }

    #[test]
    fn a_bound_of_cost_is_not_kept_by_tokens_without_a_price() {
        let own = TaskBounds { cost: Cost::new(2.0), ..TaskBounds::default() };
        let given = Budget { tokens: None, cost: Cost::new(0.5) };
        let unpriced = Usage { unpriced_tokens: 7, ..used(7, 0.0) };
        assert_eq!(own.unknown_cost(given, &used(7, 0.1), "m"), None);
        assert_eq!(TaskBounds::default().unknown_cost(Budget::default(), &unpriced, "m"), None);
        let why = own.unknown_cost(Budget::default(), &unpriced, "m").unwrap();
        assert_eq!(
            why,
            "bounds.cost: 2 can't be kept: the cost of m is unknown (7 tokens without a price); give its model a price, or bound tokens"
        );
        let silent = Usage { unknown: 1, ..Usage::default() };
        let why = own.unknown_cost(given, &silent, "m").unwrap();
        assert!(
            why.starts_with("budget.cost: 0.5 can't be kept") && why.contains("does not report"),
            "{why}"
        );
    }

    #[test]
    fn tokens_without_a_price_are_counted_apart() {
        let priced = ModelUsage {
            model: "m".into(),
            input_tokens: 10,
            output_tokens: 5,
            cost: Cost::new(0.5),
            ..ModelUsage::default()
        };
        let unpriced = ModelUsage { cost: None, ..priced.clone() };
        let sum = Usage::from(&priced).plus(&Usage::from(&unpriced));
        assert_eq!((sum.tokens(), sum.cost.get(), sum.unpriced_tokens), (30, 0.5, 15));
        let bounds = TaskBounds { turns: Some(3), tokens: Some(40), cost: Cost::new(1.0) };
        let left = bounds.remaining(1, &sum, Budget::default());
        assert_eq!((left.turns, left.tokens, left.cost.map(Cost::get)), (Some(2), Some(10), Some(0.5)));
    }

    #[test]
    fn estimated_tokens_count_and_are_shown() {
        let call =
            ModelUsage { input_tokens: 10, output_tokens: 5, estimated: true, ..ModelUsage::default() };
        let sum = Usage::from(&call).plus(&Usage::from(&ModelUsage { estimated: false, ..call }));
        assert_eq!((sum.tokens(), sum.estimated_tokens), (30, 15));
        let bounds = TaskBounds { tokens: Some(30), ..TaskBounds::default() };
        let verdict = bounds.judge(Budget::default(), &Usage::default(), &sum, Budget::default());
        assert!(matches!(verdict, BudgetVerdict::UsedUp(_)), "{verdict:?}");
    }

    #[test]
    fn codes_are_short_and_no_text() {
        let call = |error: &str| ModelUsage { error: Some(error.into()), ..ModelUsage::default() };
        assert_eq!(call("429").validate(), Ok(()));
        assert_eq!(
            ModelUsage { provider: Some("gcp.gemini".into()), ..call("no_answer") }.validate(),
            Ok(())
        );
        for bad in ["", "the key was abc", &"x".repeat(65)] {
            assert!(call(bad).validate().unwrap_err().contains("\"error\""), "{bad}");
        }
        let tool = |name: &str| ToolUse { id: "c1".into(), name: name.into(), ..ToolUse::default() };
        assert!(tool("git_log").validate().is_ok() && tool("git log").validate().is_err());
    }
}
