//! Words that are no credential though they stand where one could: types, references, what prose goes on with.

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
    "number",
    "object",
    "option",
    "optional",
    "required",
    "rc",
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
    "yes",
];

/// What a sentence about a credential goes on with.
const PROSE: &[&str] = &[
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "between", "by", "can", "cannot", "could",
    "each", "every", "for", "from", "has", "have", "if", "in", "invalid", "is", "it", "its", "max",
    "maximum", "may", "min", "minimum", "missing", "must", "needs", "never", "no", "not", "of", "on", "one",
    "only", "optional", "or", "our", "per", "required", "see", "shall", "should", "some", "that", "the",
    "their", "this", "to", "too", "use", "used", "uses", "was", "what", "when", "which", "who", "will",
    "with", "wrong", "your",
];

/// What an error or a rule in quotes begins with.
const RULES: &[&str] = &[
    "must", "should", "is", "are", "needs", "cannot", "may", "required", "missing", "invalid", "too", "has",
    "at",
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

/// Whether a sentence goes on with `word`.
pub(super) fn is_prose(word: &[u8]) -> bool {
    is_in(PROSE, word)
}

/// Whether `word` is the scheme of an `Authorization`.
pub(super) fn is_scheme(word: &[u8]) -> bool {
    is_in(SCHEMES, word)
}

/// Whether what stands in quotes is a type, a reference, or a sentence with a rule.
pub(super) fn is_harmless(quoted: &[u8]) -> bool {
    let mut words = quoted.split(|byte| byte.is_ascii_whitespace());
    let first = words.next().unwrap_or_default();
    let is_sentence = words.next().is_some() && is_in(RULES, first);
    quoted.is_empty()
        || is_type(quoted)
        || is_reference(quoted)
        || is_sentence
        || quoted.iter().all(|byte| *byte == b'*')
}

/// Whether the whole of `word` says where a value comes from, and holds none: `${TOKEN}`, `$TOKEN`, `%TOKEN%`, `{{token}}`,
/// `<token>`, `self.token`, `process.env.TOKEN`.
pub(super) fn is_reference(word: &[u8]) -> bool {
    let is_name = |inner: &[u8]| !inner.is_empty() && inner.iter().all(|byte| is_name_byte(*byte));
    let within = |start: &[u8], end: &[u8]| {
        let inner = word.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        inner.is_some_and(|inner| is_name(inner.trim_ascii()))
    };
    let is_variable = |rest: &[u8]| {
        rest.first().is_some_and(|first| first.is_ascii_uppercase() || *first == b'_')
            && rest.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
    };
    within(b"${", b"}")
        || within(b"%", b"%")
        || within(b"{{", b"}}")
        || within(b"{", b"}")
        || word.strip_prefix(b"$").is_some_and(is_variable)
        || word
            .strip_prefix(b"<")
            .and_then(|rest| rest.strip_suffix(b">"))
            .is_some_and(|inner| inner.iter().all(|byte| byte.is_ascii_lowercase() || b" -_".contains(byte)))
        || [
            &b"self."[..],
            b"this.",
            b"process.env.",
            b"os.environ",
            b"req.",
            b"request.",
            b"body.",
            b"input.",
            b"config.",
        ]
        .iter()
        .any(|start| {
            word.strip_prefix(*start).is_some_and(|rest| rest.iter().all(|b| is_name_byte(*b) || *b == b'.'))
        })
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
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
