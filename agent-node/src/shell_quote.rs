//! Quotes words for a POSIX shell.

use std::borrow::Cow;

/// Characters that need no quotes, beside letters and digits.
const UNQUOTED: &[u8] = b"-._/:,@%+=";

/// `word` as one literal shell word; in quotes where needed.
pub(crate) fn shell_quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || UNQUOTED.contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_reads_every_quoted_word_unchanged() {
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
            let command = format!("printf %s {}", shell_quoted(word));
            let output = Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), word, "{command}");
        }
        assert_eq!(shell_quoted("http://127.0.0.1:8000"), "http://127.0.0.1:8000");
        assert_eq!(shell_quoted("http://[::1]:8000"), "'http://[::1]:8000'");
    }
}
