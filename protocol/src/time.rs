//! Two clocks, never mixed. Both are arguments here; nothing in this crate reads one.

use chrono::{DateTime, Datelike, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use std::{fmt, ops::Add, time::Duration};

/// Milliseconds on a node's own clock: it never goes back, and it stops while the node is down.
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

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or_default();
        f.write_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true))
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
}
