//! Names that are values themselves, arguments or cells, and the values that stand beside them.

use super::{BESIDE, is_word};
use crate::telemetry::capture::{
    name::Says,
    value::{self, Fate, Named, skip},
    word,
};
use std::ops::Range;

/// What goes under `value` beside a name that is itself a value.
pub(super) fn beside(text: &[u8], from: usize, named: &Named) -> Fate {
    let near = &text[from..text.len().min(from + BESIDE)];
    let near = &near[..near.iter().position(|byte| b"{}>".contains(byte)).unwrap_or(near.len())];
    let is_it = |at: &usize| {
        let is_begun = *at == 0 || !is_word(near[at - 1]);
        is_begun && near[*at..].len() > 5 && near[*at..at + 5].eq_ignore_ascii_case(b"value")
    };
    let Some(at) = (0..near.len()).find(is_it) else { return Fate::Kept };
    let joint = skip(text, from + at + 5, |byte| byte == b'"' || byte == b'\'' || byte == b' ');
    match text.get(joint) {
        Some(b':' | b'=') => value::of(text, joint + 1, &Named { is_quoted: true, ..named.clone() }),
        Some(_) | None => Fate::Kept,
    }
}

/// Whether this name is what another one is said to be: `name: DB_PASSWORD`.
pub(super) fn is_value(text: &[u8], name: &Range<usize>) -> bool {
    let before = text[..name.start].trim_ascii_end();
    [&b"name:"[..], b"key:", b"Name:", b"Key:"].iter().any(|start| before.ends_with(start))
}

/// Whether what follows this name is its value: `set("token", "x")`, `["X-Api-Key", "x"]`.
pub(super) fn is_argument(text: &[u8], name: &Range<usize>, says: Says) -> bool {
    let is_header = says == Says::Header || text[name.clone()].contains(&b'-');
    match name.start.checked_sub(2).map(|at| text[at]) {
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
