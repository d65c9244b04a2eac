//! How much a session, a stage and a side conversation may use.

use super::faults;
use protocol::{
    bid::{Cost, Eta},
    budget::Budget,
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// The most messages that a side conversation may be allowed.
pub(super) const MAX_SIDE: u32 = 100;

/// What a session may use. It ends as incomplete when something is used up.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionBudget {
    pub turns: u32,
    /// Tokens of models, in and out: a number, or one such as `500k`.
    #[serde(deserialize_with = "tokens")]
    pub tokens: u64,
    /// Time from its start.
    #[serde(deserialize_with = "faults::time")]
    pub time: Eta,
    /// Cost, in the mesh's own unit.
    pub cost: Option<Cost>,
}

impl Default for SessionBudget {
    fn default() -> Self {
        Self { turns: 200, tokens: 500_000, time: Eta(3_600_000), cost: None }
    }
}

impl SessionBudget {
    /// The session may use no more than `given`.
    pub fn bound(&mut self, given: Budget) {
        let Budget { tokens, cost } = self.of_models().within(given);
        (self.tokens, self.cost) = (tokens.unwrap_or(self.tokens), cost);
    }

    /// What its models may use.
    pub fn of_models(&self) -> Budget {
        Budget { tokens: Some(self.tokens), cost: self.cost }
    }
}

/// A number, or one with `k` or `M`.
fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(from)?;
    let read = match value.as_str() {
        Some(text) => {
            let scaled = |number: &str, by: u64| number.parse::<u64>().ok()?.checked_mul(by);
            match (text.strip_suffix('k'), text.strip_suffix('M')) {
                (Some(thousands), _) => scaled(thousands, 1_000),
                (None, Some(millions)) => scaled(millions, 1_000_000),
                (None, None) => scaled(text, 1),
            }
        }
        None => value.as_u64(),
    };
    read.ok_or_else(|| D::Error::custom(format!("{value} is no number, and none such as \"500k\"")))
}

/// When a stage ends before all its seats are done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StageLimit {
    /// With this number of findings.
    pub findings: Option<u32>,
    #[serde(deserialize_with = "faults::optional_time")]
    pub time: Option<Eta>,
}

/// That a stage has side conversations, and how long they may be.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SideLimits {
    /// The most messages, the first one included.
    pub max: u32,
    #[serde(deserialize_with = "faults::time")]
    pub time: Eta,
}

impl Default for SideLimits {
    fn default() -> Self {
        Self { max: 20, time: Eta(300_000) }
    }
}
