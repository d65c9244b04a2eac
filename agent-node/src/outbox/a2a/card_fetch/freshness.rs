//! How long a card may be cached (A2A §8.6, RFC 9111).

use reqwest::header::{AGE, CACHE_CONTROL, ETAG, HeaderMap};
use std::time::Duration;

/// The lifetime of a response without `max-age`.
const DEFAULT: Duration = Duration::from_secs(300);
const MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The cache lifetime of a card, from the headers of its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freshness {
    /// How long it is used without a request.
    pub lifetime: Duration,
    /// The entity tag of this version.
    pub etag: Option<String>,
    /// The URL that the tag belongs to. `None` if the card was not fetched by this process.
    pub found_at: Option<String>,
}

impl Default for Freshness {
    fn default() -> Self {
        Self { lifetime: DEFAULT, etag: None, found_at: None }
    }
}

impl Freshness {
    pub(super) fn from_headers(headers: &HeaderMap, url: &str) -> Self {
        let found_at = Some(url.to_owned());
        let values = headers.get_all(CACHE_CONTROL).into_iter().filter_map(|value| value.to_str().ok());
        let directives: Vec<_> =
            values.flat_map(|value| value.split(',')).map(|part| part.trim().to_ascii_lowercase()).collect();
        let etag = headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        if directives.iter().any(|directive| ["no-store", "no-cache"].contains(&directive.as_str())) {
            return Self { lifetime: Duration::ZERO, etag, found_at };
        }
        let seconds = |text: &str| text.trim_matches('"').parse().map(Duration::from_secs).ok();
        let max_age = directives.iter().find_map(|directive| seconds(directive.strip_prefix("max-age=")?));
        let age = headers.get(AGE).and_then(|age| seconds(age.to_str().ok()?)).unwrap_or_default();
        let lifetime = max_age.map_or(DEFAULT, |max_age| max_age.saturating_sub(age).min(MAX));
        Self { lifetime, etag, found_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&str, &str)]) -> (u64, Option<String>) {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let freshness = Freshness::from_headers(&headers.collect(), "https://h/");
        (freshness.lifetime.as_secs(), freshness.etag)
    }

    #[test]
    fn the_lifetime_is_what_the_headers_say_up_to_a_day() {
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
