//! The `Retry-After` header of responses (RFC 9110 §10.2.3).

use std::time::{Duration, SystemTime};

/// Longer pauses are shortened to a day.
const MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The pause that the value `text` asks for, in seconds or until a date, at most [`MAX`]; `None` if `text` is neither.
pub(crate) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows is a long time.
        return Some(text.parse().map_or(MAX, |seconds| Duration::from_secs(seconds).min(MAX)));
    }
    let until = chrono::DateTime::parse_from_rfc2822(text).ok()?;
    Some(SystemTime::from(until).duration_since(now).unwrap_or_default().min(MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_given_in_seconds_or_as_a_date_and_is_a_day_at_most() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, seconds) in [
            ("120", 120),
            (" 0 ", 0),
            ("Sun, 06 Nov 1994 08:49:47 GMT", 10),
            ("Sun, 06 Nov 1994 08:49:07 GMT", 0),
            ("Sat, 06 Nov 2094 08:49:07 GMT", 86_400),
            ("18446744073709551615", 86_400),
            ("99999999999999999999999", 86_400),
        ] {
            assert_eq!(retry_after(text, now), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "soon", "-1", "+5", "1.5", "5 s"] {
            assert_eq!(retry_after(text, now), None, "{text}");
        }
    }
}
