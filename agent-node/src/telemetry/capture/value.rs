//! How far a credential reaches that stands in a text under its name.

mod bare;
mod code;
mod header;
mod lines;
mod section;
mod yaml;

use super::{name::Says, word};
use bare::bare;
use header::header;
use lines::{below, block, heredoc, is_block};
pub(super) use section::is_headed;
use std::ops::Range;

/// What joins a name and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    /// `name: value`
    Colon,
    /// `name=value`, `name := value`
    Equals,
    /// `name == "value"`, `("name", "value")`: a value in quotes only.
    Quoted,
    /// `--name value`
    Flag,
    /// `| name | value |`
    Cell,
    /// `name => value`
    Arrow,
}

/// A name in a text, and how it stands there.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: Range<usize>,
    pub(super) says: Says,
    pub(super) joint: Joint,
    /// Whether the name is in quotes of its own.
    pub(super) is_quoted: bool,
}

/// What becomes of a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is a credential.
    Masked(Range<usize>),
    /// A structure opens there, and what is in it are credentials.
    Opens(usize),
    /// An expression begins there, and texts in it, up to the end of its line, are credentials.
    Expression(usize),
    /// A call's brackets open there, and texts in them are credentials, but for its first so many arguments.
    Calls(usize, usize),
    /// Lines below that are a block of YAML begin there, and what is in it are credentials.
    Block(usize),
    /// It is none.
    Kept,
}

impl Fate {
    /// What `other` says if this is that there is none.
    pub(super) fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::Kept { other() } else { self }
    }
}

/// Adds the leaves of the block that begins at `from`, below or headed by `name`; where it ends.
pub(super) fn leaves(
    text: &[u8],
    from: usize,
    name: &Range<usize>,
    found: &mut Vec<Range<usize>>,
) -> Range<usize> {
    match is_headed(text, name) {
        true => section::settings(text, from, found),
        false => yaml::leaves(text, from, name, found),
    }
}

/// The longest text in quotes that is followed to its end.
const LONGEST: usize = 8 * 1024;

/// The longest stretch between a name and its value, and the longest sentence that is looked at whether it is one.
const NEAR: usize = 80;

/// The value of `named` that begins at `at`.
pub(super) fn of(text: &[u8], at: usize, named: &Named) -> Fate {
    let at = skip(text, at, |byte| byte == b'*' || byte == b' ' || byte == b'\t');
    // YAML's anchors and tags.
    let at = match text[at..] {
        [b'!' | b'&', next, ..] if named.joint == Joint::Colon && next.is_ascii_alphabetic() => {
            let end = skip(text, at + 1, |byte| byte.is_ascii_alphanumeric() || b"_-!".contains(&byte));
            let next = skip(text, end, |byte| byte == b' ');
            let is_line = text.get(next).is_some_and(|byte| b"\n\r".contains(byte));
            if is_line || next > end && text.get(next) != Some(&b'=') { next } else { at }
        }
        _ => at,
    };
    let rest = &text[at..];
    if named.says == Says::Header && named.joint != Joint::Quoted && !named.is_quoted {
        return header(text, at, named);
    }
    match rest {
        [] => Fate::Kept,
        [b'"' | b'\'' | b'`', ..] => quoted(text, at),
        _ if named.joint == Joint::Quoted => Fate::Kept,
        [b'{' | b'[' | b'(' | b'!' | b'|', ..] if named.joint == Joint::Arrow => Fate::Kept,
        [b'(', ..] if named.joint == Joint::Equals && is_tuple(rest) => Fate::Expression(at),
        [b'{', b'{', ..] | [b'{', b'%', ..] | [b'$', b'(' | b'{', ..] | [b'*', b'*', ..] => {
            bare(text, at, named)
        }
        [b'[', b']', ..] if named.joint == Joint::Equals => {
            code::literal(text, at).map_or(Fate::Expression(at), Fate::Opens)
        }
        [b'{', ..] if is_braced(text, at, named) => {
            Fate::Masked(at + 1..until(text, at, |byte| b"}\n".contains(&byte)))
        }
        [b'{' | b'[', ..] => Fate::Opens(at),
        [b'<', b'<', ..] if named.joint == Joint::Equals => heredoc(text, at),
        [b'\n' | b'\r', ..] if named.joint == Joint::Colon => below(text, at, named),
        [b'|' | b'>', ..] if named.joint == Joint::Colon && is_block(rest) => {
            Fate::Masked(block(text, at, named))
        }
        _ => bare(text, at, named),
    }
}

