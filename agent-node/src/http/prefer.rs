//! The `Prefer` header (RFC 7240). An unknown or malformed preference is ignored.

use super::headers::PREFER;
use actix_web::HttpRequest;
use std::time::Duration;

/// How long the client lets the server wait, by the first `wait=N` (RFC 7240 §4.3): whole seconds, at most `max`.
pub fn wait(request: &HttpRequest, max: Duration) -> Option<Duration> {
    let lines = request.headers().get_all(&PREFER).filter_map(|line| line.to_str().ok());
    let first = lines.flat_map(|line| split_unquoted(line, b',')).find_map(parse_wait)?;
    Some(first?.min(max))
}

/// The value of a `wait` preference; `None` for any other, `Some(None)` for a malformed one. Ignores parameters (`;…`).
fn parse_wait(preference: &str) -> Option<Option<Duration>> {
    let word = split_unquoted(preference, b';').next().unwrap_or_default();
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    if !name.trim().eq_ignore_ascii_case("wait") {
        return None;
    }
    let value = value.trim();
    let digits = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // A number that overflows counts as the largest.
    Some(is_number.then(|| Duration::from_secs(digits.parse().unwrap_or(u64::MAX))))
}

/// Splits `text` at each `at` outside of quotes.
fn split_unquoted(text: &str, at: u8) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |c: char| {
        let was_escaped = is_escaped;
        is_escaped = is_quoted && c == '\\' && !was_escaped;
        if c == '"' && !was_escaped {
            is_quoted = !is_quoted;
        }
        !is_quoted && c == char::from(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;
    use proptest::prelude::*;

    fn wait_of(lines: &[&str]) -> Option<u64> {
        let request = lines
            .iter()
            .fold(TestRequest::default(), |request, line| request.append_header(("prefer", *line)));
        wait(&request.to_http_request(), Duration::from_secs(300)).map(|wait| wait.as_secs())
    }

    #[test]
    fn a_valid_wait_is_applied_and_anything_else_ignored() {
        for (lines, expected) in [
            (&["wait=10"][..], Some(10)),
            (&["respond-async, WAIT = 5"], Some(5)),
            (&["respond-async", "wait=\"7\"; how=patiently"], Some(7)),
            (&["wait=0"], Some(0)),
            (&["wait=301"], Some(300)),
            (&["wait=99999999999999999999999999"], Some(300)),
            (&["wait=1, wait=2"], Some(1)),
            (&["wait=soon, wait=2"], None),
            (&["handling=lenient; wait=9"], None),
            (&["note=\"a, wait=3\""], None),
            (&["note=\"a\\\", wait=3"], None),
            (&["wait=-1"], None),
            (&["wait=1.5"], None),
            (&["wait=+5"], None),
            (&["wait"], None),
            (&["wait="], None),
            (&["waiting=5", ";;,,=,\""], None),
            (&[], None),
        ] {
            assert_eq!(wait_of(lines), expected, "{lines:?}");
        }
    }

    proptest! {
        #[test]
    fn no_value_causes_a_failure(line in "[ -~]{0,60}") {
            prop_assert!(wait_of(&[&line]).is_none_or(|wait| wait <= 300));
        }
    }
}
