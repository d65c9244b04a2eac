//! Credentials by their names: `password = x`, `"apiKey": "x"`, `?token=x`, `--token x`, `<secret>x</secret>`, and whatever
//! else joins a name and a value. One pass: whatever is masked is not looked at again, and whatever is kept was near.

mod markup;
mod sentence;

use super::{
    name::{self, Says},
    value::{self, Fate, Joint, Named, skip},
    word,
};
use markup::{content, is_tag, opened};
use sentence::{alone, clause, prose, stands_alone};
use std::ops::Range;

/// How far from a name in quotes the value may be that stands beside it: `{"name": "TOKEN", "value": "x"}`.
const BESIDE: usize = 120;

/// Adds where credentials stand in `text`.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    let (mut at, mut structure) = (0, 0..0);
    while at < text.len() {
        if !is_word(text[at]) {
            if structure.contains(&at) && b"\"'".contains(&text[at]) {
                at = in_structure(text, at, found);
            } else {
                at += 1;
            }
            continue;
        }
        let end = text[at..].iter().position(|byte| !is_word(*byte)).map_or(text.len(), |more| at + more);
        let name = at..end;
        at = end;
        if structure.contains(&name.start) && is_loose_secret(&text[name.clone()]) {
            found.push(name);
            continue;
        }
        let Some(says) = says(text, &name) else { continue };
        match fate(text, &name, says) {
            Fate::Masked(range) => {
                at = range.end.max(end);
                found.push(range);
            }
            Fate::Opens(from) if from >= structure.end => structure = from..value::structure(text, from),
            Fate::Opens(_) | Fate::Kept => {}
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte >= 0x80
}

/// A quoted text within a structure that is a credential: masked unless it is a member's name. Where it ends.
fn in_structure(text: &[u8], at: usize, found: &mut Vec<Range<usize>>) -> usize {
    let (quote, mut end) = (text[at], at + 1);
    while end < text.len() && text[end] != quote {
        end += if text[end] == b'\\' { 2 } else { 1 };
    }
    let end = end.min(text.len());
    let after = skip(text, end.saturating_add(1).min(text.len()), |byte| byte.is_ascii_whitespace());
    let is_name = text.get(after) == Some(&b':') && text[..at].trim_ascii_end().last() != Some(&b':');
    if !is_name && !word::is_harmless(&text[at + 1..end]) {
        found.push(at + 1..end);
    }
    end + 1
}

fn is_loose_secret(word: &[u8]) -> bool {
    let is_number = word.iter().all(u8::is_ascii_digit);
    is_number && word.len() >= 4 || !is_number && word::is_mixed(word)
}

fn says(text: &[u8], at: &Range<usize>) -> Option<Says> {
    let name = &text[at.clone()];
    let before = at.start.checked_sub(1).map(|place| text[place]);
    let is_parameter = matches!(before, Some(b'?' | b'&' | b';')) && text.get(at.end) == Some(&b'=');
    if is_parameter && name::says_in_query(name) {
        return Some(Says::Credential);
    }
    if name.eq_ignore_ascii_case(b"key") && before == Some(b' ') {
        let kinds =
            ["access", "api", "auth", "encryption", "master", "private", "secret", "shared", "signing"];
        let ends = |kind: &str| {
            let end = at.start - 1;
            let kind_at = end.checked_sub(kind.len());
            kind_at.is_some_and(|from| text[from..end].eq_ignore_ascii_case(kind.as_bytes()))
        };
        return kinds.into_iter().any(ends).then_some(Says::Credential);
    }
    name::says(name)
}

fn fate(text: &[u8], name: &Range<usize>, says: Says) -> Fate {
    let quote = text.get(name.end).filter(|byte| b"\"'`".contains(byte));
    let is_quoted = quote.is_some() && name.start.checked_sub(1).map(|at| &text[at]) == quote;
    let mut at = name.end + usize::from(quote.is_some());
    at += usize::from(text.get(at) == Some(&b']'));
    at = skip(text, at, |byte| byte == b'*');
    let next = skip(text, at, |byte| byte == b' ' || byte == b'\t');
    let named = |joint| Named { name: name.clone(), says, joint, is_quoted };
    let value = |joint, from| value::of(text, from, &named(joint));
    match &text[next..] {
        [b'=', b'=', ..] => value(Joint::Quoted, next + 2),
        [b'=' | b'-', b'>', ..] if text[name.end] == b']' => value(Joint::Equals, next + 2),
        [b'=', b'>', ..] => value(Joint::Quoted, next + 2),
        [b'=', ..] => value(Joint::Equals, next + 1),
        [b':', b':', ..] => Fate::Kept,
        [b':', b'=', ..] => value(Joint::Equals, next + 2),
        [b':', ..] => value(Joint::Colon, next + 1),
        [b'?', b':', ..] => value(Joint::Colon, next + 2),
        [b'>', ..] if next == name.end && is_tag(text, name) => content(text, next + 1),
        [b' ' | b'/' | b'>', ..] => Fate::Kept,
        _ if next > at && text[name.start] == b'-' => value(Joint::Flag, next),
        [b',', ..] if is_quoted && is_argument(text, name, says) => {
            value(Joint::Quoted, skip(text, next + 1, |byte| byte.is_ascii_whitespace()))
        }
        [b'|', ..] if is_first_cell(text, name) => value(Joint::Cell, next + 1),
        [b'"' | b'\'', ..] if next > at && says != Says::Perhaps && !is_quoted => clause(text, next, name),
        _ if is_quoted => beside(text, next, &named(Joint::Colon)),
        _ if next > at && name.start > 0 && is_tag(text, name) => opened(text, next),
        [b'\n' | b'\r', ..] if stands_alone(text, name) => alone(text, next),
        _ if next > at => prose(text, next, &named(Joint::Colon)),
        _ if is_value(text, name) => beside(text, next, &named(Joint::Colon)),
        _ => Fate::Kept,
    }
}

/// What goes under `value` beside a name that is itself a value.
fn beside(text: &[u8], from: usize, named: &Named) -> Fate {
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
fn is_value(text: &[u8], name: &Range<usize>) -> bool {
    let before = text[..name.start].trim_ascii_end();
    [&b"name:"[..], b"key:", b"Name:", b"Key:"].iter().any(|start| before.ends_with(start))
}

/// Whether what follows this name is its value: `set("token", "x")`, `["X-Api-Key", "x"]`.
fn is_argument(text: &[u8], name: &Range<usize>, says: Says) -> bool {
    let is_header = says == Says::Header || text[name.clone()].contains(&b'-');
    match name.start.checked_sub(2).map(|at| text[at]) {
        Some(b'(') => true,
        Some(b'[') => is_header,
        Some(_) | None => false,
    }
}

fn is_first_cell(text: &[u8], name: &Range<usize>) -> bool {
    let before = word::without(&text[..name.start], b' ');
    before.ends_with(b"|")
        && word::without(&before[..before.len() - 1], b' ').last().is_none_or(|byte| *byte == b'\n')
}
