//! Passwords in the options and arguments of commands, by the program they are given to.

use super::run;
use crate::telemetry::capture::word;
use std::ops::Range;

/// What of an option's argument is secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// All of it.
    Password,
    /// All of it, which follows at once: a blank begins something else.
    Joined,
    /// What is behind the first colon, or the first per cent sign.
    User,
    /// What is behind the second equals sign.
    Pair,
}

/// An option, the programs which mean that by it (any, if none is said), and what is secret of its argument.
type Known = (&'static [u8], &'static [&'static [u8]], Takes);

/// Longer options before those they begin with.
const OPTIONS: &[Known] = &[
    (b"--user", &[], Takes::User),
    (b"--proxy-user", &[], Takes::User),
    (b"-u", &[], Takes::User),
    (b"-U", &[], Takes::User),
    (b"-a", &[b"redis-cli"], Takes::Password),
    (b"-a", &[b"http ", b"https ", b"xh "], Takes::User),
    (b"--from-literal", &[b"secret "], Takes::Pair),
    (b"--body", &[b"secret set"], Takes::Password),
    (b"-b", &[b"secret set"], Takes::Password),
    (b"--cert", &[b"curl"], Takes::User),
    (b"--value", &[b"secret ", b"put-parameter"], Takes::Password),
    (b"-w", &[b"ldap"], Takes::Password),
    (b"-P", &[b"zip", b"sqlcmd", b"bcp ", b"mosquitto"], Takes::Password),
    (b"-k", &[b"openssl enc"], Takes::Password),
    (b"-p", &[b"mysql", b"mariadb"], Takes::Joined),
    (
        b"-p",
        &[
            b"sshpass",
            b" login",
            b"mongo",
            b"psexec",
            b"useradd",
            b"usermod",
            b"7z ",
            b"cqlsh",
            b"influx",
            b"rabbitmqadmin",
            b"cypher-shell",
            b"wsk ",
        ],
        Takes::Password,
    ),
];

/// The line up to `at`, as far as it is looked at.
fn before(text: &[u8], at: usize) -> &[u8] {
    let near = &text[at.saturating_sub(160)..at];
    near.rsplit(|byte| b"\n;|".contains(byte)).next().unwrap_or_default()
}

fn has(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|part| part == word)
}

/// What is secret of the argument of the option at `at`.
pub(super) fn option(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let mut known = OPTIONS.iter().filter(|(option, ..)| rest.starts_with(option)).peekable();
    known.peek()?;
    let line = before(text, at);
    let is_of = |programs: &[&[u8]]| programs.is_empty() || programs.iter().any(|program| has(line, program));
    let (option, _, takes) = known.find(|(_, programs, _)| is_of(programs))?;
    let from = run(text, at + option.len(), |byte| b" =\"'".contains(&byte));
    let is_apart = text[from - 1] == b' ' || text.get(at + option.len()) == Some(&b' ');
    let quote = text[from - 1];
    let is_end = |byte: u8| match quote {
        b'"' | b'\'' => byte == quote || byte == b'\n',
        _ => byte.is_ascii_whitespace() || b"\"'`".contains(&byte),
    };
    let place = from..run(text, from, |byte| !is_end(byte));
    let said = &text[place.clone()];
    let is_in_container = has(line, b"docker") || has(line, b"podman") || has(line, b"kubectl");
    let after =
        |sign: u8| said.iter().position(|byte| *byte == sign).filter(|at| *at > 0).map(|at| from + at + 1);
    let password = match takes {
        // `-p 3306:3306` is a container's port.
        Takes::Joined | Takes::Password
            if is_in_container
                && (said.len() < 6 || said.contains(&b':'))
                && said.iter().all(|byte| byte.is_ascii_digit() || b".:/tcpud".contains(byte)) =>
        {
            return None;
        }
        Takes::Joined if is_apart => return None,
        Takes::Joined | Takes::Password => place,
        Takes::User => {
            let from = after(b':').or_else(|| after(b'%').filter(|_| option.eq_ignore_ascii_case(b"-u")))?;
            // `-u 1000:1000` and `-u app:app` say as whom to run.
            let (user, group) = (&said[..from - place.start - 1], &text[from..place.end]);
            let is_number = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
            let is_http = [&b"curl"[..], b"wget", b"http"].iter().any(|program| has(line, program));
            let is_group = user == group || is_number(user) && is_number(group);
            if is_group && (is_in_container || !is_http) {
                return None;
            }
            from..place.end
        }
        Takes::Pair => after(b'=')?..place.end,
    };
    // `name='x'`
    let quote = text.get(password.end).copied().filter(|byte| password.is_empty() && b"'\"".contains(byte));
    let password = match quote {
        Some(quote) => password.end + 1..run(text, password.end + 1, |byte| byte != quote && byte != b'\n'),
        None => password,
    };
    let is_told = text[password.start..].starts_with(b"$(")
        || password.is_empty()
        || text[password.start] == b'-'
        || word::is_reference(&text[password.clone()]);
    (!is_told).then_some(password)
}

/// The longest command that is read for what stands at its end.
const LONGEST: usize = 256;

/// The argument that a command takes as a password by its place: `net user bob x`, `htpasswd -b file bob x`,
/// `vault kv put path name=x`.
pub(super) fn positional(text: &[u8], at: usize) -> Option<Range<usize>> {
    let starts = [
        &b"net user "[..],
        b"htpasswd -",
        b"vault kv put ",
        b"vault write ",
        b"secrets set ",
        b"sqlplus ",
        b"vault login ",
        b"rabbitmqctl ",
    ];
    let start = starts.into_iter().find(|start| text[at..].starts_with(start))?;
    let near = &text[..text.len().min(at + LONGEST)];
    let end = run(near, at, |byte| !b"\n;|\"`".contains(&byte));
    if start == b"sqlplus " {
        let from = run(near, at, |byte| byte != b'/').min(end) + 1;
        let until = run(near, from.min(end), |byte| byte != b'@' && byte != b' ').min(end);
        return (from < until).then_some(from..until);
    }
    let mut from = at + start.len();
    if start.starts_with(b"vault kv") || start.starts_with(b"vault w") || start.starts_with(b"secrets") {
        from = run(near, from, |byte| byte != b'=') + 1;
        return (from < end && !word::is_reference(&text[from..end])).then_some(from..end);
    }
    // What the password comes after: the user, or the option, the file and the user.
    let others = match start[0] {
        b'v' => 0,
        b'n' => 1,
        b'r' => 2,
        _ => 3,
    };
    for _ in 0..others {
        from = run(near, run(near, from, |byte| byte != b' '), |byte| byte == b' ');
    }
    let said = from..run(near, from, |byte| byte != b' ').min(end);
    let is_told =
        said.is_empty() || b"/*-".contains(&text[said.start]) || word::is_reference(&text[said.clone()]);
    let is_batch = !start.starts_with(b"ht")
        || text[at + start.len()..].starts_with(b"b")
        || text[at + start.len()..].starts_with(b"nb");
    (from < end && is_batch && !is_told).then_some(said)
}

/// What a shell hands to a command that takes a credential: `gh auth login --with-token <<< x`.
pub(super) fn here(text: &[u8], at: usize) -> Option<Range<usize>> {
    let line = before(text, at).to_ascii_lowercase();
    let is_it = [&b"token"[..], b"secret", b"passw", b" login"].iter().any(|word| has(&line, word));
    let from = run(text, at + 3, |byte| b" \"'$".contains(&byte));
    let end = run(text, from, |byte| !b"\"'\n".contains(&byte));
    (is_it && end > from && text[from - 1] != b'$').then_some(from..end)
}
