//! Passwords in addresses: of URLs, and of what has a user, a password and a host without being one.

use super::{is_key, run};
use std::ops::Range;

/// How far a URL is followed to the end of its user's part.
const LONGEST: usize = 512;

/// Schemes whose user has no password in it unless a colon says so.
const KEYED: &[&[u8]] = &[b"ssh", b"sftp", b"svn+ssh", b"git+ssh", b"rsync"];

/// What a line of PostgreSQL's file of passwords holds last: `host:port:database:user:password`.
pub(super) fn passfile(text: &[u8], at: usize) -> Option<Range<usize>> {
    let near = &text[at..text.len().min(at + LONGEST)];
    let line = &near[..near
        .iter()
        .position(|byte| byte.is_ascii_whitespace() || b"\"\\".contains(byte))
        .unwrap_or(near.len())];
    let mut parts = line.splitn(5, |byte| *byte == b':');
    let (host, port) = (parts.next()?, parts.next()?);
    let (_, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_port = port == b"*" || !port.is_empty() && port.len() < 6 && port.iter().all(u8::is_ascii_digit);
    let is_host = !host.is_empty() && (!host.iter().all(u8::is_ascii_digit) || host == b"*");
    let is_it = is_port && is_host && !user.is_empty() && !password.is_empty() && !user.starts_with(b"/");
    is_it.then(|| at + line.len() - password.len()..at + line.len())
}

/// What stands before the `@` of a URL's host, from `at` on.
pub(super) fn in_url(text: &[u8], at: usize) -> Option<Range<usize>> {
    let near = &text[at..text.len().min(at + LONGEST)];
    let end = run(near, 0, |byte| !byte.is_ascii_whitespace() && !b"\"'`<>".contains(&byte));
    let url = &near[..end];
    let authority = &url[..url.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(url.len())];
    if let Some(place) = authority.iter().rposition(|byte| *byte == b'@') {
        let scheme = text[at.saturating_sub(12)..at - 3]
            .rsplit(|byte| !byte.is_ascii_alphanumeric() && *byte != b'+')
            .next();
        if scheme.is_some_and(|scheme| KEYED.contains(&scheme)) && !authority[..place].contains(&b':') {
            return None;
        }
        return Some(at..at + place);
    }
    // A password with a slash in it: what follows the colon is no port.
    let colon = authority.iter().position(|byte| *byte == b':')?;
    let is_port = authority[colon + 1..].iter().all(u8::is_ascii_digit) || authority.starts_with(b"[");
    let place = url.iter().position(|byte| *byte == b'@')?;
    (!is_port).then_some(at..at + place)
}

/// The password in `user:password@host`, without a scheme before it.
pub(super) fn login(text: &[u8], at: usize) -> Option<Range<usize>> {
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
    // `image:tag@sha256:…`
    let is_digest = text[at + 1..].starts_with(b"sha256:") || text[at + 1..].starts_with(b"sha512:");
    let is_host =
        !is_digest && text.get(at + 1).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'[');
    (is_host && !user.is_empty() && !password.is_empty() && !is_address).then(|| at - password.len()..at)
}
