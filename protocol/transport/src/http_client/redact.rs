//! URLs without credentials, for people, logs and other processes.

use reqwest::Url;
use std::borrow::Cow;

/// `url` without user name, password, query and fragment, each of which may hold a credential. Of a text that is no URL, the same
/// is removed as far as it can be told: everything before the last `@` but its scheme, and what follows a `?` or `#`.
pub fn redact_url(url: &str) -> Cow<'_, str> {
    let before_query = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    match Url::parse(url) {
        Ok(mut parsed) if parsed.has_authority() => {
            if parsed.username().is_empty() && parsed.password().is_none() {
                return before_query.into();
            }
            parsed.set_query(None);
            parsed.set_fragment(None);
            // This fails only for a URL without a host, which has no credentials.
            let _ = parsed.set_username("").and(parsed.set_password(None));
            parsed.as_str().trim_end_matches('/').to_owned().into()
        }
        Ok(_) | Err(_) => match url.rsplit_once('@') {
            Some((before, rest)) => {
                let scheme = before.split_once("://").map(|(scheme, _)| format!("{scheme}://"));
                // An `@` behind a `?` ends a password, or is part of a query.
                let rest = if before_query.len() < before.len() { "" } else { rest };
                let rest = rest.split(['?', '#']).next().unwrap_or_default();
                format!("{}{rest}", scheme.unwrap_or_default()).into()
            }
            None if url.contains("://") => before_query.into(),
            None => url.into(),
        },
    }
}

/// `text` with every URL in it redacted.
pub fn redact_urls(text: &str) -> Cow<'_, str> {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
    let ends_url = |c: char| c.is_whitespace() || c.is_control() || "\"'<>`\\".contains(c);
    let mut redacted = String::new();
    let (mut rest, mut has_changed) = (text, false);
    while let Some(at) = rest.find("://") {
        let start = rest[..at].trim_end_matches(is_of_scheme).len();
        let end = rest[at..].find(ends_url).map_or(rest.len(), |end| at + end);
        let url = redact_url(&rest[start..end]);
        has_changed |= url != rest[start..end];
        redacted.push_str(&rest[..start]);
        redacted.push_str(&url);
        rest = &rest[end..];
    }
    match has_changed {
        true => Cow::Owned(redacted + rest),
        false => text.into(),
    }
}

/// Whether `url` has a user name or a password.
pub fn has_credentials(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_removed() {
        for (url, expected) in [
            ("http://me:s3cret@127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("http://:s3cret@mesh.example/base/", "http://mesh.example/base"),
            ("https://t0ken@mesh.example", "https://mesh.example"),
            ("http://127.0.0.1:8000/@me", "http://127.0.0.1:8000/@me"),
            ("http://[::1]:8000", "http://[::1]:8000"),
            ("http://mesh.example/base?token=s3cret", "http://mesh.example/base"),
            ("http://mesh.example#s3cret", "http://mesh.example"),
            ("http://me:s3cret@mesh.example/base?token=s3cret", "http://mesh.example/base"),
            ("http://mesh.example:99999/base?token=s3cret", "http://mesh.example:99999/base"),
            ("http://mesh.example:99999/base?mail=s3@cret", "http://"),
            ("what is it?", "what is it?"),
            ("http://me:#s3cret@host", "http://me:"),
            ("nowhere", "nowhere"),
            ("http://me:s3cret@host:99999", "http://host:99999"),
            ("http://me:s3/cr@et@host", "http://host"),
            ("me:s3cret@host:8000", "host:8000"),
            ("me:s3cret@", ""),
            ("mailto:me@host", "host"),
        ] {
            assert_eq!(redact_url(url), expected, "{url}");
        }
    }

    #[test]
    fn every_url_of_a_text_is_redacted() {
        for (text, expected) in [
            (
                "no answer (https://h.example/mcp?key=s3cret): refused",
                "no answer (https://h.example/mcp refused",
            ),
            (
                r#"{"url":"http://me:s3cret@h/x","to":"ws://h?a=s3cret"}"#,
                r#"{"url":"http://h/x","to":"ws://h"}"#,
            ),
            ("http://127.0.0.1:8000 and http://h/x, too", "http://127.0.0.1:8000 and http://h/x, too"),
            (r#"at \"https://h/?s3cret\""#, r#"at \"https://h/\""#),
            ("a ? b :// c?d", "a ? b :// c?d"),
            ("", ""),
        ] {
            assert_eq!(redact_urls(text), expected);
        }
    }

    #[test]
    fn a_user_name_or_a_password_is_detected() {
        for url in ["http://me:s3cret@host", "http://:s3cret@host", "http://me@host"] {
            assert!(has_credentials(url), "{url}");
        }
        for url in ["http://host", "http://host/@me", "nowhere", "mailto:me@host"] {
            assert!(!has_credentials(url), "{url}");
        }
    }
}
