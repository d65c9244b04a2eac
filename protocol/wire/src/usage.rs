//! What work has used, and what it may use: tokens of models and cost.

use crate::amount::Cost;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A bound of tokens and cost. An absent member is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// Tokens of models, in and out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub tokens: Option<u64>,
    /// Cost, in the unit of the mesh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl Budget {
    /// A bound of tokens.
    pub fn tokens(tokens: u64) -> Self {
        Self { tokens: Some(tokens), cost: None }
    }

    /// A bound of cost. Panics if it is not from 0 to 1e9.
    pub fn cost(cost: f64) -> Self {
        let cost = Cost::try_from(cost).unwrap_or_else(|error| panic!("{error}"));
        Self { tokens: None, cost: Some(cost) }
    }

    /// Whether it limits nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
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

/// What a brain reports of one call of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelUsage {
    /// The model.
    pub model: String,
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Whether these counts are estimated, because the provider has not said them. The mesh says it, not the brain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub estimated: bool,
    /// What the call cost, in the mesh's own unit; `None` if the price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Who serves the model, as OpenTelemetry's GenAI conventions name it: `anthropic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Why the answer ended: `stop`, `length`, `content_filter` or `tool_call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// How long the call took, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why there is no answer, as a code such as `429`; `None` if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ModelUsage {
    /// A call whose cost is unknown.
    pub fn new(model: impl Into<String>, input_tokens: u64, output_tokens: u64) -> Self {
        Self { model: model.into(), input_tokens, output_tokens, ..Self::default() }
    }

    /// Whether its codes are codes. Telemetry shows them, and shows no text of a brain.
    pub fn validate(&self) -> Result<(), String> {
        let words =
            [("provider", &self.provider), ("finishReason", &self.finish_reason), ("error", &self.error)];
        words.into_iter().try_for_each(|(member, word)| validate_code(member, word.as_deref()))
    }
}

/// What a brain reports of one call of a tool, when it has ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolUse {
    /// The id of the call, unique in the task.
    pub id: String,
    /// The tool.
    pub name: String,
    /// How long the call took, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why it failed, as a code such as `tool_error`; `None` if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ToolUse {
    /// Whether id, name and code are such, see [`ModelUsage::validate`].
    pub fn validate(&self) -> Result<(), String> {
        let words = [("id", Some(&self.id)), ("name", Some(&self.name)), ("error", self.error.as_ref())];
        words.into_iter().try_for_each(|(member, word)| validate_code(member, word.map(String::as_str)))
    }
}

/// The longest code, bytes.
const MAX_CODE: usize = 64;

fn validate_code(member: &str, word: Option<&str>) -> Result<(), String> {
    match word {
        Some(word) if !is_code(word) => Err(format!(
            "{member:?} is a code of 1 to {MAX_CODE} letters, digits and `_ - . / :`, and no text"
        )),
        Some(_) | None => Ok(()),
    }
}

/// Whether `word` is a short code: letters, digits and `_ - . / :`.
pub fn is_code(word: &str) -> bool {
    let is_accepted = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte);
    (1..=MAX_CODE).contains(&word.len()) && word.bytes().all(is_accepted)
}

/// The sum of what the work on a task has used, that of other agents included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The known costs.
    pub cost: Cost,
    /// Tokens whose cost is unknown, and so not in `cost`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_tokens: u64,
    /// Tokens that were reserved for agents that never said what they used. They count as used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreported_tokens: u64,
    /// The part of `cost` that was reserved for such agents.
    #[serde(default, skip_serializing_if = "is_free")]
    pub unreported_cost: Cost,
    /// How many of the tokens above are of calls whose provider did not count them all. They are estimated, and count as used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub estimated_tokens: u64,
    /// How many pieces of work were done by agents whose use is unknown and not bounded, such as foreign ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_free(cost: &Cost) -> bool {
    *cost == Cost::default()
}

impl Usage {
    /// Whether nothing was used.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// All tokens.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens).saturating_add(self.unreported_tokens)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        let sum = |a: Cost, b: Cost| Cost::new(a.get() + b.get()).unwrap_or(a);
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost: sum(self.cost, other.cost),
            unpriced_tokens: self.unpriced_tokens.saturating_add(other.unpriced_tokens),
            unreported_tokens: self.unreported_tokens.saturating_add(other.unreported_tokens),
            unreported_cost: sum(self.unreported_cost, other.unreported_cost),
            estimated_tokens: self.estimated_tokens.saturating_add(other.estimated_tokens),
            unknown: self.unknown.saturating_add(other.unknown),
        }
    }
}

impl From<&ModelUsage> for Usage {
    fn from(call: &ModelUsage) -> Self {
        let ModelUsage { input_tokens, output_tokens, cost, .. } = *call;
        let tokens = input_tokens.saturating_add(output_tokens);
        let unpriced_tokens = if cost.is_none() { tokens } else { 0 };
        let estimated_tokens = if call.estimated { tokens } else { 0 };
        let cost = cost.unwrap_or_default();
        Self { input_tokens, output_tokens, cost, unpriced_tokens, estimated_tokens, ..Self::default() }
    }
}

/// What the work on a task may still use. An absent member is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RemainingBudget {
    /// How long the turn may take, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_ms: Option<u64>,
    /// How long the brain may be silent, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// Turns after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Tokens, in and out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost, in the mesh's own unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

impl RemainingBudget {
    /// Whether nothing is limited.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
