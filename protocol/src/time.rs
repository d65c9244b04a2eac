//! Two clocks, never mixed. Both are arguments here; nothing in this crate reads one.

use chrono::{DateTime, Datelike, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use std::{fmt, ops::Add, time::Duration};

/// Milliseconds on a node's own clock: it never goes back and stands still while the node is down.
/// Windows and leases run on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeTime(pub u64);

impl NodeTime {
    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for NodeTime {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Milliseconds since the Unix epoch on the wall clock; RFC 3339 on the wire. Callers' deadlines are wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct WallTime(pub i64);

/// A text that is no RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be an RFC 3339 time such as 2026-02-24T10:30:00Z, got {0:?}")]
pub struct BadTime(String);

impl WallTime {
    /// The time an RFC 3339 text names.
    pub fn parse(text: &str) -> Result<Self, BadTime> {
        let bad = || BadTime(text.chars().take(80).collect());
        let time = DateTime::parse_from_rfc3339(text).map_err(|_| bad())?.to_utc();
        // With its offset, a time of the year 9999 may lie in 10000, which RFC 3339 can't write.
        if !(0..=9_999).contains(&time.year()) {
            return Err(bad());
        }
        Ok(Self(time.timestamp_millis()))
    }

    /// This much later.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long until `later`; zero if it has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl WallTime {
    /// Its text, if it lies in the years 0 to 9999. Every record holds times: chrono's own way to them costs five times
    /// as much.
    fn text(self) -> Option<[u8; 24]> {
        let (year, month, day) = date(self.0.div_euclid(DAY_MS))?;
        let of_day = self.0.rem_euclid(DAY_MS) as u32;
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let fields = [
            (0..4, year),
            (5..7, month),
            (8..10, day),
            (11..13, of_day / 3_600_000),
            (14..16, of_day / 60_000 % 60),
            (17..19, of_day / 1_000 % 60),
            (20..23, of_day % 1_000),
        ];
        for (place, mut number) in fields {
            for digit in text[place].iter_mut().rev() {
                *digit += (number % 10) as u8;
                number /= 10;
            }
        }
        Some(text)
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.text() {
            return f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?);
        }
        let time = DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or_default();
        f.write_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

const DAY_MS: i64 = 86_400_000;

/// Year, month and day, so many days after the first of 1970; `None` outside the years 0 to 9999. Years are counted from
/// March, so that a leap day is a year's last (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn date(days: i64) -> Option<(u32, u32, u32)> {
    let days = days.checked_add(719_468).filter(|days| (0..=3_652_425).contains(days))? as u32;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u32::from(month <= 2);
    (year <= 9_999).then_some((year, month, day))
}

impl TryFrom<String> for WallTime {
    type Error = BadTime;
    fn try_from(text: String) -> Result<Self, BadTime> {
        Self::parse(&text)
    }
}

impl Serialize for WallTime {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.text().as_ref().map(|text| std::str::from_utf8(text)) {
            Some(Ok(text)) => to.serialize_str(text),
            _ => to.collect_str(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_time_that_could_not_be_written_again_is_refused() {
        for text in ["9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01"] {
            assert!(WallTime::parse(text).is_err(), "{text}");
        }
        for text in ["9999-12-31T23:59:59+00:01", "0000-01-01T00:00:00-00:01", "2016-12-31T23:59:60Z"] {
            let time = WallTime::parse(text).unwrap();
            assert_eq!(WallTime::parse(&time.to_string()), Ok(time), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_written_as_rfc_3339_has_it(millis in prop_oneof![any::<i64>(), -62_200_000_000_000i64..260_000_000_000_000]) {
            let time = DateTime::<Utc>::from_timestamp_millis(millis).unwrap_or_default();
            prop_assert_eq!(WallTime(millis).to_string(), time.to_rfc3339_opts(SecondsFormat::Millis, true));
        }
    }
}
