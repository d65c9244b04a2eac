//! Addresses as they are said to people, in logs and to other processes: without who speaks at them.

use reqwest::Url;
use std::borrow::Cow;

/// `url` without the name and the password that may stand in it. Of a text that is no URL, nothing is shown that may be
/// meant as one of them: what stands before its last `@`.
pub fn shown(url: &str) -> Cow<'_, str> {
    match Url::parse(url) {
        Ok(mut parsed) if parsed.has_authority() => {
            if parsed.username().is_empty() && parsed.password().is_none() {
                // What a `?` or `#` in a password that is not escaped looks like.
                let end = url.find(['?', '#']).filter(|at| url[*at..].contains('@'));
                return url[..end.unwrap_or(url.len())].into();
            }
            // Only a URL without a host refuses this, and that has neither.
            let _ = parsed.set_username("").and(parsed.set_password(None));
            parsed.as_str().trim_end_matches('/').to_owned().into()
        }
        Ok(_) | Err(_) => match url.rsplit_once('@') {
            Some((before, rest)) => {
                let scheme = before.split_once("://").map(|(scheme, _)| format!("{scheme}://"));
                format!("{}{rest}", scheme.unwrap_or_default()).into()
            }
            None => url.into(),
        },
    }
}

/// Whether a name or a password stands in `url`.
pub fn names_who_speaks(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_at_a_url_is_not_shown() {
        for (url, expected) in [
            ("http://me:s3cret@127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("http://:s3cret@mesh.example/base/", "http://mesh.example/base"),
            ("https://t0ken@mesh.example", "https://mesh.example"),
            ("http://127.0.0.1:8000/@me", "http://127.0.0.1:8000/@me"),
            ("http://[::1]:8000", "http://[::1]:8000"),
            ("http://mesh.example/base?a=b", "http://mesh.example/base?a=b"),
            ("http://me:#s3cret@host", "http://me:"),
            ("nowhere", "nowhere"),
            ("http://me:s3cret@host:99999", "http://host:99999"),
            ("http://me:s3/cr@et@host", "http://host"),
            ("me:s3cret@host:8000", "host:8000"),
            ("me:s3cret@", ""),
            ("mailto:me@host", "host"),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
    }

    #[test]
    fn a_name_or_a_password_is_seen() {
        for url in ["http://me:s3cret@host", "http://:s3cret@host", "http://me@host"] {
            assert!(names_who_speaks(url), "{url}");
        }
        for url in ["http://host", "http://host/@me", "nowhere", "mailto:me@host"] {
            assert!(!names_who_speaks(url), "{url}");
        }
    }
}
