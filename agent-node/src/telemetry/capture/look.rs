//! Credentials by their look: keys of well-known providers, signed tokens, hashes of passwords, private keys, what stands
//! behind `Bearer`, in the user's part of a URL, and behind `-u`.

mod known;

use super::word;
use known::{ADDRESSES, HASHES, KEYS};
use std::ops::Range;

/// How long the rest of such a key is at least.
const SHORTEST: usize = 12;

/// How far a URL is followed to the end of its user's part.
const LONGEST: usize = 512;

/// Adds where credentials stand in `text`.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while at < text.len() {
        let is_begun = at == 0 || !is_key(text[at - 1]) || text[at - 1] == b'.';
        let seen = match text[at] {
            b'-' if text[at..].starts_with(b"-----BEGIN ") => private_key(text, at),
            b'-' if at == 0 || text[at - 1].is_ascii_whitespace() => {
                user(text, at).or_else(|| short(text, at))
            }
            b'@' => login(text, at),
            b':' if text[at..].starts_with(b"://") => in_url(text, at + 3),
            b'$' | b'{' => hash(text, at),
            b'B' | b'b' if is_begun => scheme(text, at),
            b'0'..=b'9' if is_begun => bot(text, at),
            byte if byte.is_ascii_alphabetic() && is_begun => key(text, at).or_else(|| address(text, at)),
            _ => None,
        };
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
    (from > at + word.len() && said.len() >= 6 && is_strange && is_name).then_some(from..end)
}

/// What stands before the `@` of a URL's host, from `at` on.
fn in_url(text: &[u8], at: usize) -> Option<Range<usize>> {
    let near = &text[at..text.len().min(at + LONGEST)];
    let end = run(near, 0, |byte| !byte.is_ascii_whitespace() && !b"\"'`<>".contains(&byte));
    let url = &near[..end];
    let authority = &url[..url.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(url.len())];
    if let Some(place) = authority.iter().rposition(|byte| *byte == b'@') {
        return Some(at..at + place);
    }
    // A password with a slash in it: what follows the colon is no port.
    let colon = authority.iter().position(|byte| *byte == b':')?;
    let is_port = authority[colon + 1..].iter().all(u8::is_ascii_digit) || authority.starts_with(b"[");
    let place = url.iter().position(|byte| *byte == b'@')?;
    (!is_port).then_some(at..at + place)
}

/// The password in `-u user:password`.
fn user(text: &[u8], at: usize) -> Option<Range<usize>> {
    let option = [&b"--user"[..], b"--proxy-user", b"-u", b"-U"]
        .into_iter()
        .find(|option| text[at..].starts_with(option))?;
    let from = run(text, at + option.len(), |byte| b" =\"'".contains(&byte));
    let quote = text[from - 1];
    let is_end = |byte: u8| match quote {
        b'"' | b'\'' => byte == quote || byte == b'\n',
        _ => byte.is_ascii_whitespace() || b"\"'".contains(&byte),
    };
    let end = run(text, from, |byte| !is_end(byte));
    let colon = text[from..end].iter().position(|byte| *byte == b':')?;
    let password = from + colon + 1..end;
    (colon > 0 && !password.is_empty() && !word::is_reference(&text[password.clone()])).then_some(password)
}

/// The password in `sshpass -p x` and `mysql -px`.
fn short(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = text[at..].strip_prefix(b"-p")?;
    let before = &text[at.saturating_sub(64)..at];
    let before = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_it = [&b"sshpass"[..], b"mysql", b" login"]
        .iter()
        .any(|word| before.windows(word.len()).any(|part| part == *word));
    let from = at + 2 + rest.iter().take_while(|byte| b" ='\"".contains(byte)).count();
    let end = run(text, from, |byte| !byte.is_ascii_whitespace() && !b"'\"".contains(&byte));
    (is_it && end > from && text[from] != b'-').then_some(from..end)
}

/// The password in `user:password@host`, without a scheme before it.
fn login(text: &[u8], at: usize) -> Option<Range<usize>> {
    let from = text[..at]
        .iter()
        .rev()
        .take(LONGEST / 4)
        .take_while(|byte| is_key(**byte) || b":!$%+*#~^=".contains(byte))
        .count();
    let said = &text[at - from..at];
    let colon = said.iter().position(|byte| *byte == b':')?;
    let (user, password) = (&said[..colon], &said[colon + 1..]);
    let is_address = [
        "mailto", "to", "cc", "bcc", "from", "email", "e-mail", "mail", "contact", "sip", "acct", "xmpp",
        "reply-to",
    ];
    let is_address = is_address.iter().any(|word| user.eq_ignore_ascii_case(word.as_bytes()));
    let is_host = text.get(at + 1).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'[');
    (is_host && !user.is_empty() && !password.is_empty() && !is_address).then(|| at - password.len()..at)
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
