//! What a bidder offers.

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

pub use wire::amount::{Cost, Fraction};

/// How long something is expected to take: milliseconds as a number, or text like `"5min"`, `"90s"`, `"250ms"`, `"2h"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "wire::line::Eta", into = "u64")]
pub struct Eta(pub u64);

/// A text or number that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEta {
    /// A text, such as a flag's value.
    #[error("must be a duration of at most 31 days with its unit, such as 250ms, 25s, 5min or 2h, got {0:?}")]
    Text(String),
    /// A number of a file or a message.
    #[error("must be a number of milliseconds of at most 31 days, or a text such as 5min, got {0}")]
    Number(String),
}

const LONGEST: Duration = Duration::from_secs(31 * 24 * 3_600);

impl Eta {
    /// The duration `text` names, such as `5min`; it must have its unit.
    pub fn parse(text: &str) -> Result<Self, BadEta> {
        let bad = || BadEta::Text(text.chars().take(40).collect());
        let duration = humantime::parse_duration(text.trim()).map_err(|_| bad())?;
        Self::from_duration(duration).ok_or_else(bad)
    }

    fn from_duration(duration: Duration) -> Option<Self> {
        let millis = (duration <= LONGEST).then(|| u64::try_from(duration.as_millis()).ok());
        millis.flatten().map(Self)
    }

    /// As a duration.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl TryFrom<wire::line::Eta> for Eta {
    type Error = BadEta;
    fn try_from(form: wire::line::Eta) -> Result<Self, BadEta> {
        match form {
            wire::line::Eta::Millis(millis) => {
                let duration = Duration::try_from_secs_f64(millis / 1_000.0).ok();
                duration.and_then(Self::from_duration).ok_or_else(|| BadEta::Number(millis.to_string()))
            }
            wire::line::Eta::Text(text) => Self::parse(&text),
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
        humantime::format_duration(self.duration()).fmt(f)
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
        let message = Eta::parse("5").unwrap_err().to_string();
        assert!(message.contains("unit") && !message.contains("milliseconds"), "{message}");
    }

    #[test]
    fn a_text_has_its_unit_and_is_written_shortly() {
        for (text, millis, written) in [
            ("25s", 25_000, "25s"),
            (" 250 ms ", 250, "250ms"),
            ("1.5h", 5_400_000, "1h 30m"),
            ("31d", 2_678_400_000, "1month 13h 26m 24s"),
        ] {
            let eta = Eta::parse(text).unwrap();
            assert_eq!((eta, eta.to_string().as_str()), (Eta(millis), written), "{text}");
        }
        for bad in ["25", "", "s", "soon", "25 parsecs", "-1s", "32d"] {
            assert!(Eta::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn costs_and_shares_are_finite_and_in_range() {
        for bad in ["-1", "1e308", "null"] {
            assert!(serde_json::from_str::<Cost>(bad).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Fraction>("1.01").is_err());
        assert!(Cost::new(f64::NAN).is_none() && Fraction::new(f64::NAN).is_none());
    }
}
