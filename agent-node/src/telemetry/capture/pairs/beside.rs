//! Names that are values themselves, arguments or cells, and the values that stand beside them.

use super::is_word;
use crate::telemetry::capture::{
    name::Says,
    value::{self, Fate, Joint, Named, skip},
    word,
};
use std::ops::Range;

/// How far from a name in quotes the value may be that stands beside it: `{"name": "TOKEN", "value": "x"}`.
const NEAR: usize = 160;

/// What the value goes by that stands beside a name.
const VALUES: &[&[u8]] = &[b"value", b"val", b"default", b"content"];

/// What the name goes by that a value stands beside.
const NAMES: &[&[u8]] =
    &[b"name", b"key", b"field", b"id", b"header", b"label", b"property", b"variable", b"title", b"type"];

/// Where the value begins behind one of [`VALUES`] in `near`, in the same object, tag or item of a list.
fn value_in(near: &[u8]) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    while at < near.len() {
        match near[at] {
            b'{' => depth += 1,
            b'}' if depth == 0 => return None,
            b'}' => depth -= 1,
            b'>' if depth == 0 => {
                let inner =
                    [&b"><value>"[..], b"><string>"].into_iter().find(|tag| near[at..].starts_with(tag));
                return inner.map(|tag| at + tag.len());
            }
            b'\n' if near[at..].trim_ascii_start().starts_with(b"- ") => return None,
            byte if depth == 0 && byte.is_ascii_alphabetic() => {
                let end = skip(near, at, is_word);
                let joint = skip(near, end, |byte| b"\"' ".contains(&byte));
                let is_it = VALUES.iter().any(|value| near[at..end].eq_ignore_ascii_case(value));
                if is_it && matches!(near.get(joint), Some(b':' | b'=')) {
                    return Some(joint + 1);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// What goes under `value` behind a name that is itself a value.
pub(super) fn beside(text: &[u8], from: usize, named: &Named) -> Fate {
    // A block that is called so: `variable "password" { default = "x" }`.
    let inner = skip(text, from, |byte| byte == b' ');
    let from = if text.get(inner) == Some(&b'{') { inner + 1 } else { from };
    match value_in(&text[from..text.len().min(from + NEAR)]) {
        Some(at) => value::of(text, from + at, &Named { is_quoted: true, ..named.clone() }),
        None => Fate::Kept,
    }
}

/// What goes under `value` before a name that is itself a value: `{"value": "x", "name": "TOKEN"}`.
pub(super) fn back(text: &[u8], name: &Range<usize>) -> Fate {
    if !is_value(text, name) {
        return Fate::Kept;
    }
    let near = &text[name.start.saturating_sub(2 * NEAR)..name.start];
    let opens = |at: &usize| {
        b"{}<>".contains(&near[*at])
            || near[*at..].starts_with(b"- ") && near[..*at].trim_ascii_end().len() < *at
            || *at == 0 && near[..].starts_with(b"- ")
    };
    let from = (0..near.len()).rev().find(opens).map_or(0, |at| at + 1);
    let start = name.start - near.len();
    let Some(at) = value_in(&near[from..]) else { return Fate::Kept };
    let named = Named { name: name.clone(), says: Says::Credential, joint: Joint::Colon, is_quoted: true };
    let fate = value::of(text, start + from + at, &named);
    let is_before = matches!(&fate, Fate::Masked(range) if range.end <= name.start);
    if is_before { fate } else { Fate::Kept }
}

/// Whether this name is what another one is said to be: `name: DB_PASSWORD`, `"key":"TOKEN"`, `name="TOKEN"`.
pub(super) fn is_value(text: &[u8], name: &Range<usize>) -> bool {
    let near = &text[name.start.saturating_sub(32)..name.start];
    let before = || near.iter().rev().skip_while(|byte| b" \"'".contains(byte));
    let is_joined = before().next().is_some_and(|byte| b":=".contains(byte));
    let mut word = before().skip(1).skip_while(|byte| b" \"'".contains(byte));
    let mut said: Vec<u8> = word.by_ref().take_while(|byte| is_word(**byte)).take(12).copied().collect();
    said.reverse();
    is_joined && NAMES.iter().any(|known| said.eq_ignore_ascii_case(known))
}

/// Whether what follows this name is its value: `set("token", "x")`, `["X-Api-Key", "x"]`, `fill('#password', 'x')`.
pub(super) fn is_argument(text: &[u8], name: &Range<usize>, says: Says, is_quoted: bool) -> bool {
    let near = &text[name.start.saturating_sub(24)..name.start];
    if is_quoted && text[name.start] == b'-' {
        return true;
    }
    if !is_quoted {
        // In code, two that are held against each other: `compare(token, "x")`.
        let before = near.iter().rev().find(|byte| !is_word(**byte) && !b".&".contains(byte));
        let is_selector =
            near.iter().rev().take_while(|byte| **byte != b'\n').any(|byte| b"\"'".contains(byte));
        return before == Some(&b'(')
            || is_selector && near.last().is_some_and(|byte| b"#.=[".contains(byte));
    }
    let is_header = says == Says::Header || text[name.clone()].contains(&b'-');
    match near.get(near.len().wrapping_sub(2)) {
        Some(b'(') => true,
        Some(b'[') => is_header,
        Some(_) | None => false,
    }
}

/// Whether this name is a row's first cell.
pub(super) fn is_first_cell(text: &[u8], name: &Range<usize>) -> bool {
    let before = word::without(&text[..name.start], b' ');
    before.ends_with(b"|")
        && word::without(&before[..before.len() - 1], b' ').last().is_none_or(|byte| *byte == b'\n')
}
