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

/// Whether a terminal may take `c` for a command, or show the text around it in another order.
fn steers(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        // UAX #9, and the separators of lines and paragraphs.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
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