/// Where what begins at `at` stops being made of `is`; at most [`NEAR`] bytes on.
pub(super) fn skip(text: &[u8], at: usize, is: impl Fn(u8) -> bool) -> usize {
    text[at..]
        .iter()
        .take(NEAR)
        .position(|byte| !is(*byte))
        .map_or(text.len().min(at + NEAR), |more| at + more)
}

fn until(text: &[u8], at: usize, is: impl Fn(u8) -> bool) -> usize {
    text[at..].iter().position(|byte| is(*byte)).map_or(text.len(), |more| at + more)
}

/// The end of the line that `at` is in.
pub(super) fn line_end(text: &[u8], at: usize) -> usize {
    until(text, at, |byte| byte == b'\n' || byte == b'\r')
}

/// What stands before `at` on its line, or in the text in quotes that begins there as something's value; as far as is near.
pub(super) fn line_before(text: &[u8], at: usize) -> &[u8] {
    let near = &text[at.saturating_sub(2 * NEAR)..at];
    let line = near.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let opens = |at: &usize| {
        line[*at] == b'"' && line[..*at].trim_ascii_end().last().is_some_and(|byte| b":[({=".contains(byte))
    };
    (0..line.len()).rev().find(opens).map_or(line, |at| &line[at + 1..])
}

/// Where the statement that goes on at `at` ends: at a semicolon outside of quotes, or with the line.
pub(super) fn statement_end(text: &[u8], at: usize) -> usize {
    let mut quote = None;
    for (place, byte) in text.iter().enumerate().skip(at) {
        match (*byte, quote) {
            (b';', None) | (b'\n' | b'\r', _) => return place,
            (byte, Some(open)) if byte == open => quote = None,
            (b'"' | b'\'', None) => quote = Some(*byte),
            _ => {}
        }
    }
    text.len()
}

/// Whether braces are the quotes that connection strings have: `Uid=bob;Pwd={x}`.
fn is_braced(text: &[u8], at: usize, named: &Named) -> bool {
    let is_string = named.name.start.checked_sub(1).is_some_and(|place| text[place] == b';');
    named.joint == Joint::Equals && is_string && text.get(at + 1).is_some_and(u8::is_ascii_alphanumeric)
}

/// Whether several texts in brackets stand there: `("bob", "x")`.
fn is_tuple(rest: &[u8]) -> bool {
    let inner = rest[1..].iter().find(|byte| **byte != b' ');
    inner.is_some_and(|byte| b"\"'".contains(byte))
}

/// Where the quoted text ends that begins behind the quote at `at`; the line's end if nothing closes it.
fn closing(text: &[u8], at: usize) -> usize {
    let (quote, mut is_escaped) = (text[at], false);
    for (place, byte) in text.iter().enumerate().skip(at + 1).take(LONGEST) {
        match *byte {
            byte if byte == quote && !is_escaped => return place,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    line_end(text, at)
}

fn quoted(text: &[u8], at: usize) -> Fate {
    let triple = [text[at]; 3];
    let inner = match text[at..].starts_with(&triple) {
        true => {
            let from = at + 3;
            let ends = text[from..].windows(3).position(|three| three == triple);
            from..ends.map_or(text.len(), |more| from + more)
        }
        false => at + 1..closing(text, at),
    };
    let is_kept = inner.is_empty() || inner.len() <= NEAR * 2 && word::is_harmless(&text[inner.clone()]);
    let after = (inner.end + 1).min(text.len());
    match is_kept {
        // What is added to it may be one: `"Bearer " + "x"`.
        true if text[skip(text, after, |byte| byte == b' ')..].starts_with(b"+") => Fate::Expression(after),
        true => Fate::Kept,
        false => Fate::Masked(inner),
    }
}

/// Where the structure that opens at `at` closes.
pub(super) fn structure(text: &[u8], at: usize) -> usize {
    let (opens, mut depth, mut place) = (text[at], 0_usize, at);
    let closes = match opens {
        b'{' => b'}',
        b'[' => b']',
        _ => b')',
    };
    while place < text.len() {
        match text[place] {
            byte if byte == opens => depth += 1,
            byte if byte == closes => depth -= 1,
            b'"' => place = closing(text, place),
            _ => {}
        }
        place += 1;
        if depth == 0 {
            return place;
        }
    }
    text.len()
}
