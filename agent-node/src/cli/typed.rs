//! Words of the command line as they are said again: for a shell to take as they are.

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
}
