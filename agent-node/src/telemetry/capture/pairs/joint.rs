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
    if matches!(name, b"PWD" | b"OLDPWD") && matches!(before, Some(b'$' | b'{')) {
        return None;
    }
    let is_parameter = matches!(before, Some(b'?' | b'&' | b';')) && text.get(at.end) == Some(&b'=');
    if is_parameter && name::says_in_query(name) {
        return Some(Says::Credential);
    }
    if matches!(before, Some(b' ' | b'.')) && SECOND.iter().any(|second| name.eq_ignore_ascii_case(second)) {
        let first = text[..at.start - 1]
            .iter()
            .rev()
            .take(16)
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        let kinds = [
            &b"auth"[..],
            b"encryption",
            b"master",
            b"shared",
            b"signing",
            b"secret",
            b"pass",
            b"otp",
            b"pin",
            b"sms",
            b"mfa",
            b"2fa",
            b"totp",
            b"time",
        ];
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
    if matches!(says, Says::Credential | Says::Several) && value::is_headed(text, name) {
        return Fate::Block((value::line_end(text, name.end) + 1).min(text.len()));
    }
    let quote = text.get(name.end).filter(|byte| b"\"'`".contains(byte));
    let path = path(text, name.start);
    let is_quoted = quote.is_some() && path.checked_sub(1).map(|at| &text[at]) == quote;
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
        [b'-', b'-', b'>', ..] | [b'=', b'=', b'>', ..] => value(Joint::Colon, next + 3),
        [b'=', b'=', b'=', ..] | [b'!', b'=', b'=', ..] => value(Joint::Quoted, next + 3),
        [b'=' | b'!', b'=', ..] => value(Joint::Quoted, next + 2),
        [b'=' | b'-', b'>', ..] if text[name.end] == b']' || is_quoted || is_symbol => {
            value(Joint::Equals, next + 2)
        }
        [b'=', b'>', ..] => value(Joint::Arrow, next + 2),
        [b'=', ..] => value(Joint::Equals, next + 1),
        [b':', b':', b' ', ..] => value(Joint::Colon, next + 2),
        [b':', b':', ..] => call::method(text, next),
        [b':' | b'?' | b'+', b'=', ..] => value(Joint::Equals, next + 2),
        [b'<', b'-', b' ', ..] => value(Joint::Quoted, next + 3),
        [b':', ..] if is_in_arn(text, name) => Fate::Kept,
        [b':', b'?', ..] if text[..name.start].ends_with(b"{") => Fate::Kept,
        [b':', b' ', b'"' | b'\'', b' ' | b')' | b'\n' | b',' | b';', ..]
            if is_within(text, name, next + 2) =>
        {
            Fate::Kept
        }
        [b':', after @ ..] if is_prompt(text, next + 1, after) => answer(text, next + 1),
        [b':', ..] => value(Joint::Colon, next + 1),
        [b'-', b'>', after, ..] if next == name.end && after.is_ascii_alphabetic() => Fate::Kept,
        [b'?', b':', ..] | [b'-', b'>', ..] => value(Joint::Colon, next + 2),
        [0xe2, 0x86, 0x92, ..] | [0xef, 0xbc, 0x9a, ..] => value(Joint::Colon, next + 3),
        [b'.', b'.', b'.', ..] => dotted(text, next, &named(Joint::Colon)),
        [b'>', ..] if is_quoted && is_labelled(text, next + 1) => Fate::Kept,
        [b'>', ..] if is_quoted => content(text, next + 1),
        [b'<', b'/', ..] if next == name.end => next_element(text, next),
        [b'>', ..] if next == name.end && is_tag(text, name) => content(text, next + 1),
        [b' ' | b'/' | b'>', ..] => Fate::Kept,
        [b'(', ..] | [b'{', b'"' | b'\'', ..] if next == name.end => Fate::Calls(next, 0),
        [b'[', ..] if next == name.end => item(text, next, &named(Joint::Quoted)),
        [b'?', b' ' | b'\n' | b'\r', ..] if !is_quoted => answered(text, next),
        _ if text[name.clone()].eq_ignore_ascii_case(b"by") => value(Joint::Equals, next),
        [b'I' | b'i', b'N' | b'n', b' ', b'(', ..] => Fate::Calls(next + 3, 0),
        [b'!', b'(', ..] if next == name.end => Fate::Calls(next + 1, 0),
        [b'(' | b'[', ..] if next > at && !is_quoted => in_brackets(text, next, &named(Joint::Colon)),
        [b'\n', ..] if next == at && text[name.start] == b'-' => below(text, next),
        _ if next > at && text[name.start] == b'-' => value(Joint::Flag, next),
        [b',', ..] if is_argument(text, &(path..name.end), says, is_quoted) => {
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
        _ if is_value(text, name) => {
            beside(text, next, &named(Joint::Colon)).or_else(|| call::method(text, name.end))
        }
        [b'\n' | b'\r', ..] if stands_alone(text, name) => alone(text, next),
        _ if next > at && begun(text, name, next) => value(Joint::Equals, next),
        _ if next > at && !text[..name.start].ends_with(b"$") => prose(text, next, &named(Joint::Colon)),
        [b'.', ..] if next == name.end => {
            call::method(text, name.end).or_else(|| member(text, next, &named(Joint::Equals)))
        }
        _ => call::method(text, name.end),
    }
}

