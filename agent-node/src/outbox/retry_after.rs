//! `Retry-After`, as others send it to us.

use std::time::{Duration, SystemTime};

/// Nobody is left alone for longer than a day on his word alone.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long somebody asks to be left alone, at most a day: in seconds or until a date (RFC 9110 §10.2.3); `None` if that
/// is not what it says.
pub(crate) fn retry_after(said: &str, now: SystemTime) -> Option<Duration> {
    let said = said.trim();
    if !said.is_empty() && said.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits is a long time.
        return Some(said.parse().map_or(LONGEST, |seconds| Duration::from_secs(seconds).min(LONGEST)));
    }
    let until = chrono::DateTime::parse_from_rfc2822(said).ok()?;
    Some(SystemTime::from(until).duration_since(now).unwrap_or_default().min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_seconds_or_a_date_and_a_day_at_most() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (said, seconds) in [
            ("120", 120),
            (" 0 ", 0),
            ("Sun, 06 Nov 1994 08:49:47 GMT", 10),
            ("Sun, 06 Nov 1994 08:49:07 GMT", 0),
            ("Sat, 06 Nov 2094 08:49:07 GMT", 86_400),
            ("18446744073709551615", 86_400),
            ("99999999999999999999999", 86_400),
        ] {
            assert_eq!(retry_after(said, now), Some(Duration::from_secs(seconds)), "{said}");
        }
        for said in ["", "soon", "-1", "+5", "1.5", "5 s"] {
            assert_eq!(retry_after(said, now), None, "{said}");
        }
    }
}
