//! Excerpts of what others have written. A word is never cut: a secret is masked where it leaves the node, and is recognised only
//! as a whole.

/// The longest word at an end of an excerpt, bytes.
const MAX_WORD: usize = 256;

fn ends_word(char: char) -> bool {
    char.is_whitespace() || matches!(char, '"' | '\'')
}

/// The beginning of `text`, about `max` bytes.
pub(super) fn beginning(text: &str, max: usize) -> &str {
    let cut = text.floor_char_boundary(max);
    let (head, rest) = text.split_at(cut);
    let limit = rest.floor_char_boundary(MAX_WORD);
    match rest[..limit].find(ends_word) {
        Some(end) => &text[..cut + end],
        None if limit == rest.len() => text,
        None => head.rfind(ends_word).map_or("", |end| &head[..end]),
    }
}

/// The end of `text`, at most `max` bytes.
pub(super) fn ending(text: &str, max: usize) -> &str {
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(max))..];
    match tail.len() < text.len() {
        true => tail.split_once(ends_word).map_or("", |(_, rest)| rest),
        false => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_has_whole_words_only() {
        let secret = "s".repeat(90);
        for (text, max, expected) in [
            ("one two", 80, "one two"),
            ("one two three", 5, "one two"),
            ("KEY=secret\nmore", 6, "KEY=secret"),
            (&format!("a \"{}\"", "s".repeat(999)), 80, "a "),
            (&"s".repeat(999), 80, ""),
            (&secret, 80, &secret),
            ("äöü x", 3, "äöü"),
        ] {
            assert_eq!(beginning(text, max), expected, "{text}");
        }
        for (text, max, expected) in
            [("one two", 80, "one two"), ("one two three", 7, "three"), ("secret", 3, ""), ("ä ö", 3, "ö")]
        {
            assert_eq!(ending(text, max), expected, "{text}");
        }
    }
}
