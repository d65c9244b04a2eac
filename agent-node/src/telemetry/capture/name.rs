//! What a name says of what stands under it.

mod stems;

use stems::stems;

/// How surely what goes under a name is a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// It is one.
    Credential,
    /// The name of a header whose whole value is one.
    Header,
    /// It is one where it looks like one or stands in a structure; in prose the word means many things (`pin`, `session`).
    Perhaps,
    /// It is one unless it is a number: `tokens` are counted more often than listed.
    Several,
}

/// What makes another thing of a credential when the name ends in it: `tokenType`, `password_policy`.
const OTHERWISE: &[&str] = &[
    "based",
    "count",
    "dir",
    "endpoint",
    "error",
    "expiration",
    "expires",
    "expiresat",
    "expiresin",
    "expiry",
    "encoder",
    "field",
    "fields",
    "file",
    "format",
    "handler",
    "hasher",
    "kind",
    "label",
    "len",
    "length",
    "lifetime",
    "limit",
    "manager",
    "max",
    "maxlength",
    "min",
    "minlength",
    "mode",
    "name",
    "parser",
    "path",
    "placeholder",
    "policy",
    "provider",
    "pullsecrets",
    "ref",
    "refs",
    "required",
    "reader",
    "reset",
    "ring",
    "router",
    "rules",
    "schema",
    "scope",
    "scopes",
    "service",
    "store",
    "strength",
    "timeout",
    "ttl",
    "type",
    "uri",
    "url",
    "usage",
    "used",
    "valid",
    "validator",
    "version",
];

/// Words that end in one of those and are others: `secretString`, `password_admin`.
const NO_OTHERWISE: &[&str] = &["account", "admin", "profile", "string"];

/// The last word of a name that may be a credential's.
const PERHAPS: &[&str] = &["auth", "otp", "pass", "pin", "psk", "salt", "session", "sid", "totp"];

/// Words that end in `pass` and have nothing to do with it.
const NO_PASS: &[&str] =
    &["bypass", "compass", "trespass", "surpass", "overpass", "underpass", "firstpass", "secondpass"];

/// What stands before `key` in names that have nothing to do with credentials: `primary_key`, `cacheKey`.
const ORDINARY_KEYS: &[&str] = &[
    "arrow",
    "cache",
    "composite",
    "config",
    "dedup",
    "entity",
    "enter",
    "event",
    "foreign",
    "function",
    "group",
    "hash",
    "idempotency",
    "index",
    "item",
    "json",
    "label",
    "lookup",
    "map",
    "message",
    "metric",
    "natural",
    "object",
    "option",
    "ordering",
    "partition",
    "primary",
    "public",
    "range",
    "record",
    "routing",
    "row",
    "search",
    "setting",
    "shard",
    "shift",
    "sort",
    "surrogate",
    "translation",
    "unique",
];

/// More names are credentials' in the query of a URL.
const IN_QUERIES: &[&str] = &["code", "hmac", "key", "sig", "signature", "ticket"];

/// What is said of a credential in a schema or a manifest, and is none.
const ABOUT: &[&[u8]] = &[
    b"type",
    b"format",
    b"kind",
    b"scheme",
    b"in",
    b"name",
    b"minlength",
    b"maxlength",
    b"minimum",
    b"maximum",
    b"required",
    b"nullable",
    b"readonly",
    b"writeonly",
    b"external",
    b"optional",
    b"sensitive",
    b"source",
    b"provider",
    b"version",
    b"mode",
    b"defaultmode",
];

/// The longest name that is read; of a longer one, its end.
const LONGEST: usize = 64;

