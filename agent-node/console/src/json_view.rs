//! JSON for people: indented, escaped.

use crate::visible_text::VisibleText;
use maud::{Markup, html};
use serde_json::Value;

/// A value, indented. `label` names it for those who do not see the page.
pub fn block(label: &str, value: &Value) -> Markup {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text_block(label, &text)
}

/// A text as it is.
pub fn text_block(label: &str, text: &str) -> Markup {
    // What scrolls is reached by the keyboard.
    html! { pre tabindex="0" role="region" aria-label=(VisibleText(label)) { (VisibleText(text)) } }
}
