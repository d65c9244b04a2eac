//! Calls whose name, or whose argument's or owner's, says that texts in their brackets are credentials.

use super::is_word;
use crate::telemetry::capture::{
    name,
    value::{self, Fate, skip},
    word,
};
use std::ops::Range;

/// How far a call's brackets are followed to where they close.
const LONGEST: usize = 1_024;

/// Calls that take a credential behind so many other arguments.
const TAKES: &[(&str, usize)] = &[
    ("authenticate", 1),
    ("cookieparser", 0),
    ("createhmac", 1),
    ("createsuperuser", 2),
    ("createuser", 2),
    ("fernet", 0),
    ("ftp", 2),
    ("ftptls", 2),
    ("getconnection", 1),
    ("login", 1),
    ("logon", 1),
    ("mysqliconnect", 2),
    ("networkcredential", 1),
    ("newfromslice", 0),
    ("pdo", 1),
    ("signer", 0),
    ("signin", 1),
    ("usernamepassword", 1),
];

/// What is done to a credential with another text that is one.
const WITH: &[&str] = &[
    "add",
    "assign",
    "basic",
    "bearer",
    "compareto",
    "default",
    "eq",
    "equal",
    "equals",
    "expose",
    "fill",
    "from",
    "fromstr",
    "getordefault",
    "getorelse",
    "insert",
    "is",
    "new",
    "of",
    "or",
    "orelse",
    "push",
    "put",
    "sendkeys",
    "set",
    "settext",
    "setvalue",
    "tobe",
    "toequal",
    "tostrictequal",
    "type",
    "unwrapor",
    "unwraporelse",
    "value",
    "with",
    "write",
];

/// What is done to a token with a credential behind another argument.
const SIGNS: &[&str] = &["decode", "encode", "sign", "verify"];

/// Calls that hold two credentials against each other.
const COMPARES: &[&str] = &["assert", "check", "compare", "equal", "matches", "verify"];

/// What is in the brackets that open at `open`, but for the first `others` arguments.
pub(super) fn arguments(text: &[u8], open: usize, others: usize) -> Range<usize> {
    let near = &text[..text.len().min(open + LONGEST)];
    let close = value::structure(near, open);
    let end = if b")}".contains(&near[close - 1]) { close } else { value::line_end(text, open) };
    let mut from = open + 1;
    for _ in 0..others {
        match text[from..end.max(from)].iter().position(|byte| *byte == b',') {
            Some(more) => from += more + 1,
            None => return end..end,
        }
    }
    from..end.max(from)
}

/// Calls that say nothing of credentials, and take one.
pub(super) fn takes(text: &[u8], name: &Range<usize>) -> Fate {
    if &text[name.clone()] == b"toCharArray" {
        // Java keeps passwords so: `"x".toCharArray()`.
        let near = &text[name.start.saturating_sub(128)..name.start];
        let inner = near.strip_suffix(b"\".").unwrap_or_default();
        let open = inner.iter().rposition(|byte| b"\"\n".contains(byte)).filter(|at| inner[*at] == b'"');
        let start = name.start - near.len();
        return open.map_or(Fate::Kept, |open| Fate::Masked(start + open + 1..start + inner.len()));
    }
    if matches!(text.get(name.end), Some(b'.' | b':')) {
        return hashed(text, name);
    }
    if text.get(name.end) != Some(&b'(') {
        return Fate::Kept;
    }
    let (plain, length) = name::plain(&text[name.clone()]);
    match TAKES.iter().find(|(known, _)| known.as_bytes() == &plain[..length]) {
        Some((_, others)) => Fate::Calls(name.end, *others),
        None => Fate::Kept,
    }
}

