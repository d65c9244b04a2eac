//! What looks like a credential without being named one: words that look made by a machine ([`machine`]), what begins like
//! a key of a well-known provider ([`known`]), what stands in a URL's or a command's place for a password.

mod known;
mod machine;

use known::{HASHES, KEYS};
use std::ops::Range;

/// How long the rest of a provider's key is at least: `sk-learn` is none.
const SHORTEST: usize = 6;

/// Letters that options have whose argument may be a password: `mysql -px`, `redis-cli -a x`, `curl -u bob:x`.
const OPTIONS: &[u8] = b"PUabkpuw";

/// Adds where words stand in `text` that look like credentials.
pub(super) fn find(text: &[u8], found: &mut Vec<Range<usize>>) {
    placed(text, found);
    machine::find(text, found);
}

/// Adds what is one by its place or by its beginning.
pub(super) fn placed(text: &[u8], found: &mut Vec<Range<usize>>) {
    let (mut at, mut word) = (0, Word::default());
    while at < text.len() {
        word.reach(text, at);
        let is_begun = at == 0 || !is_key(text[at - 1]) || text[at - 1] == b'.';
        let seen = match text[at] {
            b':' if text[at..].starts_with(b"://") => in_url(text, at + 3),
            b'@' => login(text, &word, at),
            b'$' | b'{' => hash(text, at),
            b'-' if at == 0 || is_edge(text[at - 1]) => option(text, at),
            byte if is_begun && byte.is_ascii_alphabetic() => {
                scheme(text, at).or_else(|| key(text, at)).or_else(|| grouped(text, at))
            }
            _ => None,
        };
        let seen = seen.or_else(|| is_begun.then(|| passfile(text, at)).flatten());
        match seen.filter(|range| !range.is_empty()) {
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

/// Whether a word of a command may begin behind it or end before it.
fn is_edge(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'`(),[]".contains(&byte)
}

fn run(text: &[u8], at: usize, is: impl Fn(u8) -> bool) -> usize {
    text[at..].iter().position(|byte| !is(*byte)).map_or(text.len(), |more| at + more)
}

/// A key of a provider, by what it begins with.
fn key(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let known = KEYS.iter().find(|key| key.as_bytes()[0] == rest[0] && rest.starts_with(key.as_bytes()))?;
    let end = run(text, at, is_key);
    (end - at >= known.len() + SHORTEST).then_some(at..end)
}

/// A password that was made for an app, in groups of letters: `abcd efgh ijkl mnop`, with hyphens, or three of six.
fn grouped(text: &[u8], at: usize) -> Option<Range<usize>> {
    let of = |count: usize, size: usize, between: &[u8]| {
        let end = at + count * (size + 1) - 1;
        let is_it =
            text.get(at..end)?.iter().enumerate().all(|(place, byte)| match place % (size + 1) == size {
                true => between.contains(byte),
                false => byte.is_ascii_lowercase() || between == b"-" && byte.is_ascii_alphanumeric(),
            });
        let is_ended = text.get(end).is_none_or(|byte| !is_key(*byte) && (between == b"-" || *byte != b' '));
        (is_it && is_ended).then_some(at..end)
    };
    // Four words of a sentence are none.
    let before = text[..at].trim_ascii_end().last();
    let is_first = text[..at].ends_with(b"\n") || before.is_none_or(|byte| b":=\"'(`".contains(byte));
    of(4, 4, b"-").or_else(|| of(3, 6, b"-")).or_else(|| is_first.then(|| of(4, 4, b" ")).flatten())
}

/// The hash of a password.
fn hash(text: &[u8], at: usize) -> Option<Range<usize>> {
    let known = HASHES.iter().find(|known| text[at..].starts_with(known.as_bytes()))?;
    let end = run(text, at, |byte| is_key(byte) || b"$/+=,{}".contains(&byte));
    (end - at > known.len()).then_some(at..end)
}

/// What stands behind `Basic`, where it is no sentence's word. (`Bearer` names a credential.)
fn scheme(text: &[u8], at: usize) -> Option<Range<usize>> {
    let word = text.get(at..at + 5).filter(|word| word.eq_ignore_ascii_case(b"basic"))?;
    let from = run(text, at + 5, |byte| byte == b' ');
    let end = run(text, from, |byte| is_key(byte) || b"~+/=".contains(&byte));
    let is_word =
        text[from..end].iter().skip(1).all(|byte| byte.is_ascii_lowercase() || b".-".contains(byte));
    (from > at + word.len() && end - from >= SHORTEST && !is_word).then_some(from..end)
}

/// Words behind a dash that end like a bundle of options, or go on like one, and are none.
const PLAIN: &str = "-la -al -lha -lah -map -wrap -name -iname -type -path -ipath -print -exec -race -run -wall -march -jar -cap";

/// Where the argument begins of an option that may take a password, alone or at a bundle's end (`-u`, `-sSu`), or glued to
/// it (`-px`, `-vpx`), in `word`.
fn argument(word: &[u8]) -> Option<usize> {
    const LONGEST: usize = 5;
    let is_long = ["--user", "--proxy-user", "--cert"].iter().any(|known| word.starts_with(known.as_bytes()));
    if is_long {
        return Some(run(word, 0, |byte| byte != b'='));
    }
    if word.first() != Some(&b'-') {
        return None;
    }
    let bundle = run(word, 1, |byte| byte.is_ascii_alphanumeric());
    if PLAIN.split(' ').any(|plain| word[..bundle].eq_ignore_ascii_case(plain.as_bytes())) {
        return None;
    }
    if bundle > 1 && bundle <= LONGEST && bundle == word.len() && OPTIONS.contains(&word[bundle - 1]) {
        return Some(bundle);
    }
    let glued = word[1..bundle.min(LONGEST)].iter().position(|letter| b"puPwaU".contains(letter))?;
    Some(glued + 2)
}

/// Whether `word` is an option whose argument may be a password.
pub(super) fn is_option(word: &str) -> bool {
    argument(word.as_bytes()) == Some(word.len())
}

/// The argument of an option that takes a password in one program or another; not a port, not a group's number.
fn option(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let word = run(rest, 0, |byte| !is_edge(byte));
    let from = argument(&rest[..word])?;
    if from < word && rest[from] != b'=' || rest[1] != b'-' && quoted(rest, from) > from {
        return Some(at + from..at + word.max(quoted(rest, from)));
    }
    let begins = run(rest, from, |byte| b" =\"'`,".contains(&byte));
    let end = match rest[begins - 1] {
        quote @ (b'"' | b'\'' | b'`') => run(rest, begins, |byte| byte != quote && byte != b'\n'),
        _ => run(rest, begins, |byte| !is_edge(byte)),
    };
    let said = &rest[begins..end];
    let is_number = said.iter().all(|byte| byte.is_ascii_digit() || b":.".contains(byte)) && said.len() < 12;
    let is_port = is_number && (said.len() < 6 || said.contains(&b':'));
    let is_empty = said.is_empty() || said[0] == b'-';
    (!is_port && !is_empty).then_some(at + begins..at + end)
}

/// Where the quotes end that stand at `at`, if there are any.
fn quoted(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(quote @ (b'"' | b'\'')) => run(text, at + 1, |byte| byte != *quote && byte != b'\n'),
        Some(_) | None => at,
    }
}

/// How far a URL is followed to the end of its user's part.
const LONGEST: usize = 512;

/// What stands before the `@` of a URL's host, from `at` on.
fn in_url(text: &[u8], at: usize) -> Option<Range<usize>> {
    let near = &text[at..text.len().min(at + LONGEST)];
    let end = run(near, 0, |byte| !byte.is_ascii_whitespace() && !b"\"'`<>".contains(&byte));
    let url = &near[..end];
    let path = url.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(url.len());
    if let Some(place) = url[..path].iter().rposition(|byte| *byte == b'@') {
        let is_name = text[..at].ends_with(b"ssh://") && !url[..place].contains(&b':');
        return (!is_name).then_some(at..at + place);
    }
    // A password with a slash in it: what follows the colon is no port.
    let colon = url[..path].iter().position(|byte| *byte == b':')?;
    let is_port = url[colon + 1..path].iter().all(u8::is_ascii_digit) || url.starts_with(b"[");
    let place = url.iter().rposition(|byte| *byte == b'@')?;
    (!is_port).then_some(at..at + place)
}

/// A word that is being read, without its end.
#[derive(Default)]
struct Word {
    read: usize,
    from: usize,
    /// Where the first colon or slash stands in it.
    mark: Option<usize>,
}

impl Word {
    /// Reads on until `at`.
    fn reach(&mut self, text: &[u8], at: usize) {
        for (place, byte) in (self.read..).zip(&text[self.read..at]) {
            if is_edge(*byte) || b"=<>{}".contains(byte) {
                (self.from, self.mark) = (place + 1, None);
            } else if b":/".contains(byte) {
                self.mark = self.mark.or(Some(place));
            }
        }
        self.read = at;
    }
}

/// The password in `user:password@host` or `user/password@host`, without a scheme before it.
fn login(text: &[u8], word: &Word, at: usize) -> Option<Range<usize>> {
    let mark = word.mark?;
    let (user, password) = (&text[word.from..mark], &text[mark + 1..at]);
    let is_address =
        ["mailto", "to", "cc", "bcc", "from", "email", "mail", "sip", "acct", "xmpp", "https", "http"];
    let is_address = is_address.iter().any(|word| user.eq_ignore_ascii_case(word.as_bytes()));
    let after = &text[at + 1..];
    let is_host = after.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"[/(".contains(byte));
    // `image:tag@sha256:…`, `actions/checkout@v4`
    let is_version = after.starts_with(b"sha256:")
        || text[mark] == b'/' && is_version(after) && !password.iter().any(|byte| b":@".contains(byte));
    (is_host
        && !is_version
        && !password.starts_with(b"//")
        && !user.is_empty()
        && !password.is_empty()
        && !is_address)
        .then(|| mark + 1..at)
}

/// Whether `text` begins with a version, of three numbers at most, and no host.
fn is_version(text: &[u8]) -> bool {
    let from = usize::from(text.first() == Some(&b'v'));
    let end = run(text, from, |byte| is_key(byte) || b":/@".contains(&byte));
    let version = text[from..end].strip_suffix(b".").unwrap_or(&text[from..end]);
    let parts = version.split(|byte| *byte == b'.');
    let is_number = |part: &[u8]| !part.is_empty() && part.len() < 6 && part.iter().all(u8::is_ascii_digit);
    parts.clone().count() <= 3 && parts.clone().all(is_number)
}

/// What a line of PostgreSQL's file of passwords holds last: `host:port:database:user:password`.
fn passfile(text: &[u8], at: usize) -> Option<Range<usize>> {
    let near = &text[at..text.len().min(at + LONGEST / 4)];
    let host = run(near, 0, |byte| is_key(byte) || byte == b'*');
    if host == 0 || near.get(host) != Some(&b':') {
        return None;
    }
    let line = &near[..run(near, 0, |byte| !is_edge(byte) && byte != b'\\')];
    let mut parts = line.splitn(5, |byte| *byte == b':');
    let (host, port, _) = (parts.next()?, parts.next()?, parts.next()?);
    let (user, password) = (parts.next()?, parts.next()?);
    let is_port = port == b"*" || !port.is_empty() && port.len() < 6 && port.iter().all(u8::is_ascii_digit);
    let is_host = host.iter().any(|byte| !byte.is_ascii_digit());
    let is_it = is_port && is_host && !user.is_empty() && !password.is_empty();
    is_it.then(|| at + line.len() - password.len()..at + line.len())
}
