//! Values that stand on the lines below their name.

use super::{Fate, NEAR, Named, closing, line_end, quoted, skip, yaml};
use crate::telemetry::capture::word;
use std::ops::Range;

/// Whether YAML's sign for a block of text stands here.
pub(super) fn is_block(rest: &[u8]) -> bool {
    let after = rest[1..].iter().find(|byte| !b"+-0123456789 \t".contains(byte));
    after.is_some_and(|byte| b"\n\r".contains(byte))
}

/// YAML's block of text: the lines that stand deeper than the name's.
pub(super) fn block(text: &[u8], at: usize, named: &Named) -> Range<usize> {
    let line = text[..named.name.start].iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
    let depth = |line: usize| skip(text, line, |byte| byte == b' ') - line;
    let (own, from) = (depth(line), (line_end(text, at) + 1).min(text.len()));
    let mut end = from;
    while end < text.len() && (depth(end) > own || b"\n\r".contains(&text[end])) {
        end = (line_end(text, end) + 1).min(text.len());
    }
    from..end
}

/// A value on the next line: in quotes, in a list, or a word alone and deeper.
pub(super) fn below(text: &[u8], at: usize, named: &Named) -> Fate {
    let from = skip(text, at, |byte| byte.is_ascii_whitespace());
    match text.get(from) {
        Some(b'"' | b'\'') => {
            let after = skip(text, (closing(text, from) + 1).min(text.len()), |byte| byte == b' ');
            let is_name = text.get(after) == Some(&b':');
            return match is_name {
                true if yaml::is_begun(text, from, named) => Fate::Block(from),
                true => Fate::Kept,
                false => quoted(text, from),
            };
        }
        Some(b'{' | b'[') if named.is_quoted => return Fate::Opens(from),
        _ if yaml::is_begun(text, from, named) => return Fate::Block(from),
        Some(b'-') if text.get(from + 1) == Some(&b' ') => return list(text, from),
        Some(_) | None => {}
    }
    let end = line_end(text, from);
    let value = text[from..end].trim_ascii();
    let is_word = !value.is_empty() && !value.iter().any(|byte| b" \t:=<>(){}[]".contains(byte));
    let is_deeper = from > 0 && b" \t".contains(&text[from - 1]);
    let is_secret =
        is_word && !word::is_type(value) && (is_deeper || !word::is_plain(word::without(value, b'.')));
    if is_secret && value.len() <= NEAR * 2 { Fate::Masked(from..listed(text, end)) } else { Fate::Kept }
}

/// Where the lines end, one of which ends at `end`, that hold one word each which no dictionary holds.
fn listed(text: &[u8], mut end: usize) -> usize {
    while text.get(end) == Some(&b'\n') {
        let next = line_end(text, end + 1);
        let said = text[end + 1..next].trim_ascii();
        if said.len() < 4
            || word::is_plain(word::without(said, b'.'))
            || said.iter().any(|byte| b" \t:=<>(){}[]".contains(byte))
        {
            break;
        }
        end = next;
    }
    end
}

/// A YAML list of words that no dictionary holds.
fn list(text: &[u8], from: usize) -> Fate {
    let (mut at, mut end) = (from, None);
    while text[at..].starts_with(b"- ") {
        let stop = line_end(text, at);
        let item = text[at + 2..stop].trim_ascii();
        if word::is_plain(item) || item.iter().any(|byte| b" :".contains(byte)) {
            break;
        }
        end = Some(stop);
        at = skip(text, stop, |byte| byte.is_ascii_whitespace());
    }
    end.map_or(Fate::Kept, |end| Fate::Masked(from + 2..end))
}

/// The lines up to the word that a shell's or Terraform's `<<WORD` says.
pub(super) fn heredoc(text: &[u8], at: usize) -> Fate {
    let from = skip(text, at, |byte| b"<-~'\"".contains(&byte));
    let word = &text[from..skip(text, from, |byte| byte.is_ascii_alphanumeric() || byte == b'_')];
    let line = line_end(text, from);
    let ends = text[line..].windows(word.len().max(1)).position(|part| part == word);
    match word.is_empty() {
        true => Fate::Kept,
        false => Fate::Masked(line..ends.map_or(text.len(), |more| line + more)),
    }
}