/// What `name` says.
pub(super) fn says(name: &[u8]) -> Option<Says> {
    let (plain, length) = plain(name);
    let plain = &plain[..length];
    if ["authorization", "authentication"].iter().any(|header| plain.ends_with(header.as_bytes()))
        || plain.ends_with(b"cookie")
        || plain.ends_with(b"cookies")
    {
        return Some(Says::Header);
    }
    let stem = (0..plain.len()).rev().find_map(|at| {
        let from = &plain[at..];
        let stem = stems(from[0]).iter().find(|stem| from.starts_with(stem.as_bytes()))?;
        Some(&from[stem.len()..])
    });
    if let Some(after) = stem {
        let is_other = [&b"iz"[..], b"is", b"ar"].iter().any(|start| after.starts_with(start));
        let is_otherwise = OTHERWISE.iter().any(|end| after.ends_with(end.as_bytes()))
            && !NO_OTHERWISE.iter().any(|end| after.ends_with(end.as_bytes()));
        return match after {
            b"auth" if plain == b"bearerauth" && !name.contains(&b'_') => None,
            _ if is_other || is_otherwise => None,
            b"s" if plain.ends_with(b"tokens") => Some(Says::Several),
            _ => Some(Says::Credential),
        };
    }
    let is_joined = plain.ends_with(b"pass") && plain.len() > 4;
    let is_word = NO_PASS.iter().any(|word| plain.ends_with(word.as_bytes()));
    if !is_word && (plain == b"pw" || plain.ends_with(b"pw") && plain.len() > 4)
        || name.eq_ignore_ascii_case(b"passe")
    {
        return Some(Says::Credential);
    }
    let before_key = plain
        .strip_suffix(b"key")
        .filter(|before| !before.is_empty() && !name.contains(&b' ') && is_last_word(name, "key"));
    let is_key = before_key
        .is_some_and(|before| !ORDINARY_KEYS.iter().any(|ordinary| before.ends_with(ordinary.as_bytes())));
    let is_one = is_key || is_joined && !is_word || PERHAPS.iter().any(|word| is_last_word(name, word));
    let is_header = name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case(b"x-"));
    is_one.then_some(if is_header { Says::Credential } else { Says::Perhaps })
}

/// Whether `name` is of something that has to do with a credential and is none: `secretName`, `tokenUrl`.
pub(super) fn is_otherwise(name: &[u8]) -> bool {
    let (plain, length) = plain(name);
    let plain = &plain[..length];
    let has_stem =
        (0..length).any(|at| stems(plain[at]).iter().any(|stem| plain[at..].starts_with(stem.as_bytes())));
    has_stem && says(name).is_none()
}

/// Whether `name`, a member of what stands under a credential's, only says what kind of credential is meant or which.
pub(super) fn is_about(name: &[u8]) -> bool {
    let (plain, length) = plain(name);
    ABOUT.contains(&&plain[..length])
}

/// Whether `name` is a credential's as a parameter of a URL's query.
pub(super) fn says_in_query(name: &[u8]) -> bool {
    let (plain, length) = plain(name);
    let is_known = IN_QUERIES.iter().any(|known| known.as_bytes() == &plain[..length]);
    is_known || plain[..length].ends_with(b"signature") || says(name).is_some()
}

/// The letters and digits of a name, in lower case.
pub(super) fn plain(name: &[u8]) -> ([u8; LONGEST], usize) {
    let (mut plain, mut length) = ([0; LONGEST], 0);
    for byte in &name[name.len().saturating_sub(LONGEST)..] {
        if byte.is_ascii_alphanumeric() {
            plain[length] = byte.to_ascii_lowercase();
            length += 1;
        }
    }
    (plain, length)
}

fn is_last_word(name: &[u8], word: &str) -> bool {
    let Some(at) = name.len().checked_sub(word.len()) else { return false };
    let (before, last) = name.split_at(at);
    let begins = match before.last() {
        None => true,
        Some(byte) if byte.is_ascii_alphanumeric() => {
            byte.is_ascii_lowercase() && last[0].is_ascii_uppercase()
        }
        Some(_) => true,
    };
    begins && last.eq_ignore_ascii_case(word.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_stands_under_it() {
        let all = |names: &str, expected: Option<Says>| {
            for name in names.split(' ') {
                assert_eq!(says(name.as_bytes()), expected, "{name}");
            }
        };
        all(
            "password PASSWORD db_password userPassword pwd passwd passphrase apiKey X-Api-Key --token",
            Some(Says::Credential),
        );
        all(
            "client_secret aws_secret_access_key refreshToken sessionId secretKeyBase DB_PWD jwt",
            Some(Says::Credential),
        );
        all("Authorization Proxy-Authorization cookie Set-Cookie", Some(Says::Header));
        all(
            "pin auth session userPin board_pin PHPSESSION_sid pass MAILGUN_KEY mailgunKey maps-key",
            Some(Says::Perhaps),
        );
        all("PRIMARY_KEY cacheKey foreign_key public-key monkey hotkey", None);
        all("tokens max_tokens promptTokens", Some(Says::Several));
        all(
            "author secretary tokenizer tokenType password_policy spin pinned sessions oauthor compass key name",
            None,
        );
        all("tokenEndpoint secretName token_count expires", None);
        assert!(says_in_query(b"sig") && says_in_query(b"X-Amz-Signature") && !says_in_query(b"page"));
    }
}
