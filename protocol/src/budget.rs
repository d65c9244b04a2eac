//! What work for another may use, and how a parent divides its own bound among its children.

use crate::{
    bid::Cost,
    usage::{TaskBounds, Usage},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A bound of tokens and cost. An absent member is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// Tokens of models, in and out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost, in the mesh's own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Budget {
    /// Whether it limits nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The bounds of tokens and cost in `bounds`.
    pub fn of(bounds: &TaskBounds) -> Self {
        Self { tokens: bounds.tokens, cost: bounds.cost }
    }

    /// The smaller of both.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        self.zip(other, u64::min, |a, b| if b.micros() < a.micros() { b } else { a })
    }

    /// The sum; an absent member counts as nothing.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add, |a, b| Cost::new(a.get() + b.get()).unwrap_or(a))
    }

    /// Both members by `tokens` and `cost`; one that only one of them has is kept.
    fn zip(self, other: Self, tokens: impl Fn(u64, u64) -> u64, cost: impl Fn(Cost, Cost) -> Cost) -> Self {
        Self {
            tokens: self.tokens.zip(other.tokens).map(|(a, b)| tokens(a, b)).or(self.tokens).or(other.tokens),
            cost: self.cost.zip(other.cost).map(|(a, b)| cost(a, b)).or(self.cost).or(other.cost),
        }
    }

    /// What is left of it after `used` and `reserved`; never less than nothing.
    #[must_use]
    pub fn left(self, used: &Usage, reserved: Self) -> Self {
        let reserved_cost = reserved.cost.unwrap_or_default();
        let taken = used.tokens().saturating_add(reserved.tokens.unwrap_or_default());
        Self {
            tokens: self.tokens.map(|limit| limit.saturating_sub(taken)),
            cost: self.cost.map(|limit| limit.saturating_sub(used.cost).saturating_sub(reserved_cost)),
        }
    }

    /// One of `parts` equal parts.
    #[must_use]
    pub fn part(self, parts: u32) -> Self {
        let parts = parts.max(1);
        Self {
            tokens: self.tokens.map(|tokens| tokens / u64::from(parts)),
            cost: self.cost.map(|cost| Cost::from_micros(cost.micros() / u64::from(parts))),
        }
    }

    /// Whether nothing is left of a member.
    pub fn is_used_up(&self) -> bool {
        self.tokens == Some(0) || self.cost.is_some_and(|cost| cost.micros() == 0)
    }

    /// Whether `wanted` is no more than this. A member that this does not limit may be anything.
    pub fn covers(&self, wanted: &Self) -> bool {
        let tokens = self.tokens.zip(wanted.tokens).is_none_or(|(own, wanted)| wanted <= own);
        let cost = self.cost.zip(wanted.cost).is_none_or(|(own, wanted)| wanted.micros() <= own.micros());
        tokens && cost
    }

    /// The members of `limits` only.
    #[must_use]
    pub fn only(self, limits: Self) -> Self {
        Self {
            tokens: self.tokens.filter(|_| limits.tokens.is_some()),
            cost: self.cost.filter(|_| limits.cost.is_some()),
        }
    }

    /// Whole, as the use of an agent that never said what it used.
    pub fn charged_whole(&self) -> Usage {
        let cost = self.cost.unwrap_or_default();
        let unreported_tokens = self.tokens.unwrap_or_default();
        Usage { cost, unreported_tokens, unreported_cost: cost, ..Usage::default() }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tokens, self.cost.map(Cost::get)) {
            (Some(tokens), Some(cost)) => write!(f, "{tokens} tokens and a cost of {cost}"),
            (Some(tokens), None) => write!(f, "{tokens} tokens"),
            (None, Some(cost)) => write!(f, "a cost of {cost}"),
            (None, None) => f.write_str("no bound"),
        }
    }
}

/// What the requests of one turn are given of a parent's budget.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BudgetShares {
    /// For a request that names no budget, or not this member of it.
    each: Budget,
}

