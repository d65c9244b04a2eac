//! Words that are code: they say where a value comes from, and what it is they don't.

use super::{Joint, NEAR, Named, skip};
use crate::telemetry::capture::{name, word};
use std::ops::Range;

/// Words of a language before an expression.
const BEFORE: &[&[u8]] =
    &[b"await", b"new", b"mut", b"ref", b"yield", b"return", b"not", b"async", b"match", b"try", b"unsafe"];

/// Where the expression begins that words of the language may stand before.
pub(super) fn after_keywords(text: &[u8], mut at: usize) -> usize {
    for _ in 0..2 {
        let end = skip(text, at, |byte| byte.is_ascii_alphabetic());
        let next = skip(text, end, |byte| byte == b' ');
        let is_more = next > end && text.get(next).is_some_and(u8::is_ascii_alphabetic);
        if !is_more || !BEFORE.contains(&&text[at..end]) {
            break;
        }
        at = next;
    }
    at
}

/// Where the code ends that stands at `place`, if it is code: `next_token()`, `tokens[i]`, `form.password`,
/// `hashed_password`, `Secret<String>`.
pub(super) fn end(text: &[u8], place: &Range<usize>, named: &Named) -> Option<usize> {
    let said = &text[place.clone()];
    let is_own = ends_in(&text[named.name.clone()], said);
    let is_spaced = place.start.checked_sub(1).is_some_and(|at| text[at] == b' ');
    let is_argument = named.name.start.checked_sub(1).is_some_and(|at| b"( ,{".contains(&text[at]));
    let is_name = said.first().is_some_and(|byte| byte.is_ascii_alphabetic() || b"_$".contains(byte))
        && said.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.:?!$".contains(byte))
        && ![Joint::Flag, Joint::Cell].contains(&named.joint);
    if !is_name {
        return None;
    }
    let near = &text[place.end..text.len().min(place.end + NEAR)];
    let until = |close: u8| near.iter().position(|byte| *byte == close || *byte == b'\n');
    let inner = |close: u8| until(close).filter(|end| near[*end] == close).map(|end| &near[1..end]);
    let is_said_so = is_path(said) || is_known(said);
    let is_code = is_spaced || is_argument && named.joint == Joint::Equals;
    match near.first() {
        Some(b'(') => {
            let inner = inner(b')')?;
            let is_it = inner.trim_ascii().is_empty() && !word::is_mixed(said)
                || is_code && (is_said_so || inner.split(|byte| !is_of_name(*byte)).any(is_known));
            is_it.then_some(place.end)
        }
        Some(b'[') => {
            let inner = inner(b']')?;
            let is_index = inner.iter().all(|byte| is_of_name(*byte) || b".\"':+-".contains(byte));
            (is_code && is_index && is_said_so).then(|| place.end + inner.len() + 2)
        }
        Some(b'<') => {
            let inner = inner(b'>')?;
            let is_type = said[0].is_ascii_uppercase()
                && inner.first().is_some_and(|byte| byte.is_ascii_uppercase() || b"&'".contains(byte))
                || word::is_type(inner);
            (is_type && !word::is_mixed(said)).then(|| place.end + inner.len() + 2)
        }
        _ if is_own || is_code && matches!(said, b"hash" | b"hashed") => Some(place.end),
        _ if is_path(said) => {
            let mut parts = said.split(|byte| b".:?!".contains(byte)).filter(|part| !part.is_empty());
            let is_plain = parts
                .clone()
                .all(|part| part.iter().all(|byte| byte.is_ascii_alphabetic() || b"_$".contains(byte)));
            let is_named = parts
                .next_back()
                .is_some_and(|last| name::says(last).is_some() || matches!(last, b"hash" | b"value"));
            // A function's own argument: `token => token.id`.
            let is_argument = named.joint == Joint::Arrow
                && parts.next().is_some_and(|first| ends_in(&text[named.name.clone()], first));
            (is_code && is_plain && (is_named || is_argument)).then_some(place.end)
        }
        _ => {
            let is_it = word::is_known_name(said) && name::says(said).is_some();
            (is_code && is_it).then_some(place.end)
        }
    }
}

/// Where the braces open of what Go writes a list or a map with: `map[string]string{"bob": "x"}`.
pub(super) fn literal(text: &[u8], at: usize) -> Option<usize> {
    let opens = skip(text, at, |byte| is_of_name(byte) || b"*.[]".contains(&byte));
    (text.get(opens) == Some(&b'{') && text[at..opens].contains(&b']')).then_some(opens)
}

/// Whether an expression goes on there whose texts may be credentials: a call, or what is taken if there is nothing else.
pub(super) fn goes_on(text: &[u8], at: usize) -> bool {
    let index = if text.get(at) == Some(&b'[') { skip(text, at, |byte| !b"]\n".contains(&byte)) } else { at };
    let next = skip(text, index, |byte| b" )]".contains(&byte));
    let rest = &text[next..];
    matches!(text.get(at), Some(b'(' | b'.' | b'?'))
        || [&b"||"[..], b"??", b"?:", b"or ", b"if ", b"+ ", b"? "].iter().any(|sign| rest.starts_with(sign))
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_path(said: &[u8]) -> bool {
    let is_joined = said.contains(&b'.') || said.windows(2).any(|two| two == b"::");
    is_joined && !said.ends_with(b".") && !said.starts_with(b".")
}

fn is_known(said: &[u8]) -> bool {
    let said = said.strip_prefix(b"$_").unwrap_or(said);
    word::is_common(said) || word::is_known_name(said) || name::says(said).is_some() && !word::is_mixed(said)
}

/// Whether `name` ends in the very word that is said, which is one for a credential: `db_password = password`.
fn ends_in(name: &[u8], said: &[u8]) -> bool {
    let Some(from) = name.len().checked_sub(said.len()) else { return false };
    let is_border = from == 0
        || said.is_empty()
        || !name[from - 1].is_ascii_alphanumeric()
        || name[from].is_ascii_uppercase();
    is_border && !said.is_empty() && name[from..].eq_ignore_ascii_case(said) && name::says(said).is_some()
}