/// Where the path begins that a name at `at` ends: `db.password`.
fn path(text: &[u8], at: usize) -> usize {
    if at.checked_sub(1).is_none_or(|before| text[before] != b'.') {
        return at;
    }
    let is_of_path = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    at - text[..at].iter().rev().take(48).take_while(is_of_path).count()
}

/// The item of a list below an option that takes it: `- --token` and `- x`.
fn below(text: &[u8], at: usize) -> Fate {
    let from = skip(text, at, |byte| byte.is_ascii_whitespace());
    let said = from + 2..value::line_end(text, from);
    match text[from..] {
        [b'-', b' ', next, ..] if next != b'-' && !word::is_harmless(text[said.clone()].trim_ascii()) => {
            Fate::Masked(said)
        }
        _ => Fate::Kept,
    }
}

/// What is set below a credential's name: `secret.value=x`.
fn member(text: &[u8], at: usize, named: &Named) -> Fate {
    let end = skip(text, at, |byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let last = text[at..end].rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    let is_setting = !last.is_empty() && !name::is_about(last) && !name::is_otherwise(last);
    match &text[end..] {
        [b'=', after, ..] if is_setting && !b"= \t>".contains(after) => value::of(text, end + 1, named),
        _ => Fate::Kept,
    }
}

/// Whether the name ends a text in quotes that asks for it: `expect "password:"`.
fn is_prompt(text: &[u8], at: usize, after: &[u8]) -> bool {
    let is_closing = match after {
        [b' ', b'"' | b'\'', next, ..] | [b'"' | b'\'', next, ..] => !next.is_ascii_alphanumeric(),
        _ => false,
    };
    is_closing && answer(text, at) != Fate::Kept
}

/// Whether the quote at `at` closes a text that the name is within: `input("Password: ")`.
fn is_within(text: &[u8], name: &Range<usize>, at: usize) -> bool {
    let line = value::line_before(text, name.start);
    line.iter().filter(|byte| **byte == text[at]).count() % 2 == 1
}

/// Whether the element at `at` only says what a field is called: `<label for="password">Password</label>`.
fn is_labelled(text: &[u8], at: usize) -> bool {
    let said = &text[at..skip(text, at, |byte| byte != b'<')];
    word::is_common(said.trim_ascii()) || word::is_remark(said)
}

/// The text in quotes that is sent as the answer to a prompt.
fn answer(text: &[u8], at: usize) -> Fate {
    let near = &text[at..text.len().min(at + 120)];
    let send = near.windows(4).position(|part| part == b"send").map(|more| at + more);
    let from = send.map(|send| skip(text, send, |byte| !b"\"'\n".contains(&byte)));
    match from.filter(|from| text.get(*from).is_some_and(|byte| b"\"'".contains(byte))) {
        Some(from) => value::of(
            text,
            from,
            &Named { name: at..at, says: Says::Credential, joint: Joint::Quoted, is_quoted: false },
        ),
        None => Fate::Kept,
    }
}

/// The word behind a question that is most likely its answer: `the password? x17y`.
fn answered(text: &[u8], at: usize) -> Fate {
    let near = &text[at..text.len().min(at + 80)];
    let mut words = near.split(|byte| byte.is_ascii_whitespace() || b",;\"'`()<>".contains(byte));
    let mut from = at;
    let said = words.find_map(|word| {
        let place = from..from + word.len();
        from = place.end + 1;
        let word = word::without(word, b'.');
        (word::is_mixed(word) && place.end < at + near.len()
            || word::is_mixed(word) && at + near.len() == text.len())
        .then_some(place.start..place.start + word.len())
    });
    said.map_or(Fate::Kept, Fate::Masked)
}

/// What is assigned to an item: `passwords["bob"] = "x"`, `char password[] = "x"`.
fn item(text: &[u8], at: usize, named: &Named) -> Fate {
    let close = skip(text, at, |byte| !b"]\n".contains(&byte));
    let sign = skip(text, (close + 1).min(text.len()), |byte| byte == b' ');
    match text[sign..] {
        [b'=', other, ..] if text[close..].starts_with(b"]") && other != b'=' => {
            value::of(text, sign + 1, named)
        }
        _ => call::method(text, close.min(text.len())),
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
