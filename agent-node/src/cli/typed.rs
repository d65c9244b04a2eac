//! Words of the command line as they are said again: for a shell to take as they are, and without secrets.

use reqwest::Url;
use std::borrow::Cow;

/// What a shell leaves alone, beside letters and digits.
const PLAIN: &[u8] = b"-._/:,@%+=";

/// `word` so that a shell takes it as one word, and as no pattern or command.
pub(super) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || PLAIN.contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

/// `url` without the name and the password that may stand in it.
pub(super) fn shown(url: &str) -> Cow<'_, str> {
    match Url::parse(url) {
        Ok(mut parsed) if !parsed.username().is_empty() || parsed.password().is_some() => {
            // Only a URL without a host refuses this, and that has neither.
            let _ = parsed.set_username("").and(parsed.set_password(None));
            parsed.as_str().trim_end_matches('/').to_owned().into()
        }
        Ok(_) | Err(_) => url.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_takes_every_word_as_it_was() {
        for word in [
            "t-1",
            "http://127.0.0.1:8000",
            "http://[::1]:8000",
            "",
            "a b",
            "it's",
            "$(id)",
            "~",
            "x;y&z?*",
            "\"",
            "\\",
            "#",
            "ä",
            "a\nb",
        ] {
            let said = format!("printf %s {}", quoted(word));
            let output = Command::new("sh").args(["-c", &said]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{said}");
        }
        assert_eq!(quoted("http://127.0.0.1:8000"), "http://127.0.0.1:8000");
        assert_eq!(quoted("http://[::1]:8000"), "'http://[::1]:8000'");
    }

    #[test]
    fn who_speaks_at_a_url_is_not_shown() {
        for (url, expected) in [
            ("http://me:s3cret@127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("http://:s3cret@mesh.example/base/", "http://mesh.example/base"),
            ("https://t0ken@mesh.example", "https://mesh.example"),
            ("http://127.0.0.1:8000/@me", "http://127.0.0.1:8000/@me"),
            ("http://[::1]:8000", "http://[::1]:8000"),
            ("nowhere", "nowhere"),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
    }
}
