//! Credentials by their names: `password = x`, `"apiKey": "x"`, `?token=x`, `--token x`, `<secret>x</secret>`, and whatever
//! else joins a name and a value. One pass: whatever is masked is not looked at again, and whatever is kept was near.

mod beside;
mod markup;
mod sentence;

use super::{
    name::{self, Says},
    value::{self, Fate, Joint, Named, skip},
    word,
};
use beside::{beside, is_argument, is_first_cell, is_value};
use markup::{content, is_tag, next_element, opened};
use sentence::{alone, clause, prose, stands_alone, typed};
use std::ops::Range;

/// How far from a name in quotes the value may be that stands beside it: `{"name": "TOKEN", "value": "x"}`.
const BESIDE: usize = 120;

/// Adds where credentials stand in `text`.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    let (mut at, mut structure, mut line) = (0, 0..0, 0..0);
    while at < text.len() {
        if !is_word(text[at]) {
            let is_told_of = at > 0 && text[at - 1] == b'=';
            let is_within = structure.contains(&at) || line.contains(&at) && !is_told_of;
            at = if is_within && b"\"'".contains(&text[at]) {
                in_structure(text, at, structure.contains(&at), found)
            } else {
                at + 1
            };
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
                if goes_on(text, at) && !line.contains(&at) {
                    line = at + 1..value::line_end(text, at);
                }
                found.push(range);
            }
            Fate::Expression(from) if from >= line.end => line = from..value::line_end(text, from),
            Fate::Opens(from) if from >= structure.end => structure = from..value::structure(text, from),
            Fate::Opens(_) | Fate::Expression(_) | Fate::Kept => {}
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || (0x80..0xe2).contains(&byte)
}

/// Whether an expression goes on behind a text in quotes: `"Bearer " + "x"`.
fn goes_on(text: &[u8], at: usize) -> bool {
    let next = skip(text, at, |byte| b"\"'` ".contains(&byte));
    next > at && matches!(text[next..], [b'+' | b'?', ..] | [b'|', b'|', ..])
}

/// A quoted text within a structure that is a credential: masked unless it is a member's name. Where it ends.
fn in_structure(text: &[u8], at: usize, has_names: bool, found: &mut Vec<Range<usize>>) -> usize {
    let (quote, mut end) = (text[at], at + 1);
    while end < text.len() && text[end] != quote {
        end += if text[end] == b'\\' { 2 } else { 1 };
    }
    let end = end.min(text.len());
    if quote == b'\'' && text[at..end].contains(&b'\n') {
        return at + 1;
    }
    let after = skip(text, end.saturating_add(1).min(text.len()), |byte| byte.is_ascii_whitespace());
    let is_name =
        has_names && text.get(after) == Some(&b':') && text[..at].trim_ascii_end().last() != Some(&b':');
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
    let is_sql =
        name.eq_ignore_ascii_case(b"by") && text[..at.start].trim_ascii_end().ends_with(b"IDENTIFIED");
    if is_sql { Some(Says::Credential) } else { name::says(name) }
}

fn fate(text: &[u8], name: &Range<usize>, says: Says) -> Fate {
    let quote = text.get(name.end).filter(|byte| b"\"'`".contains(byte));
    let is_quoted = quote.is_some() && name.start.checked_sub(1).map(|at| &text[at]) == quote;
    let is_genitive = text[name.end..].starts_with(b"'s ");
    let mut at = name.end + if is_genitive { 2 } else { usize::from(quote.is_some()) };
    at += if matches!(text[at..], [0xe2, 0x80, 0x9c..=0x9e, ..]) {
        3
    } else {
        usize::from(text.get(at) == Some(&b']'))
    };
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
        [b'?', b':', ..] | [b'-', b'>', ..] => value(Joint::Colon, next + 2),
        [0xe2, 0x86, 0x92, ..] | [0xef, 0xbc, 0x9a, ..] => value(Joint::Colon, next + 3),
        [b'.', b'.', b'.', ..] => value(Joint::Colon, skip(text, next, |byte| byte == b'.')),
        [b'>', ..] if is_quoted => content(text, next + 1),
        [b'<', b'/', ..] if next == name.end => next_element(text, next),
        [b'>', ..] if next == name.end && is_tag(text, name) => content(text, next + 1),
        [b' ' | b'/' | b'>', ..] => Fate::Kept,
        _ if next > at && text[name.start] == b'-' => value(Joint::Flag, next),
        [b',', ..] if is_quoted && is_argument(text, name, says) => {
            value(Joint::Quoted, skip(text, next + 1, |byte| byte.is_ascii_whitespace()))
        }
        [b'|', ..] if is_first_cell(text, name) => value(Joint::Cell, next + 1),
        [b'"' | b'\'', ..] if next > at && says != Says::Perhaps && !is_quoted => clause(text, next, name),
        _ if is_quoted => beside(text, next, &named(Joint::Colon)),
        _ if next > at && name.start > 0 && is_tag(text, name) => {
            match beside(text, next, &named(Joint::Colon)) {
                Fate::Kept => opened(text, next),
                fate @ (Fate::Masked(_) | Fate::Opens(_) | Fate::Expression(_)) => fate,
            }
        }
        _ if text[at..next].contains(&b'\t')
            && stands_alone(text, name)
            && !text[next..value::line_end(text, next)].contains(&b'\t') =>
        {
            value(Joint::Colon, next)
        }
        _ if typed(text, next).is_some() => value(Joint::Equals, typed(text, next).unwrap_or(next)),
        [b'\n' | b'\r', ..] if stands_alone(text, name) => alone(text, next),
        _ if next > at => prose(text, next, &named(Joint::Colon)),
        _ if is_value(text, name) => beside(text, next, &named(Joint::Colon)),
        _ => Fate::Kept,
    }
}
