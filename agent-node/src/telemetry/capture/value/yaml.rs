//! Blocks of YAML below a credential's name, all of whose leaves are credentials.

use super::{NEAR, Named, line_end};
use crate::telemetry::capture::{
    name::{self, Says},
    word,
};
use std::ops::Range;

/// The depth of the line that `at` is in, and where its text begins.
fn depth(text: &[u8], at: usize) -> (usize, usize) {
    let line = text[..at].iter().rposition(|byte| b"\n\r".contains(byte)).map_or(0, |place| place + 1);
    let blanks = text[line..].iter().take_while(|byte| b" \t".contains(byte)).count();
    (blanks, line + blanks)
}

/// Whether a block begins at `from` that stands below a name which has its line to itself.
pub(super) fn is_begun(text: &[u8], from: usize, named: &Named) -> bool {
    if named.is_quoted && text.get(from) != Some(&b'"') || matches!(named.says, Says::Perhaps | Says::Header)
    {
        return false;
    }
    let (own, begins) = depth(text, named.name.start);
    let before = &text[begins..named.name.start];
    // In a text that is packed in another, the name's line is not its own.
    let is_own = before.iter().all(|byte| b"- #*".contains(byte) || !byte.is_ascii_alphabetic())
        || before.ends_with(b"\"");
    let (deeper, _) = depth(text, from);
    // Below a remark, too.
    let remark = if text[from..].starts_with(b"#") { line_end(text, from) - from } else { 0 };
    let from = from
        + remark
        + text[from + remark..].iter().take(NEAR).take_while(|byte| byte.is_ascii_whitespace()).count();
    let line = &text[from..line_end(text, from)];
    let is_item = line.starts_with(b"- ");
    let is_leaf = is_item || leaf(line).is_some();
    is_own && is_leaf && (deeper > own || is_item && deeper == own)
}

/// The name and the value of `name: value`, or what is behind `name:`.
fn leaf(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let quote = line.first().filter(|byte| b"\"'".contains(byte)).copied();
    let line = if quote.is_some() { &line[1..] } else { line };
    let end = line.iter().position(|byte| !byte.is_ascii_alphanumeric() && !b"_.-/".contains(byte))?;
    let after = match quote {
        Some(quote) => line[end..].strip_prefix(&[quote])?,
        None => &line[end..],
    };
    let value = after.strip_prefix(b":")?;
    (end > 0 && value.first().is_none_or(|byte| byte.is_ascii_whitespace())).then_some((&line[..end], value))
}

/// Adds the leaves of the block that begins at `from`, below `name`; where it ends.
pub(super) fn leaves(
    text: &[u8],
    from: usize,
    name: &Range<usize>,
    found: &mut Vec<Range<usize>>,
) -> Range<usize> {
    let ((own, _), mut line) = (depth(text, name.start), from);
    // Deeper than this, all stands under a name that is no credential's.
    let mut other = None;
    let (mut at, _) = depth(text, from);
    loop {
        let end = line_end(text, line);
        let mut begins = line;
        while text[begins..end].starts_with(b"- ") {
            begins += 2;
        }
        let said = text[begins..end].trim_ascii_end();
        let is_item = begins > line;
        if !said.is_empty() && (at < own || at == own && !is_item) {
            return from..line;
        }
        other = other.filter(|other| at > *other);
        let (key, value) = leaf(said).unwrap_or((b"", said));
        let value_at = begins + said.len() - value.len();
        let blanks = value.len() - value.trim_ascii_start().len();
        let value = value.trim_ascii_start();
        if other.is_none() && value.is_empty() && !key.is_empty() && name::is_otherwise(key) {
            other = Some(at);
        } else if other.is_none() && !is_told(key, value) {
            found.push(value_at + blanks..begins + said.len());
        }
        line = (end + 1).min(text.len());
        if line >= text.len() {
            return from..text.len();
        }
        let blanks = text[line..].iter().take_while(|byte| b" \t".contains(byte)).count();
        (line, at) = (line + blanks, blanks);
    }
}

/// Whether `value` is no credential though it stands under `key` below a credential's name.
fn is_told(key: &[u8], value: &[u8]) -> bool {
    let inner = match value {
        [b'"', inner @ .., b'"'] | [b'\'', inner @ .., b'\''] => inner,
        _ => value,
    };
    let is_number = inner.len() < 5 && inner.iter().all(u8::is_ascii_digit);
    let is_name = word::is_known_name(inner) && name::says(inner).is_some();
    let is_path = inner.starts_with(b"./") || inner.starts_with(b"/run/");
    let is_text = inner.starts_with(b"#")
        || matches!(inner.first(), None | Some(b'#' | b'|' | b'>' | b'{' | b'[' | b'&' | b'*'))
            && inner.len() < 3;
    is_text
        || word::is_harmless(inner)
        || word::is_remark(inner)
        || is_name && !value.starts_with(b"\"")
        || !key.is_empty()
            && (name::is_about(key) && (word::is_plain(inner) || is_number)
                || is_path
                || name::is_otherwise(key))
}
