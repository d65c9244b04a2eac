//! What a bidder offers.

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// How long something is expected to take: milliseconds as a number, or text like `"5min"`, `"90s"`, `"250ms"`, `"2h"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "EtaForm", into = "u64")]
pub struct Eta(pub u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum EtaForm {
    Millis(f64),
    Text(String),
}

/// A text or number that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be milliseconds from 0 to 31 days, or text like \"5min\", got {0}")]
pub struct BadEta(String);

/// A text that is no duration to people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a number with its unit is wanted, such as 250ms, 25s, 5min or 2h, up to 31 days")]
pub struct NoTime;

const LONGEST: f64 = 31.0 * 24.0 * 3_600_000.0;

impl Eta {
    /// The duration `text` names: a number and one of ms, s, sec, m, min, h, d.
    pub fn parse(text: &str) -> Result<Self, BadEta> {
        let bad = || BadEta(format!("{:?}", text.chars().take(40).collect::<String>()));
        let text_trimmed = text.trim();
        let split =
            text_trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text_trimmed.len());
        let (number, unit) = text_trimmed.split_at(split);
        let unit = match unit.trim() {
            "" | "ms" => 1.0,
            "s" | "sec" => 1_000.0,
            "m" | "min" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 24.0 * 3_600_000.0,
            _ => return Err(bad()),
        };
        let number: f64 = number.parse().map_err(|_| bad())?;
        Self::from_millis(number * unit).ok_or_else(bad)
    }

    /// The same of a `text` that a person wrote, who may have meant seconds by a bare number: it must say its unit.
    pub fn with_unit(text: &str) -> Result<Self, NoTime> {
        let has_unit = text.trim().ends_with(|c: char| c.is_ascii_alphabetic());
        if has_unit { Self::parse(text).map_err(|_| NoTime) } else { Err(NoTime) }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
    fn from_millis(millis: f64) -> Option<Self> {
        (0.0..=LONGEST).contains(&millis).then_some(Self(millis as u64))
    }

    /// As a duration.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl TryFrom<EtaForm> for Eta {
    type Error = BadEta;
    fn try_from(form: EtaForm) -> Result<Self, BadEta> {
        match form {
            EtaForm::Millis(millis) => Self::from_millis(millis).ok_or_else(|| BadEta(millis.to_string())),
            EtaForm::Text(text) => Self::parse(&text),
        }
    }
}

impl From<Eta> for u64 {
    fn from(eta: Eta) -> u64 {
        eta.0
    }
}

impl fmt::Display for Eta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms if ms >= 3_600_000 && ms % 3_600_000 == 0 => write!(f, "{}h", ms / 3_600_000),
            ms if ms >= 60_000 && ms % 60_000 == 0 => write!(f, "{}min", ms / 60_000),
            ms if ms >= 1_000 && ms % 1_000 == 0 => write!(f, "{}s", ms / 1_000),
            ms => write!(f, "{ms}ms"),
        }
    }
}

/// A cost: finite and not negative, in the mesh's own unit.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Cost(f64);

impl Cost {
    /// `value`, if it is a cost: from 0 to 1e9.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1e9).contains(&value).then_some(Self(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Cost {
    type Error = String;
    fn try_from(value: f64) -> Result<Self, String> {
        Self::new(value).ok_or_else(|| format!("a cost is a number from 0 to 1e9, got {value}"))
    }
}

impl From<Cost> for f64 {
    fn from(cost: Cost) -> f64 {
        cost.0
    }
}

/// A share from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(f64);

impl Share {
    /// All of it.
    pub const FULL: Self = Self(1.0);

    /// `value`, if it lies between 0 and 1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Share {
    type Error = String;
    fn try_from(value: f64) -> Result<Self, String> {
        Self::new(value).ok_or_else(|| format!("a share is a number from 0 to 1, got {value}"))
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> f64 {
        share.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eta_reads_the_seeds_texts_and_numbers() {
        for (text, millis) in [
            ("\"5min\"", 300_000),
            ("\"2 min\"", 120_000),
            ("1500", 1_500),
            ("\"250ms\"", 250),
            ("\"1.5h\"", 5_400_000),
        ] {
            assert_eq!(serde_json::from_str::<Eta>(text).unwrap(), Eta(millis), "{text}");
        }
        for bad in ["-1", "1e308", "\"soon\"", "\"\"", "null", "\"-5min\""] {
            assert!(serde_json::from_str::<Eta>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_person_says_the_unit_of_a_time() {
        for (text, millis) in [("25s", 25_000), (" 250 ms ", 250), ("0s", 0), ("1.5h", 5_400_000)] {
            assert_eq!(Eta::with_unit(text), Ok(Eta(millis)), "{text}");
        }
        for bad in ["25", "0", "", "s", "soon", "25 parsecs", "-1s", "32d", "1h30m"] {
            assert_eq!(Eta::with_unit(bad), Err(NoTime), "{bad}");
        }
    }

    #[test]
    fn costs_and_shares_are_finite_and_in_range() {
        for bad in ["-1", "1e308", "null"] {
            assert!(serde_json::from_str::<Cost>(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Share>("1.01").is_err());
        assert!(Cost::new(f64::NAN).is_none() && Share::new(f64::NAN).is_none());
    }
}
