//! The value of a header that is a credential as a whole.

use super::{Fate, Named, closing, quoted};
use crate::telemetry::capture::word;

/// The whole value of a header, whatever its scheme, unless it is a sentence about it.
pub(super) fn header(text: &[u8], at: usize, named: &Named) -> Fate {
    let before = named.name.start.checked_sub(1).map(|place| text[place]);
    let quote = before.filter(|byte| b"\"'`".contains(byte));
    let mut end = at;
    while end < text.len() && !b"\n\r".contains(&text[end]) {
        // A parameter's value in quotes belongs to it, any other quote ends it.
        match text[end] {
            b'"' | b'\'' if end > at && text[end - 1] == b'=' => end = closing(text, end),
            b'"' | b'\'' if end == at => return quoted(text, at),
            byte if Some(byte) == quote || b"\"'".contains(&byte) && quote.is_none() => break,
            _ => {}
        }
        end = (end + 1).min(text.len());
    }
    let value = text[at..end].trim_ascii();
    let words = || value.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = words().next().unwrap_or_default();
    let said = value[first.len()..].trim_ascii();
    let is_kept = first.is_empty()
        || word::is_type(word::without(first, b','))
        || word::is_reference(value)
        || word::is_scheme(first) && word::is_reference(said)
        || word::is_remark(value);
    if is_kept { Fate::Kept } else { Fate::Masked(at..end) }
}
