//! What says where a value comes from, or that one is to be put there, and holds none.

use super::common::{is_common, is_known_name};

/// What a path of code begins with that leads to what somebody else said.
const PATHS: &[&str] = &[
    "self.",
    "this.",
    "process.env.",
    "os.environ",
    "req.",
    "request.",
    "body.",
    "input.",
    "config.",
    "var.",
    "local.",
    "module.",
    "data.",
    "secrets.",
    "env.",
    "vars.",
    "inputs.",
    "steps.",
    "random_password.",
];

/// What the address of a secret in a vault begins with.
const VAULTS: &[&str] = &[
    "arn:aws:",
    "op://",
    "vault:",
    "ssm:",
    "#/components/",
    "#/definitions/",
    "#/$defs/",
    "secretsmanager:",
    "/run/secrets/",
    "/var/run/secrets/",
];

/// Whether the whole of `word` is one: `${TOKEN}`, `$TOKEN`, `%TOKEN%`, `{{token}}`, `${{ secrets.TOKEN }}`, `<token>`,
/// `self.token`, `$1`, `YOUR_TOKEN`.
pub(in super::super) fn is_reference(word: &[u8]) -> bool {
    let is_path = |rest: &[u8]| rest.iter().all(|byte| is_name_byte(*byte) || *byte == b'.');
    let within = |start: &[u8], end: &[u8]| {
        let inner = word.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)).map(<[u8]>::trim_ascii);
        inner.is_some_and(|inner| !inner.is_empty() && is_path(word_without_dot(inner)))
    };
    within(b"${", b"}")
        || within(b"$(", b")")
        || within(b"${{", b"}}")
        || within(b"%", b"%")
        || within(b"{{", b"}}")
        || within(b"{", b"}")
        || is_refused_without(word)
        || is_command(word)
        || word.strip_prefix(b"$").is_some_and(is_variable)
        || word.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">")).is_some_and(|inner| {
            inner.iter().all(|byte| byte.is_ascii_alphabetic() || b" -_'".contains(byte))
        })
        || PATHS.iter().any(|start| word.strip_prefix(start.as_bytes()).is_some_and(is_path))
        || VAULTS.iter().any(|start| word.starts_with(start.as_bytes()))
        || is_parameter(word)
        || is_placeholder(word)
}

/// `.Values.password`, as templates begin a path.
fn word_without_dot(inner: &[u8]) -> &[u8] {
    inner.strip_prefix(b".").unwrap_or(inner)
}

/// What a shell takes from a command: `$(cat token.txt)`.
fn is_command(word: &[u8]) -> bool {
    let inner = word.strip_prefix(b"$(").and_then(|rest| rest.strip_suffix(b")"));
    let says = |inner: &[u8]| {
        [&b"echo"[..], b"printf"].iter().any(|said| inner.trim_ascii_start().starts_with(said))
    };
    inner.is_some_and(|inner| !says(inner) && !inner.iter().any(|byte| b"|()\"'".contains(byte)))
}

/// A shell's `${TOKEN:?what is said without it}`.
fn is_refused_without(word: &[u8]) -> bool {
    let inner = word.strip_prefix(b"${").and_then(|rest| rest.strip_suffix(b"}")).unwrap_or_default();
    let name = inner.iter().take_while(|byte| is_name_byte(**byte)).count();
    name > 0 && (inner[name..].starts_with(b":?") || inner[name..].starts_with(b"?"))
}

/// A shell's `TOKEN`, a database's `1`, a language's `token` or `new_password`, behind a dollar.
fn is_variable(rest: &[u8]) -> bool {
    let is_loud = rest.first().is_some_and(|first| first.is_ascii_uppercase() || *first == b'_')
        && rest.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_');
    let is_number = (1..=2).contains(&rest.len()) && rest.iter().all(u8::is_ascii_digit);
    is_loud || is_number || is_common(rest) || is_known_name(rest)
}

/// A database's parameter: `?`, `%s`, `%(password)s`, `:password`, `@password`.
fn is_parameter(word: &[u8]) -> bool {
    let named = word.strip_prefix(b":").or_else(|| word.strip_prefix(b"@"));
    let inner = word.strip_prefix(b"%(").and_then(|rest| rest.strip_suffix(b")s"));
    matches!(word, b"?" | b"%s" | b"%d" | b"%v" | b"{}")
        || named.or(inner).is_some_and(|name| is_common(name) || is_known_name(name))
}

/// What is to be put there: `YOUR_TOKEN`, `your-api-key-here`, `...`, `xxxx`.
fn is_placeholder(word: &[u8]) -> bool {
    let start = word.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"your"));
    let is_filler =
        [b'.', b'x', b'X', b'*', b'#'].iter().any(|filler| word.iter().all(|byte| byte == filler));
    start && is_known_name(word) || word.len() >= 3 && is_filler || word == "…".as_bytes()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
