//! Credentials by their look: keys of well-known providers, signed tokens, hashes of passwords, private keys, what stands
//! behind `Bearer`, in the user's part of a URL, and behind `-u`.

mod command;
mod known;
mod url;

use super::word;
use command::{here, option, positional};
use known::{ADDRESSES, HASHES, KEYS};
use std::ops::Range;
use url::{in_url, login, passfile};

/// How long the rest of such a key is at least.
const SHORTEST: usize = 12;

/// Adds where credentials stand in `text`.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while at < text.len() {
        let is_begun = at == 0 || !is_key(text[at - 1]) || text[at - 1] == b'.';
        let seen = match text[at] {
            b'-' if text[at..].starts_with(b"-----BEGIN ") => private_key(text, at),
            b'P' if text[at..].starts_with(b"Private-Lines:") => putty_key(text, at),
            b'-' if at == 0 || b" \t\n\r\"'`(".contains(&text[at - 1]) => option(text, at),
            b'<' if text[at..].starts_with(b"<<<") => here(text, at),
            b'n' | b'h' | b'v' | b's' | b'r' if is_begun => positional(text, at),
            b'\n' | b'"' if at + 1 < text.len() => passfile(text, at + 1),
            b'@' => login(text, at),
            b':' if text[at..].starts_with(b"://") => in_url(text, at + 3),
            b'$' | b'{' => hash(text, at),
            b'B' | b'b' if is_begun => scheme(text, at),
            b'0'..=b'9' if is_begun => bot(text, at),
            _ => None,
        };
        let seen = seen.or_else(|| {
            let is_letter = text[at].is_ascii_alphabetic() && is_begun;
            is_letter.then(|| key(text, at).or_else(|| address(text, at))).flatten()
        });
        let seen = if at == 0 { seen.or_else(|| passfile(text, 0)) } else { seen };
        match seen {
            Some(range) => {
                at = range.end.max(at + 1);
                found.push(range);
            }
            None => at += 1,
        }
    }
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

fn run(text: &[u8], at: usize, is: impl Fn(u8) -> bool) -> usize {
    text[at..].iter().position(|byte| !is(*byte)).map_or(text.len(), |more| at + more)
}

fn key(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    if rest.starts_with(b"eyJ") {
        let end = run(text, at, is_key);
        let dots = text[at..end].iter().filter(|byte| **byte == b'.').count();
        return (dots >= 2 && end - at > SHORTEST).then_some(at..end);
    }
    let known = KEYS.iter().find(|key| key.as_bytes()[0] == rest[0] && rest.starts_with(key.as_bytes()))?;
    let end = run(text, at, is_key);
    (end - at >= known.len() + SHORTEST).then_some(at..end)
}

fn address(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let known = ADDRESSES.iter().find(|known| rest.starts_with(known.as_bytes()))?;
    let end = run(text, at + known.len(), |byte| is_key(byte) || b"/:".contains(&byte));
    (end > at + known.len()).then_some(at + known.len()..end)
}

/// A Telegram bot's: a number, a colon, 35 letters.
fn bot(text: &[u8], at: usize) -> Option<Range<usize>> {
    let colon = run(text, at, |byte| byte.is_ascii_digit());
    if !(8..=10).contains(&(colon - at)) || text.get(colon) != Some(&b':') {
        return None;
    }
    let end = run(text, colon + 1, is_key);
    (end - colon > 34).then_some(at..end)
}

fn hash(text: &[u8], at: usize) -> Option<Range<usize>> {
    let known = HASHES.iter().find(|known| text[at..].starts_with(known.as_bytes()))?;
    let end = run(text, at, |byte| is_key(byte) || b"$/+=,{}".contains(&byte));
    (end - at > known.len() + 4).then_some(at..end)
}

/// What stands behind `Bearer` or `Basic`, unless a sentence goes on there.
fn scheme(text: &[u8], at: usize) -> Option<Range<usize>> {
    let word = text.get(at..at + 6).filter(|word| word.eq_ignore_ascii_case(b"bearer"));
    let word = word.or_else(|| text.get(at..at + 5).filter(|word| word.eq_ignore_ascii_case(b"basic")))?;
    let from = run(text, at + word.len(), |byte| byte == b' ');
    let end = run(text, from, |byte| is_key(byte) || b"~+/=".contains(&byte));
    let said = &text[from..end];
    let is_changed = said.windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
    let is_strange = word::without(said, b'.').iter().any(|byte| !byte.is_ascii_alphabetic())
        || is_changed
        || said.len() > 24;
    let is_name = word[0] == b'B' || !said.contains(&b'-') || said.iter().any(u8::is_ascii_digit);
    // `Basic realm="…"` says what is wanted.
    let is_parameter = said.ends_with(b"=") && matches!(text.get(end), Some(b'"' | b'\\'));
    (from > at + word.len() && said.len() >= 6 && is_strange && is_name && !is_parameter).then_some(from..end)
}

/// A private key, from the line that begins it to the one that ends it, or to the end.
fn private_key(text: &[u8], at: usize) -> Option<Range<usize>> {
    let line = &text[at..text.len().min(at + 80)];
    let line = &line[..line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len())];
    line.windows(11).any(|part| part == b"PRIVATE KEY").then(|| {
        let end = text[at..].windows(9).position(|part| part == b"-----END ").map(|more| at + more + 9);
        let end = end.map(|from| {
            text[from..]
                .windows(5)
                .position(|part| part == b"-----")
                .map_or(text.len(), |more| from + more + 5)
        });
        at..end.unwrap_or(text.len())
    })
}

/// The private half of a key of PuTTY's.
fn putty_key(text: &[u8], at: usize) -> Option<Range<usize>> {
    let from = at + 14;
    let mac = text[from..].windows(12).position(|part| part == b"Private-MAC:").map(|more| from + more + 12);
    let end = mac.map_or(text.len(), |mac| run(text, mac, |byte| byte == b' ' || is_key(byte)));
    Some(from..end)
}
