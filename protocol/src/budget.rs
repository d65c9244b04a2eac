//! What work for another may use, and how a parent divides its own bound among its children.

use wire::usage::Usage;

pub use wire::usage::Budget;

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
    use crate::bid::Cost;
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
