//! JSON for people: indented, escaped.

use crate::visible_text::{VisibleText, is_deceptive};
use maud::{Markup, html};
use serde_json::Value;
use std::fmt::Write as _;

/// A value, indented. `label` names it for those who do not see the page.
pub fn block(label: &str, value: &Value) -> Markup {
    text_block(label, &text(value))
}

/// A text as it is.
pub fn text_block(label: &str, text: &str) -> Markup {
    // What scrolls is reached by the keyboard. It is no landmark: a page has many of the same name.
    html! { pre tabindex="0" role="group" aria-label=(VisibleText(label)) { (VisibleText(text)) } }
}

/// A value under its label, with a button that copies it as JSON.
pub fn copied(label: &str, value: &Value) -> Markup {
    copied_text(label, &text(value))
}

/// A text under its label, with a button that copies it as it is shown.
pub fn copied_text(label: &str, text: &str) -> Markup {
    html! {
        div.copied {
            div.row.small { strong { (label) } button.plain type="button" data-copy="" aria-label={ "Copy: " (label) } { "Copy" } }
            (text_block(label, text))
        }
    }
}

/// As indented JSON in which characters that hide or turn others are escaped, so that it is shown and copied as what it is.
fn text(value: &Value) -> String {
    escaped(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// A JSON text with such characters escaped.
pub fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        // Outside of its texts JSON has none of them.
        if !is_deceptive(char) {
            text.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_shown_is_the_same_json() {
        let value = json!({ "a\u{202e}b": ["\u{e0041}", "\u{200b}\n\"<script>"] });
        let shown = text(&value);
        assert!(!shown.chars().any(is_deceptive), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).ok(), Some(value));
    }
}
