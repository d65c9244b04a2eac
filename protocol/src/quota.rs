//! Quotas: how much may be used in an hour, a day or a month, and how agents share what several of them use.

use crate::{bid::Cost, time::WallTime, usage::Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// An agent takes this part of a shared quota at a time.
const SHARES: u64 = 20;

/// For how long a quota counts. All begin by UTC: an hour at its first minute, a day at midnight, a month on its first day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuotaPeriod {
    Hour,
    Day,
    Month,
}

/// One hour, day or month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// `2026-11-29T20`, `2026-11-29` or `2026-11`.
    pub label: String,
    /// When the next one begins.
    pub ends: WallTime,
}

impl QuotaPeriod {
    /// The window that `now` is in.
    pub fn window(self, now: WallTime) -> Window {
        let text = now.to_string();
        let next = |length: i64| WallTime(now.0 - now.0.rem_euclid(length) + length);
        let ends = match self {
            Self::Hour => next(HOUR_MS),
            Self::Day => next(DAY_MS),
            Self::Month => next_month(&text).unwrap_or_else(|| next(DAY_MS)),
        };
        Window { label: self.label_of(&text).to_owned(), ends }
    }

    /// The label of the window that an hour, such as `2026-11-29T20`, is in.
    pub fn label_of(self, hour: &str) -> &str {
        hour.get(..self.characters()).unwrap_or(hour)
    }

    /// The characters of a label.
    fn characters(self) -> usize {
        match self {
            Self::Hour => 13,
            Self::Day => 10,
            Self::Month => 7,
        }
    }
}

impl fmt::Display for QuotaPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        })
    }
}

/// When the month after that of `time` begins.
fn next_month(time: &str) -> Option<WallTime> {
    let (year, month) = (time.get(..4)?.parse::<u32>().ok()?, time.get(5..7)?.parse::<u32>().ok()?);
    let (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    WallTime::parse(&format!("{year:04}-{month:02}-01T00:00:00Z")).ok()
}

/// An amount that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Amount {
    /// Tokens of models, in and out.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Cost, in the mesh's own unit.
    #[serde(skip_serializing_if = "is_free")]
    pub cost: Cost,
    /// Tasks.
    #[serde(skip_serializing_if = "is_zero")]
    pub tasks: u64,
    /// The part of the tokens whose cost is unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub unpriced_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_free(cost: &Cost) -> bool {
    cost.micros() == 0
}

impl Amount {
    /// One task.
    pub fn task() -> Self {
        Self { tasks: 1, ..Self::default() }
    }

    /// Whether it is nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// The larger of both, member by member.
    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        self.zip(other, u64::max)
    }

    /// What is left after `other`, never less than nothing.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    fn zip(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            tokens: each(self.tokens, other.tokens),
            cost: Cost::from_micros(each(self.cost.micros(), other.cost.micros())),
            tasks: each(self.tasks, other.tasks),
            unpriced_tokens: each(self.unpriced_tokens, other.unpriced_tokens),
        }
    }
}

impl From<&Usage> for Amount {
    fn from(usage: &Usage) -> Self {
        Self { tokens: usage.tokens(), cost: usage.cost, tasks: 0, unpriced_tokens: usage.unpriced_tokens }
    }
}

/// How much a quota allows; an absent member is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
}

/// How much of a quota is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaLevel {
    Open,
    /// Four fifths or more.
    Near,
    UsedUp,
}

impl QuotaLevel {
    /// Its name on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Near => "near",
            Self::UsedUp => "reached",
        }
    }
}

