//! Wall-clock times.

use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// Milliseconds since the Unix epoch on the wall clock; RFC 3339 on the wire. Callers' deadlines are wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct WallTime(pub i64);

/// A text that is no RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTime(String);

impl fmt::Display for BadTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be an RFC 3339 time such as 2026-02-24T10:30:00Z, got {:?}", self.0)
    }
}

impl std::error::Error for BadTime {}

const DAY_MS: i64 = 86_400_000;
/// What RFC 3339 can write: the years 0 to 9999.
const WRITABLE: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

impl WallTime {
    /// The time an RFC 3339 text names.
    pub fn parse(text: &str) -> Result<Self, BadTime> {
        // With its offset, a time of the year 9999 may lie in 10000.
        let millis = millis_of(text.as_bytes()).filter(|millis| WRITABLE.contains(millis));
        millis.map(Self).ok_or_else(|| BadTime(text.chars().take(80).collect()))
    }

    /// This much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long until `later`; zero if it has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

/// The number that exactly `count` digits at the beginning of `text` name, and the rest.
fn digits(text: &[u8], count: usize) -> Option<(i64, &[u8])> {
    let (number, rest) = text.split_at_checked(count)?;
    let add = |value, digit: &u8| digit.is_ascii_digit().then(|| value * 10 + i64::from(digit - b'0'));
    Some((number.iter().try_fold(0, add)?, rest))
}

fn after<'a>(text: &'a [u8], one_of: &[u8]) -> Option<&'a [u8]> {
    text.split_first().filter(|(first, _)| one_of.contains(first)).map(|(_, rest)| rest)
}

fn millis_of(text: &[u8]) -> Option<i64> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(after(rest, b"-")?, 2)?;
    let (day, rest) = digits(after(rest, b"-")?, 2)?;
    let (hour, rest) = digits(after(rest, b"Tt ")?, 2)?;
    let (minute, rest) = digits(after(rest, b":")?, 2)?;
    let (second, mut rest) = digits(after(rest, b":")?, 2)?;
    let mut millis = 0;
    if let Some(fraction) = after(rest, b".") {
        let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let shown = fraction.get(..length).filter(|digits| !digits.is_empty())?;
        millis =
            (0..3).fold(0, |sum, at| sum * 10 + i64::from(shown.get(at).map_or(0, |digit| digit - b'0')));
        rest = &fraction[length..];
    }
    let offset = match rest {
        b"Z" | b"z" => 0,
        _ => {
            let (sign, rest) = rest.split_first()?;
            let (hours, rest) = digits(rest, 2)?;
            let (minutes, rest) = digits(after(rest, b":")?, 2)?;
            let minutes = (rest.is_empty() && hours < 24 && minutes < 60).then_some(hours * 60 + minutes)?;
            match sign {
                b'+' => minutes,
                b'-' => -minutes,
                _ => return None,
            }
        }
    };
    let days = days(year, month, day);
    // A leap second is the first of the next minute.
    let is_valid = (1..=12).contains(&month) && civil(days) == (year, month, day);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    (is_valid && is_time)
        .then(|| days * DAY_MS + ((hour * 60 + minute - offset) * 60 + second) * 1_000 + millis)
}

/// The number of days from 1970-01-01 to a day of the Gregorian calendar (H. Hinnant, days_from_civil).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of the day that lies `days` after 1970-01-01: the inverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.0.clamp(*WRITABLE.start(), *WRITABLE.end());
        let ((year, month, day), millis) = (civil(time.div_euclid(DAY_MS)), time.rem_euclid(DAY_MS));
        let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", millis % 1_000)
    }
}

impl TryFrom<String> for WallTime {
    type Error = BadTime;
    fn try_from(text: String) -> Result<Self, BadTime> {
        Self::parse(&text)
    }
}

impl Serialize for WallTime {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

crate::schema_of_text!(WallTime);

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn times_are_read_with_their_offset_and_what_is_no_time_is_refused() {
        for (text, written) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
            ("2000-02-29t12:00:00.5z", "2000-02-29T12:00:00.500Z"),
            ("2026-03-01T00:30:00+01:00", "2026-02-28T23:30:00.000Z"),
            ("1900-03-01 00:00:00-23:59", "1900-03-01T23:59:00.000Z"),
        ] {
            assert_eq!(WallTime::parse(text).unwrap().to_string(), written, "{text}");
        }
        for bad in [
            "",
            "2026-02-24",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+0100",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00Zz",
            "26-01-01T00:00:00Z",
            "+026-01-01T00:00:00Z",
        ] {
            assert!(WallTime::parse(bad).is_err(), "{bad}");
        }
    }
}