impl BudgetShares {
    /// Divides what is `free`: requests that name a budget get it; each of the others gets an equal share, and the parent keeps
    /// one. `wanted` has an item for each request.
    pub fn of(free: Budget, wanted: &[Budget]) -> Self {
        let named = wanted.iter().fold(Budget::default(), |sum, one| sum.plus(*one));
        let left = free.left(&Usage::default(), named);
        let parts = |has: fn(&Budget) -> bool| {
            u32::try_from(wanted.iter().filter(|one| !has(one)).count()).unwrap_or(u32::MAX - 1) + 1
        };
        let tokens = left.part(parts(|one| one.tokens.is_some())).tokens;
        let cost = left.part(parts(|one| one.cost.is_some())).cost;
        Self { each: Budget { tokens, cost } }
    }

    /// What a request that names `wanted` gets of what is `free`; an error says why it gets nothing.
    pub fn give(&self, wanted: Budget, free: Budget) -> Result<Budget, String> {
        let given =
            Budget { tokens: wanted.tokens.or(self.each.tokens), cost: wanted.cost.or(self.each.cost) };
        if !free.covers(&given) {
            return Err(format!("budget: {given} are asked for, {free} are free for requests to others"));
        }
        if given.is_used_up() {
            return Err(format!("budget: nothing is left for it; {free} are free for requests to others"));
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tokens(tokens: u64) -> Budget {
        Budget { tokens: Some(tokens), cost: None }
    }

    #[test]
    fn a_share_is_equal_and_the_parent_keeps_one() {
        let free = Budget { tokens: Some(900), cost: Cost::new(3.0) };
        let shares = BudgetShares::of(free, &[Budget::default(), Budget::default()]);
        assert_eq!(
            shares.give(Budget::default(), free),
            Ok(Budget { tokens: Some(300), cost: Cost::new(1.0) })
        );
        let shares = BudgetShares::of(free, &[tokens(500), Budget::default()]);
        assert_eq!(shares.give(tokens(500), free), Ok(Budget { tokens: Some(500), cost: Cost::new(1.0) }));
        assert_eq!(shares.give(Budget::default(), free).unwrap().tokens, Some(200));
        let why = shares.give(tokens(901), tokens(900)).unwrap_err();
        assert_eq!(
            why,
            "budget: 901 tokens and a cost of 1 are asked for, 900 tokens are free for requests to others"
        );
        let why =
            BudgetShares::of(tokens(1), &[Budget::default()]).give(Budget::default(), tokens(1)).unwrap_err();
        assert!(why.contains("nothing is left"), "{why}");
        let unbounded = BudgetShares::of(Budget::default(), &[tokens(7)]);
        assert_eq!(unbounded.give(tokens(7), Budget::default()), Ok(tokens(7)));
    }

    #[test]
    fn what_is_charged_whole_counts_as_used() {
        let budget = Budget { tokens: Some(10), cost: Cost::new(0.5) };
        let used = budget.charged_whole();
        assert_eq!((used.tokens(), used.cost.get(), used.unreported_tokens), (10, 0.5, 10));
        assert!(budget.left(&used, Budget::default()).is_used_up());
    }

    proptest! {
        #[test]
        fn shares_never_exceed_what_is_free(
            free in 0u64..10_000,
            named in proptest::collection::vec(proptest::option::of(0u64..3_000), 1..12),
        ) {
            let wanted: Vec<_> = named.iter().map(|tokens| Budget { tokens: *tokens, cost: None }).collect();
            let shares = BudgetShares::of(tokens(free), &wanted);
            let mut left = tokens(free);
            for wanted in wanted {
                if let Ok(given) = shares.give(wanted, left) {
                    prop_assert!(left.covers(&given) && !given.is_used_up());
                    left = left.left(&Usage::default(), given);
                }
            }
        }
    }
}