impl QuotaLimits {
    /// Each limited member: its name, the limit, and what `amount` has of it, in whole numbers.
    fn members(&self, amount: Amount) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let cost = self.cost.map(Cost::micros);
        [
            ("tokens", self.tokens, amount.tokens),
            ("cost", cost, amount.cost.micros()),
            ("tasks", self.tasks, amount.tasks),
        ]
        .into_iter()
        .filter_map(|(name, limit, used)| Some((name, limit?, used)))
    }

    /// How much of it `used` is.
    pub fn level(&self, used: Amount) -> QuotaLevel {
        let level = |(_, limit, used): (&str, u64, u64)| match used {
            used if used >= limit => QuotaLevel::UsedUp,
            used if used.saturating_mul(5) >= limit.saturating_mul(4) => QuotaLevel::Near,
            _ => QuotaLevel::Open,
        };
        self.members(used).map(level).max().unwrap_or(QuotaLevel::Open)
    }

    /// `950 of 1000 tokens`, for each member.
    pub fn figures(&self, used: Amount) -> String {
        let shown = |(name, limit, used): (&'static str, u64, u64)| match name {
            "cost" => {
                let show = |micros| Cost::from_micros(micros).get();
                format!("a cost of {} of {}", show(used), show(limit))
            }
            name => format!("{used} of {limit} {name}"),
        };
        self.members(used).map(shown).collect::<Vec<_>>().join(", ")
    }

    /// Whether something is left of what was `granted` after `used`.
    pub fn has_left(&self, granted: Amount, used: Amount) -> bool {
        let of_grant = self.members(granted).map(|(_, _, granted)| granted);
        of_grant.zip(self.members(used)).all(|(granted, (_, _, used))| used < granted)
    }

    /// What an agent that has used `used` may use in all: a share more, as far as it is free beside what `others` have or may use.
    pub fn grant(&self, used: Amount, others: Amount) -> Amount {
        let part = |limit: Option<u64>| limit.map_or(0, |limit| (limit / SHARES).max(1));
        let whole = Amount {
            tokens: self.tokens.unwrap_or_default(),
            cost: self.cost.unwrap_or_default(),
            tasks: self.tasks.unwrap_or_default(),
            unpriced_tokens: 0,
        };
        let share = Amount {
            tokens: part(self.tokens),
            cost: Cost::from_micros(part(self.cost.map(Cost::micros))),
            tasks: part(self.tasks),
            unpriced_tokens: 0,
        };
        let used = Amount { unpriced_tokens: 0, ..used };
        let free = whole.minus(others).minus(used);
        used.plus(free.zip(share, u64::min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> WallTime {
        WallTime::parse(text).unwrap()
    }

    #[test]
    fn windows_begin_and_end_by_utc() {
        let now = at("2026-12-31T23:59:59.999Z");
        for (period, label, ends) in [
            (QuotaPeriod::Hour, "2026-12-31T23", "2027-01-01T00:00:00Z"),
            (QuotaPeriod::Day, "2026-12-31", "2027-01-01T00:00:00Z"),
            (QuotaPeriod::Month, "2026-12", "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(period.window(now), Window { label: label.to_owned(), ends: at(ends) }, "{period}");
        }
        let leap = QuotaPeriod::Month.window(at("2028-02-29T12:00:00Z"));
        assert_eq!((leap.label.as_str(), leap.ends), ("2028-02", at("2028-03-01T00:00:00Z")));
        let next = QuotaPeriod::Day.window(at("2027-01-01T00:00:00Z"));
        assert_eq!(next.label, "2027-01-01", "the end belongs to the next window");
    }

    #[test]
    fn a_quota_is_near_at_four_fifths_and_used_up_at_its_limit() {
        let limits = QuotaLimits { tokens: Some(100), cost: Cost::new(2.0), tasks: None };
        let used =
            |tokens, cost| Amount { tokens, cost: Cost::new(cost).unwrap(), tasks: 9, ..Amount::default() };
        assert_eq!(limits.level(used(79, 1.5)), QuotaLevel::Open);
        assert_eq!(limits.level(used(10, 1.6)), QuotaLevel::Near);
        assert_eq!(limits.level(used(100, 0.0)), QuotaLevel::UsedUp);
        assert_eq!(limits.figures(used(80, 1.5)), "80 of 100 tokens, a cost of 1.5 of 2");
    }

    proptest! {
        #[test]
        fn shares_never_exceed_the_quota(
            limit in 1u64..10_000,
            steps in proptest::collection::vec((0usize..5, 0u64..700), 1..60),
        ) {
            let limits = QuotaLimits { tokens: Some(limit), ..QuotaLimits::default() };
            let tokens = |tokens| Amount { tokens, ..Amount::default() };
            let (mut used, mut granted) = ([0u64; 5], [0u64; 5]);
            for (agent, more) in steps {
                // Nobody begins beyond its share; what it has begun may go beyond it.
                if used[agent] < granted[agent] {
                    used[agent] = (used[agent] + more).min(granted[agent]);
                }
                let others = (0..5).filter(|other| *other != agent).map(|other| used[other].max(granted[other])).sum();
                granted[agent] = limits.grant(tokens(used[agent]), tokens(others)).tokens;
                prop_assert!(granted.iter().sum::<u64>() <= limit, "{granted:?}");
            }
        }
    }
}