/// What a library is given to make a hash of: `bcrypt.hash("x")`, `passwordEncoder.encode("x")`.
fn hashed(text: &[u8], name: &Range<usize>) -> Fate {
    let (owner, length) = name::plain(&text[name.clone()]);
    let is_hasher = [&b"crypt"[..], b"hash", b"hasher", b"argon2", b"encoder", b"pbkdf2", b"scrypt", b"hmac"]
        .iter()
        .any(|known| owner[..length].ends_with(known));
    let from = skip(text, name.end, |byte| b".:".contains(&byte));
    let end = skip(text, from, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let (call, length) = name::plain(&text[from..end]);
    let is_hashed = [
        &b"hash"[..],
        b"hashsync",
        b"make",
        b"encode",
        b"matches",
        b"compare",
        b"comparesync",
        b"verify",
        b"new",
    ];
    let is_it = is_hasher && is_hashed.contains(&&call[..length]) && text.get(end) == Some(&b'(');
    if is_it { Fate::Calls(end, 0) } else { Fate::Kept }
}

/// What is called on a name, or made of the type it names: `password.set("x")`, `Password::new("x")`,
/// `getByLabel("Password").fill("x")`, `env("TOKEN").unwrap_or("x")`. `at` is where the name has ended.
pub(super) fn method(text: &[u8], at: usize) -> Fate {
    let mut at = skip(text, at, |byte| b"\"'`)]".contains(&byte));
    for _ in 0..3 {
        let from = skip(text, at, |byte| b".:?!".contains(&byte));
        let end = skip(text, from, |byte| is_word(byte) && byte != b'-');
        if from == at || end == from || text.get(end) != Some(&b'(') {
            break;
        }
        let (plain, length) = name::plain(&text[from..end]);
        if WITH.iter().any(|known| known.as_bytes() == &plain[..length]) {
            return Fate::Calls(end, 0);
        }
        if SIGNS.iter().any(|known| known.as_bytes() == &plain[..length]) {
            return Fate::Calls(end, 1);
        }
        // Another call in between: `expect(token).not().toBe("x")`.
        if text.get(end + 1) != Some(&b')') {
            break;
        }
        at = end + 2;
    }
    Fate::Kept
}

/// What is taken if there is nothing under a name: `process.env.TOKEN || "x"`, `getenv('TOKEN') ?: 'x'`.
pub(super) fn instead(text: &[u8], at: usize) -> Option<usize> {
    let at = skip(text, at, |byte| b"\"'`)]".contains(&byte));
    let next = skip(text, at, |byte| byte == b' ');
    let signs = [
        &b"||"[..],
        b"LIKE ",
        b"like ",
        b"ILIKE ",
        b", with: ",
        b"with ",
        b"??",
        b"?:",
        b"or ",
        b"| default(",
        b"|default(",
        b"//",
        b"else ",
    ];
    let sign = signs.iter().find(|sign| text[next..].starts_with(sign))?;
    let from = skip(text, next + sign.len(), |byte| byte == b' ' || byte == b'=');
    matches!(text.get(from), Some(b'"' | b'\'' | b'`')).then_some(from)
}

/// The text that a credential is held against before its name: `"x" == token`, `assert_eq!("x", token)`.
pub(super) fn held_against(text: &[u8], name: &Range<usize>) -> Option<Range<usize>> {
    let near = &text[name.start.saturating_sub(128)..name.start];
    let path = near.iter().rev().take_while(|byte| is_word(**byte) || b".&*".contains(byte)).count();
    let before = near[..near.len() - path].trim_ascii_end();
    if let Some(said) = said_before(text, before, name.start - near.len()) {
        return Some(said);
    }
    let (before, is_call) = match before {
        [before @ .., b'=', b'=', b'='] | [before @ .., b'=', b'='] | [before @ .., b'!', b'='] => {
            (before, false)
        }
        [before @ .., b','] => (before, true),
        [before @ .., b'('] => {
            (before.strip_suffix(b".equals").or_else(|| before.strip_suffix(b".eq"))?, false)
        }
        _ => return None,
    };
    let before = before.trim_ascii_end();
    let quote = *before.last().filter(|byte| b"\"'".contains(byte))?;
    let inner = &before[..before.len() - 1];
    let open = inner.iter().rposition(|byte| *byte == quote)?;
    let start = name.start - near.len();
    let function = inner[..open].strip_suffix(b"(").map(|rest| {
        let word = rest.iter().rev().take_while(|byte| is_word(**byte) || **byte == b'!').count();
        name::plain(&rest[rest.len() - word..])
    });
    let is_held = !is_call
        || function.is_some_and(|(plain, length)| {
            COMPARES
                .iter()
                .any(|known| plain[..length].windows(known.len()).any(|part| part == known.as_bytes()))
        });
    (is_held && !inner[open..].contains(&b'\n')).then_some(start + open + 1..start + inner.len())
}

/// The word that a sentence says is one: `use x17y as the password`.
fn said_before(text: &[u8], before: &[u8], start: usize) -> Option<Range<usize>> {
    let mut words = before.rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut last = words.next()?;
    if [&b"the"[..], b"my", b"your", b"a", b"our", b"their"].contains(&last) {
        last = words.next()?;
    }
    let word = [&b"as"[..], b"is"].contains(&last).then(|| words.next()).flatten()?;
    let inner = word::trimmed(word);
    let at = before.windows(inner.len().max(1)).rposition(|part| part == inner)?;
    let place = start + at..start + at + inner.len();
    (word::is_mixed(inner) && text.get(place.clone()) == Some(inner)).then_some(place)
}

/// What is piped into something that reads a credential: `echo x | docker login --password-stdin`.
pub(super) fn piped(text: &[u8], name: &Range<usize>) -> Option<Range<usize>> {
    let near = &text[name.start.saturating_sub(256)..name.start];
    let start = name.start - near.len();
    let line = near.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let pipe = line + near[line..].iter().rposition(|byte| b"|>".contains(byte))?;
    let said = &near[line..pipe];
    let from = [&b"echo "[..], b"printf "]
        .iter()
        .find_map(|word| said.windows(word.len()).position(|part| part == *word).map(|at| at + word.len()))?;
    let inner = said[from..].trim_ascii();
    let options = if inner.starts_with(b"-n ") { 3 } else { 0 };
    let from = start + line + from + (said[from..].len() - said[from..].trim_ascii_start().len()) + options;
    let inner = &inner[options..];
    let is_reference = word::is_reference(inner.trim_ascii());
    let is_quoted_reference = inner.len() > 2 && word::is_reference(&inner[1..inner.len() - 1]);
    (!inner.is_empty() && !is_reference && !is_quoted_reference).then_some(from..from + inner.len())
}
