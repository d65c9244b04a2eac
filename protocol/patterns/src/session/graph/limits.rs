//! How much a session, a stage and a side conversation may use.

use super::{Stage, faults};
use protocol::{
    bid::{Cost, Eta},
    budget::Budget,
};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// The most messages that a side conversation may be allowed.
pub(super) const MAX_SIDE: u32 = 100;

/// The least turns of a session whose file does not say how many.
const LEAST_TURNS: u32 = 200;

/// What each turn may use on average, if the file does not say what the session may use.
const TOKENS_OF_TURN: u64 = 2_500;
const MS_OF_TURN: u64 = 18_000;

/// What a session may use. It ends as incomplete when something is used up.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionBudget {
    turns: Option<u32>,
    /// Tokens of models, in and out: a number, or one such as `500k`.
    #[serde(deserialize_with = "tokens")]
    tokens: Option<u64>,
    /// Time from its start.
    #[serde(deserialize_with = "faults::optional_time")]
    time: Option<Eta>,
    /// Cost, in the mesh's own unit.
    cost: Option<Cost>,
    /// The turns that its stages can have.
    #[serde(skip)]
    possible: u32,
}

impl SessionBudget {
    /// What the file does not say follows from the turns that the stages can have: one of every member in each round, the reviews of
    /// these, and half as many again for side conversations and repeats.
    pub(super) fn scale(&mut self, stages: &[Stage]) {
        let turns = stages.iter().map(|stage| {
            let members = stage.seats.iter().filter(|seat| !seat.role.watches()).count();
            let reviews = stage.seats.iter().filter(|seat| seat.reviews.is_some()).count();
            u64::from(stage.rounds) * (members * (1 + reviews)) as u64
        });
        self.possible = u32::try_from(turns.sum::<u64>() * 3 / 2).unwrap_or(u32::MAX);
    }

    fn possible(&self) -> u32 {
        self.possible.max(LEAST_TURNS)
    }

    /// The turns that it may take.
    pub fn turns(&self) -> u32 {
        self.turns.unwrap_or(self.possible())
    }

    /// The tokens of models that it may use.
    pub fn tokens(&self) -> u64 {
        self.tokens.unwrap_or(u64::from(self.possible()) * TOKENS_OF_TURN)
    }

    /// The time that it may take.
    pub fn time(&self) -> Eta {
        self.time.unwrap_or(Eta(u64::from(self.possible()) * MS_OF_TURN))
    }

    /// The session may use no more than `given`.
    pub fn bound(&mut self, given: Budget) {
        let Budget { tokens, cost } = self.of_models().within(given);
        (self.tokens, self.cost) = (tokens, cost);
    }

    /// What its models may use.
    pub fn of_models(&self) -> Budget {
        Budget { tokens: Some(self.tokens()), cost: self.cost }
    }
}

/// A number, or one with `k` or `M`.
fn tokens<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
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
    read.map(Some).ok_or_else(|| D::Error::custom(format!("{value} is no number, and none such as \"500k\"")))
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
