//! `Prefer` (RFC 7240): what a client would rather have. Nobody has to understand it: what is not understood is as if it
//! had not been said.

use super::headers::PREFER;
use actix_web::HttpRequest;
use std::time::Duration;

/// How long an answer may be held, by the first `wait=N` (RFC 7240 §4.3): whole seconds, at most `most`.
pub fn wait(request: &HttpRequest, most: Duration) -> Option<Duration> {
    let lines = request.headers().get_all(&PREFER).filter_map(|line| line.to_str().ok());
    let first = lines.flat_map(|line| cut(line, b',')).find_map(seconds)?;
    Some(first?.min(most))
}

/// What one preference says of waiting, if it is about that at all. Its parameters belong to it and ask for nothing.
fn seconds(preference: &str) -> Option<Option<Duration>> {
    let word = cut(preference, b';').next().unwrap_or_default();
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    if !name.trim().eq_ignore_ascii_case("wait") {
        return None;
    }
    let value = value.trim();
    let digits = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than fit are still a number, a very large one.
    Some(is_number.then(|| Duration::from_secs(digits.parse().unwrap_or(u64::MAX))))
}

/// The pieces of `text` between `at`s that stand outside of quotes.
fn cut(text: &str, at: u8) -> impl Iterator<Item = &str> {
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

    fn of(lines: &[&str]) -> Option<u64> {
        let request = lines
            .iter()
            .fold(TestRequest::default(), |request, line| request.append_header(("prefer", *line)));
        wait(&request.to_http_request(), Duration::from_secs(300)).map(|wait| wait.as_secs())
    }

    #[test]
    fn what_is_understood_is_heeded_and_all_else_ignored() {
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
            assert_eq!(of(lines), expected, "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_in_it_is_worth_a_failure(line in "[ -~]{0,60}") {
            prop_assert!(of(&[&line]).is_none_or(|wait| wait <= 300));
        }
    }
}
