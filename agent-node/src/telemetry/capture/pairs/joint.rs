//! What joins a name and its value in a text, and what comes of it.

use super::{
    beside::{back, beside, is_argument, is_first_cell, is_value},
    call,
    markup::{content, is_tag, next_element, opened},
    sentence::{alone, begun, clause, in_brackets, prose, stands_alone, typed},
};
use crate::telemetry::capture::{
    name::{self, Says},
    value::{self, Fate, Joint, Named, skip},
    word,
};
use std::ops::Range;

/// Words that make a credential's name with the one before them: `api key`, `seed phrase`.
const SECOND: &[&[u8]] = &[b"key", b"keys", b"phrase", b"code", b"codes", b"word"];

/// What the word at `at` says where it stands.
pub(super) fn says(text: &[u8], at: &Range<usize>) -> Option<Says> {
    let name = &text[at.clone()];
    let before = at.start.checked_sub(1).map(|place| text[place]);
    let is_parameter = matches!(before, Some(b'?' | b'&' | b';')) && text.get(at.end) == Some(&b'=');
    if is_parameter && name::says_in_query(name) {
        return Some(Says::Credential);
    }
    if before == Some(b' ') && SECOND.iter().any(|second| name.eq_ignore_ascii_case(second)) {
        let first =
            text[..at.start - 1].iter().rev().take(16).take_while(|byte| byte.is_ascii_alphabetic()).count();
        let kinds = [&b"auth"[..], b"encryption", b"master", b"shared", b"signing", b"secret", b"pass"];
        let first = &text[at.start - 1 - first..at.start - 1];
        let is_kind = kinds.iter().any(|kind| first.eq_ignore_ascii_case(kind));
        return if is_kind {
            Some(Says::Credential)
        } else {
            name::says(&text[at.start - 1 - first.len()..at.end])
        };
    }
    let is_by = name.eq_ignore_ascii_case(b"by") && {
        let near = text[at.start.saturating_sub(80)..at.start].to_ascii_lowercase();
        let clause = near.rsplit(|byte| b"\n;".contains(byte)).next().unwrap_or_default();
        clause.windows(11).any(|part| part == b"identified ")
    };
    if is_by { Some(Says::Credential) } else { name::says(name) }
}

/// What becomes of what goes under `name`.
pub(super) fn fate(text: &[u8], name: &Range<usize>, says: Says) -> Fate {
    joined(text, name, says).or_else(|| back(text, name))
}

fn joined(text: &[u8], name: &Range<usize>, says: Says) -> Fate {
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
    let is_symbol = name.start.checked_sub(1).is_some_and(|at| b":]".contains(&text[at]));
    if let Some(from) = call::instead(text, name.end) {
        return value(Joint::Quoted, from);
    }
    match &text[next..] {
        [b'=', b'=', ..] => value(Joint::Quoted, next + 2),
        [b'=' | b'-', b'>', ..] if text[name.end] == b']' || is_quoted || is_symbol => {
            value(Joint::Equals, next + 2)
        }
        [b'=', b'>', ..] => value(Joint::Arrow, next + 2),
        [b'=', ..] => value(Joint::Equals, next + 1),
        [b':', b':', ..] => call::method(text, next),
        [b':', b'=', ..] => value(Joint::Equals, next + 2),
        [b':', ..] if is_in_arn(text, name) => Fate::Kept,
        [b':', ..] => value(Joint::Colon, next + 1),
        [b'-', b'>', after, ..] if next == name.end && after.is_ascii_alphabetic() => Fate::Kept,
        [b'?', b':', ..] | [b'-', b'>', ..] => value(Joint::Colon, next + 2),
        [0xe2, 0x86, 0x92, ..] | [0xef, 0xbc, 0x9a, ..] => value(Joint::Colon, next + 3),
        [b'.', b'.', b'.', ..] => dotted(text, next, &named(Joint::Colon)),
        [b'>', ..] if is_quoted => content(text, next + 1),
        [b'<', b'/', ..] if next == name.end => next_element(text, next),
        [b'>', ..] if next == name.end && is_tag(text, name) => content(text, next + 1),
        [b' ' | b'/' | b'>', ..] => Fate::Kept,
        [b'(', ..] if next == name.end => Fate::Calls(next, 0),
        [b'!', b'(', ..] if next == name.end => Fate::Calls(next + 1, 0),
        [b'(', ..] if next > at && !is_quoted => in_brackets(text, next, says),
        _ if next > at && text[name.start] == b'-' => value(Joint::Flag, next),
        [b',', ..] if is_argument(text, name, says, is_quoted) => {
            value(Joint::Quoted, skip(text, next + 1, |byte| byte.is_ascii_whitespace()))
        }
        [b'|', ..] if is_first_cell(text, name) => value(Joint::Cell, next + 1),
        [b'"' | b'\'', ..] if next > at && says != Says::Perhaps && !is_quoted => clause(text, next, name),
        _ if is_quoted => beside(text, next, &named(Joint::Colon)).or_else(|| call::method(text, next)),
        _ if next > at && name.start > 0 && is_tag(text, name) => {
            beside(text, next, &named(Joint::Colon)).or_else(|| opened(text, next))
        }
        _ if text[at..next].contains(&b'\t')
            && stands_alone(text, name)
            && !text[next..value::line_end(text, next)].contains(&b'\t') =>
        {
            value(Joint::Colon, next)
        }
        _ if typed(text, next).is_some() => value(Joint::Equals, typed(text, next).unwrap_or(next)),
        _ if is_value(text, name) => beside(text, next, &named(Joint::Colon)),
        [b'\n' | b'\r', ..] if stands_alone(text, name) => alone(text, next),
        _ if next > at && begun(text, name, next) => value(Joint::Equals, next),
        _ if next > at => prose(text, next, &named(Joint::Colon)),
        _ => call::method(text, name.end),
    }
}

/// `password ..... x`, unless a sentence goes on behind the dots.
fn dotted(text: &[u8], at: usize, named: &Named) -> Fate {
    let from = skip(text, at, |byte| b". ".contains(&byte));
    let end = skip(text, from, |byte| byte.is_ascii_alphanumeric());
    if word::is_common(&text[from..end]) { Fate::Kept } else { value::of(text, from, named) }
}

/// Whether the name is a part of one of Amazon's names, which are joined by colons.
fn is_in_arn(text: &[u8], name: &Range<usize>) -> bool {
    let near = &text[name.start.saturating_sub(96)..name.start];
    let word =
        near.rsplit(|byte| byte.is_ascii_whitespace() || b"\"'".contains(byte)).next().unwrap_or_default();
    word.starts_with(b"arn:")
}
