//! Texts in quotes, and words, within what holds credentials: a structure, a call's brackets, the rest of a line of code.

use crate::telemetry::capture::{
    name,
    value::{self, skip},
    word,
};
use std::ops::Range;

/// What holds credentials where `find` has come to.
#[derive(Default)]
pub(super) struct Within {
    /// A structure under a credential's name.
    pub(super) structure: Range<usize>,
    /// Whether its texts are in no quotes.
    pub(super) is_flow: bool,
    /// A line of code that makes a credential.
    pub(super) line: Range<usize>,
    /// A call's brackets.
    pub(super) call: Range<usize>,
    /// A block of YAML.
    pub(super) block: Range<usize>,
}

impl Within {
    /// Takes the structure that opens at `from`, unless it is part of one.
    pub(super) fn open(&mut self, text: &[u8], from: usize) {
        if from >= self.structure.end {
            self.structure = from..value::structure(text, from);
            let inner = &text[self.structure.clone()];
            self.is_flow = !inner.iter().any(|byte| b"\"'`\n(".contains(byte));
        }
    }

    /// Takes the rest of the line of code from `from` on, unless that is part of one.
    pub(super) fn express(&mut self, text: &[u8], from: usize) {
        if from >= self.line.end {
            self.line = from..value::statement_end(text, from);
        }
    }

    /// Where the text in quotes ends that begins at `at`, if credentials are held here; masked if it is one.
    pub(super) fn quoted(&self, text: &[u8], at: usize, found: &mut Vec<Range<usize>>) -> Option<usize> {
        let is_code = self.line.contains(&at) || self.call.contains(&at);
        let is_text = b"\"'".contains(&text[at]) || is_code && text[at] == b'`';
        if self.structure.contains(&at) && is_text {
            return Some(in_structure(text, at, found));
        }
        (is_code && is_text && !is_told_of(text, at)).then(|| in_code(text, at, found))
    }

    /// What at `place`, where a word is, is a credential although it is in no quotes.
    pub(super) fn loose(&self, text: &[u8], place: &Range<usize>) -> Option<Range<usize>> {
        let said = &text[place.clone()];
        let is_number = said.iter().all(u8::is_ascii_digit) && said.len() >= 4;
        if self.structure.contains(&place.start) {
            let leaf = if self.is_flow { leaf(text, place) } else { None };
            let is_secret = is_number || !said.iter().all(u8::is_ascii_digit) && word::is_mixed(said);
            return leaf.or(is_secret.then(|| place.clone()));
        }
        let before = place.start.checked_sub(1).map(|at| text[at]);
        let is_argument = matches!(before, Some(b'(' | b' ' | b','));
        (self.call.contains(&place.start) && is_number && is_argument).then(|| place.clone())
    }
}

/// What begins at `place` if that stands under a name, or is one of a list, and is no type and no name itself.
fn leaf(text: &[u8], place: &Range<usize>) -> Option<Range<usize>> {
    let before = text[..place.start].trim_ascii_end().last();
    let end = skip(text, place.start, |byte| !b",]}\n".contains(&byte));
    let said = text[place.start..end].trim_ascii_end();
    let is_told = word::is_common(said) || word::is_harmless(said) || word::is_known_name(said);
    let is_leaf = matches!(before, Some(b':' | b'[' | b','))
        && !said.contains(&b'{')
        && !said.windows(2).any(|two| two == b": ");
    (is_leaf && !is_told && !said.ends_with(b":")).then_some(place.start..place.start + said.len())
}

/// Where the text ends whose quote opens at `at`.
fn end(text: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < text.len() && text[end] != text[at] {
        end += if text[end] == b'\\' { 2 } else { 1 };
    }
    end.min(text.len())
}

/// A text of a structure: masked unless it is a member's name.
fn in_structure(text: &[u8], at: usize, found: &mut Vec<Range<usize>>) -> usize {
    let end = end(text, at);
    if text[at] == b'\'' && text[at..end].contains(&b'\n') {
        return at + 1;
    }
    let after = skip(text, (end + 1).min(text.len()), |byte| byte.is_ascii_whitespace());
    let is_name = text.get(after) == Some(&b':') && text[..at].trim_ascii_end().last() != Some(&b':');
    if !is_name && !word::is_harmless(&text[at + 1..end]) {
        found.push(at + 1..end);
    }
    end + 1
}

/// A text of a line of code: masked unless it is only the name of a credential.
fn in_code(text: &[u8], at: usize, found: &mut Vec<Range<usize>>) -> usize {
    let end = end(text, at);
    if text[at..end].contains(&b'\n') {
        return at + 1;
    }
    let said = &text[at + 1..end];
    if !word::is_harmless(said) && !word::is_named(said) {
        found.push(at + 1..end);
    }
    end + 1
}

/// Whether the text at `at` goes under a name of its own (`f("x", user="bob")`), which says no more than what is taken if
/// there is nothing else (`default="x"`).
fn is_told_of(text: &[u8], at: usize) -> bool {
    let Some(before) = text[..at].strip_suffix(b"=") else { return false };
    let from = before
        .iter()
        .rev()
        .take(16)
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
        .count();
    let (plain, length) = name::plain(&before[before.len() - from..]);
    let instead = [&b"default"[..], b"fallback", b"defaultvalue", b"value", b"else"];
    from > 0 && !instead.contains(&&plain[..length])
}
