//! What this program prints. Names and texts come from cards, agents and tasks of others, and must not steer a terminal.

use std::{borrow::Cow, fmt::Write as _};

/// `text` with control characters (C0 and C1) and bidirectional ones as `\\u` escapes, which JSON reads back. Line feeds and tabs
/// stay. Every text that is printed passes here.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) {
            // A write to a string does not fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// `text` on one line, with control characters escaped.
pub(crate) fn plain(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    escaped(&lines.join(" ")).replace('\t', " ")
}

/// Whether a terminal may take `c` for a command, or show the text around it in another order.
fn steers(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // UAX #9, and the separators of lines and paragraphs.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// Whether `c` does not belong in the name of a file: it steers a terminal, or shows nothing and so makes two names look the same.
pub(crate) fn is_misleading(c: char) -> bool {
    // The characters of zero width of the general category Cf, of Hangul fillers, and variation selectors.
    let shows_nothing = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    matches!(c, '\n' | '\t') || steers(c) || shows_nothing
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn control_and_bidirectional_characters_are_escaped() {
        let text = "a\u{1b}]0;x\u{7}b\r\u{9b}2J\u{202e}\u{2066}\u{200f}\u{61c}\u{7f}\u{2028} ok\n\t\u{e9}";
        let expected = r"a\u001b]0;x\u0007b\u000d\u009b2J\u202e\u2066\u200f\u061c\u007f\u2028 ok".to_owned()
            + "\n\t\u{e9}";
        assert_eq!(escaped(text), expected);
        assert!(matches!(escaped("plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn invisible_characters_are_misleading_in_a_name() {
        assert!("a\n\u{202e}\u{200b}\u{200d}\u{feff}\u{ad}\u{e0041}".chars().skip(1).all(is_misleading));
        assert!(!"häß 日本 ñ-_.".chars().any(is_misleading));
    }

    proptest! {
        #[test]
        fn json_stays_the_same_value(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let printed = escaped(&json);
            prop_assert!(!printed.contains(steers));
            prop_assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), text);
        }
    }
}
