//! For how long a card that was read is good (A2A §8.6, RFC 9111), and how to ask whether it has changed since.

use reqwest::header::{AGE, CACHE_CONTROL, ETAG, HeaderMap};
use std::time::Duration;

/// For how long, where its host does not say.
const UNSAID: Duration = Duration::from_secs(300);
/// For how long at most.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What a card's host says of its age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freshness {
    /// How long it is good without asking again.
    pub lasts: Duration,
    /// The name of this very version, if it has one.
    pub etag: Option<String>,
}

impl Default for Freshness {
    fn default() -> Self {
        Self { lasts: UNSAID, etag: None }
    }
}

impl Freshness {
    /// What an answer's headers say.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(CACHE_CONTROL).into_iter().filter_map(|line| line.to_str().ok());
        let said: Vec<_> =
            lines.flat_map(|line| line.split(',')).map(|one| one.trim().to_ascii_lowercase()).collect();
        let etag = headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        if said.iter().any(|one| ["no-store", "no-cache"].contains(&one.as_str())) {
            return Self { lasts: Duration::ZERO, etag };
        }
        let seconds = |text: &str| text.trim_matches('"').parse().map(Duration::from_secs).ok();
        let most = said.iter().find_map(|one| seconds(one.strip_prefix("max-age=")?));
        let age = headers.get(AGE).and_then(|age| seconds(age.to_str().ok()?)).unwrap_or_default();
        let lasts = most.map_or(UNSAID, |most| most.saturating_sub(age).min(LONGEST));
        Self { lasts, etag }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&str, &str)]) -> (u64, Option<String>) {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let said = Freshness::of(&headers.collect());
        (said.lasts.as_secs(), said.etag)
    }

    #[test]
    fn it_is_what_the_host_says_within_a_day() {
        assert_eq!(of(&[]), (300, None));
        assert_eq!(of(&[("cache-control", "public, Max-Age=60")]), (60, None));
        assert_eq!(of(&[("cache-control", "max-age=60"), ("age", "50")]), (10, None));
        assert_eq!(of(&[("cache-control", "max-age=60"), ("age", "70")]), (0, None));
        assert_eq!(of(&[("cache-control", "max-age=99999999")]), (86_400, None));
        assert_eq!(of(&[("cache-control", "max-age=soon")]), (300, None));
        assert_eq!(
            of(&[("cache-control", "max-age=60, no-cache"), ("etag", "W/\"1\"")]),
            (0, Some("W/\"1\"".to_owned()))
        );
    }
}
