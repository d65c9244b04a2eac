//! Credentials that a sentence or a line names and nothing joins to their name.

use super::BESIDE;
use crate::telemetry::capture::{
    name::Says,
    value::{self, Fate, Joint, Named, skip},
    word,
};
use std::ops::Range;

/// `PASSWORD 'x'`, as SQL and commands have it; an ordinary word in quotes is only being spoken of.
pub(super) fn clause(text: &[u8], at: usize, name: &Range<usize>) -> Fate {
    let is_loud = text[name.clone()].iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    let said = Named { name: name.clone(), says: Says::Credential, joint: Joint::Quoted, is_quoted: false };
    match value::of(text, at, &said) {
        Fate::Masked(range) if !is_loud && word::is_plain(&text[range.clone()]) => Fate::Kept,
        fate @ (Fate::Masked(_) | Fate::Opens(_) | Fate::Expression(_) | Fate::Kept) => fate,
    }
}

/// Whether the name is all there is on its line.
pub(super) fn stands_alone(text: &[u8], name: &Range<usize>) -> bool {
    let before = &text[..name.start];
    before
        .iter()
        .rev()
        .take(BESIDE)
        .take_while(|byte| !b"\n\"".contains(byte))
        .all(|byte| b" \t#*-".contains(byte))
}

/// A line with one word that no dictionary holds, below a line with the name.
pub(super) fn alone(text: &[u8], at: usize) -> Fate {
    let from = skip(text, at, |byte| byte.is_ascii_whitespace());
    let end = value::line_end(text, from);
    let line = text[from..end].trim_ascii();
    let is_word = !line.is_empty()
        && line.len() <= BESIDE
        && !line.iter().any(|byte| b" \t:=<>(){}[]|\"'`".contains(byte));
    if is_word && !word::is_plain(word::without(line, b'.')) { Fate::Masked(from..end) } else { Fate::Kept }
}

/// `the password is hunter2`, `password for bob: x`, `login bob password x`: the word that a sentence says it is, if that
/// looks like one.
pub(super) fn prose(text: &[u8], at: usize, named: &Named) -> Fate {
    let word_at = |from: usize| {
        from..skip(text, from, |byte| !byte.is_ascii_whitespace() && !b",;\"'`<>()".contains(&byte))
    };
    let first = word_at(at);
    let is_for = [&b"for"[..], b"of"].iter().any(|word| text[first.clone()].eq_ignore_ascii_case(word));
    let whose = word_at(skip(text, first.end, |byte| byte == b' '));
    if is_for && text[whose.clone()].ends_with(b":") {
        return value::of(text, whose.end, named);
    }
    let before = &text[named.name.start.saturating_sub(BESIDE / 2)..named.name.start];
    let mut words = before.trim_ascii_end().rsplit(|byte| byte.is_ascii_whitespace());
    if words.nth(1).is_some_and(|word| word == b"login") {
        return Fate::Masked(first);
    }
    let says_so = [&b"is"[..], b"was", b"is:", b"are", b"of"]
        .iter()
        .any(|is| text[first.clone()].eq_ignore_ascii_case(is));
    let next = if says_so { skip(text, first.end, |byte| byte == b' ') } else { at };
    if says_so && matches!(text.get(next), Some(b'"' | b'\'' | b'`')) {
        let said = Named { name: at..at, says: Says::Credential, joint: Joint::Quoted, is_quoted: false };
        return value::of(text, next, &said);
    }
    if text[first.clone()].ends_with(b":") && says_so && named.says != Says::Perhaps {
        return value::of(text, next, named);
    }
    let said = word_at(next);
    let word = word::without(&text[said.clone()], b'.');
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let name = &text[named.name.clone()];
    let is_code =
        [&b"pin"[..], b"otp", b"passcode", b"totp"].iter().any(|code| name.eq_ignore_ascii_case(code));
    let is_number = (is_code || says_so && named.says == Says::Perhaps) && digits >= 4;
    let is_secret = is_number
        || !word.is_empty() && word::is_mixed(word) && (says_so || word.len() >= 8 && !word.contains(&b'-'));
    if is_secret { Fate::Masked(said.start..said.start + word.len()) } else { Fate::Kept }
}

/// Where what is assigned begins if a type stands between a name and that: `var password string = "x"`.
pub(super) fn typed(text: &[u8], at: usize) -> Option<usize> {
    let end = skip(text, at, |byte| byte.is_ascii_alphanumeric());
    let next = skip(text, end, |byte| byte == b' ');
    let is_assigned = matches!(text[next..], [b'=', other, ..] if other != b'=' && other != b'>');
    (word::is_type(&text[at..end]) && is_assigned).then_some(next + 1)
}
