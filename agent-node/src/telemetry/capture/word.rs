//! Words that are no credential though they stand where one could: types, references, what prose goes on with.

mod common;
mod reference;

pub(super) use common::{is_common, is_known_name, is_remark, is_rule, trimmed};
pub(super) use reference::is_reference;

use super::name;

/// What stands for a type, or for nothing, in place of a value.
const TYPES: &[&str] = &[
    "any",
    "arc",
    "array",
    "bool",
    "boolean",
    "box",
    "bytes",
    "char",
    "date",
    "datetime",
    "dict",
    "double",
    "email",
    "enum",
    "false",
    "float",
    "hashmap",
    "i32",
    "i64",
    "int",
    "integer",
    "json",
    "list",
    "long",
    "map",
    "nil",
    "no",
    "none",
    "null",
    "nvarchar",
    "number",
    "object",
    "option",
    "optional",
    "required",
    "rc",
    "read",
    "result",
    "self",
    "static",
    "str",
    "string",
    "text",
    "timestamp",
    "true",
    "u16",
    "u32",
    "u64",
    "u8",
    "undefined",
    "unique",
    "url",
    "usize",
    "uuid",
    "varchar",
    "vec",
    "write",
    "yes",
];

/// Schemes of an `Authorization`, after which the credential comes.
const SCHEMES: &[&str] =
    &["apikey", "basic", "bearer", "digest", "hmac", "jwt", "key", "negotiate", "oauth", "token"];

fn is_in(list: &[&str], word: &[u8]) -> bool {
    list.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether `word` stands for a type or for nothing.
pub(super) fn is_type(word: &[u8]) -> bool {
    is_in(TYPES, word)
}

/// Whether `word` is the scheme of an `Authorization`.
pub(super) fn is_scheme(word: &[u8]) -> bool {
    is_in(SCHEMES, word)
}

/// Whether what stands in quotes is a type, a reference, a rule, or too short for anything.
pub(super) fn is_harmless(quoted: &[u8]) -> bool {
    quoted.trim_ascii().is_empty()
        || is_type(quoted)
        || is_reference(quoted)
        || is_rule(quoted)
        || is_version(quoted)
        || is_scheme_of(quoted)
        || matches!(quoted, [byte] if !byte.is_ascii_alphanumeric())
}

/// Whether a scheme is all that is told, or what comes behind it is a reference: `Bearer `, `Bearer {token}`.
fn is_scheme_of(quoted: &[u8]) -> bool {
    let quoted = quoted.trim_ascii_start();
    let end = quoted.iter().position(|byte| *byte == b' ').unwrap_or(quoted.len());
    let said = quoted[end..].trim_ascii();
    end < quoted.len() && is_scheme(&quoted[..end]) && (said.is_empty() || is_reference(said))
}

/// Whether `word` is a version: `9`, `0.8`, `1.2.3`.
fn is_version(word: &[u8]) -> bool {
    let mut parts = word.split(|byte| *byte == b'.');
    parts.all(|part| (1..=2).contains(&part.len()) && part.iter().all(u8::is_ascii_digit)) && word.len() <= 8
}

/// Whether a text in quotes, in code that makes a credential, is the name of one or a span of time: `get("api_token")`,
/// `env("X_TOKEN")`, `'1h'`.
pub(super) fn is_named(quoted: &[u8]) -> bool {
    let inner = trimmed(quoted);
    let is_loud = inner.contains(&b'_')
        && inner.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
    let digits = inner.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_span = (1..=4).contains(&digits) && inner.len() - digits <= 1;
    let is_algorithm = [&b"HS"[..], b"RS", b"ES", b"PS", b"SHA", b"sha"].iter().any(|start| {
        inner.strip_prefix(*start).is_some_and(|rest| {
            !rest.is_empty()
                && rest.len() < 5
                && rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-')
        })
    });
    is_common(inner)
        || is_known_name(inner)
        || is_algorithm
        || is_loud && name::says(inner).is_some()
        || is_span
}

/// `word` without `end`, if it ends so.
pub(super) fn without(word: &[u8], end: u8) -> &[u8] {
    word.strip_suffix(&[end]).unwrap_or(word)
}

/// Whether `word` is one that a dictionary could hold.
pub(super) fn is_plain(word: &[u8]) -> bool {
    word.len() <= 20 && word.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'-' || *byte >= 0x80)
}

/// Whether `word`, which follows the name of a credential in a sentence, is most likely the credential: letters and digits
/// mixed, and not what standards are called.
pub(super) fn is_mixed(word: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| word.iter().any(is);
    let is_known =
        ["base64url", "base64", "oauth2", "sha256", "sha512", "pbkdf2", "argon2id", "utf-8", "http2"];
    word.len() >= 6
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && word[0].is_ascii_alphabetic()
        && !is_in(&is_known, word)
}
