//! Credentials in XML and HTML.

use super::{BESIDE, is_word};
use crate::telemetry::capture::{
    value::{self, Fate},
    word,
};
use std::ops::Range;

/// Whether a tag of XML begins with this name.
pub(super) fn is_tag(text: &[u8], name: &Range<usize>) -> bool {
    let before = &text[..name.start];
    before.ends_with(b"<")
        || before.ends_with(b":") && {
            let prefix = before[..before.len() - 1].iter().rev().take(20).position(|byte| !is_word(*byte));
            prefix.is_some_and(|more| before[before.len() - 2 - more] == b'<')
        }
}

/// The content of the element whose tag ends before `at`.
pub(super) fn content(text: &[u8], at: usize) -> Fate {
    let rest = &text[at..];
    if let Some(inner) = rest.strip_prefix(b"<![CDATA[") {
        let from = at + (rest.len() - inner.len());
        let end = inner.windows(3).position(|three| three == b"]]>");
        return Fate::Masked(from..end.map_or(text.len(), |more| from + more));
    }
    match rest.iter().position(|byte| *byte == b'<') {
        Some(end) if rest[end..].starts_with(b"</") && !word::is_harmless(rest[..end].trim_ascii()) => {
            Fate::Masked(at..at + end)
        }
        Some(_) | None => Fate::Kept,
    }
}

/// The content of an element whose tag has attributes.
pub(super) fn opened(text: &[u8], at: usize) -> Fate {
    let end = text[at..].iter().take(BESIDE * 2).position(|byte| b"<>".contains(byte));
    match end.map(|more| at + more).filter(|end| text[*end] == b'>' && text[end - 1] != b'/') {
        Some(end) => content(text, end + 1),
        None => Fate::Kept,
    }
}

/// The content of the element that follows the one which holds a name: `<key>token</key><string>x</string>`.
pub(super) fn next_element(text: &[u8], at: usize) -> Fate {
    let end =
        |from: usize| Some(from + text.get(from..)?.iter().take(BESIDE).position(|byte| *byte == b'>')? + 1);
    let opens = end(at).map(|after| value::skip(text, after, |byte| byte.is_ascii_whitespace()));
    let is_value = |from: &usize| {
        [&b"<string"[..], b"<dd", b"<td", b"<value"].iter().any(|tag| text[*from..].starts_with(tag))
    };
    opens.filter(is_value).and_then(end).map_or(Fate::Kept, |from| content(text, from))
}
