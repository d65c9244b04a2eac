//! This process's own secrets, wherever they turn up: as they are, in base64 wherever they stand in it, and in hex. What is
//! packed otherwise is unpacked before it is looked at.

use super::look;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// A secret shorter than this is not looked for: it would turn up by chance.
const SHORTEST: usize = 6;

/// Words that variables with a secret's name hold and that are none.
const WORDS: &[&str] = &[
    "always",
    "basic",
    "bearer",
    "default",
    "development",
    "digest",
    "disable",
    "disabled",
    "enable",
    "enabled",
    "kerberos",
    "localhost",
    "negotiate",
    "oauth2",
    "optional",
    "password",
    "prefer",
    "production",
    "prompt",
    "require",
    "required",
    "sha256",
    "staging",
    "token",
];

/// What is looked for.
#[derive(Clone)]
pub(super) struct Own {
    /// In order; whether it may stand anywhere within base64.
    needles: Arc<[(Vec<u8>, bool)]>,
    /// Which two bytes one of them begins with, a bit each.
    starts: Arc<[u64]>,
}

impl Default for Own {
    fn default() -> Self {
        Self::of([])
    }
}

impl Own {
    /// Looks for `secrets` and for what is secret within them: a URL's password, what follows `Basic`.
    pub(super) fn of(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut all = BTreeSet::new();
        for secret in secrets {
            for part in parts(&secret).into_iter().chain([secret.trim().to_owned()]) {
                all.extend([part.to_lowercase(), part.to_uppercase()]);
            }
            all.extend(parts(&secret));
            all.insert(secret.trim().to_owned());
        }
        let mut needles = BTreeSet::new();
        for secret in all.iter().filter(|secret| is_worth_it(secret)) {
            needles.insert((secret.as_bytes().to_vec(), false));
            // A key of many lines may be told a line at a time, and a form has a plus for a blank.
            needles.extend(secret.lines().filter(|line| line.len() >= 16).map(|line| (line.into(), false)));
            needles.insert((secret.replace(' ', "+").into_bytes(), false));
            let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
            needles.insert((hex.to_uppercase().into_bytes(), false));
            needles.insert((hex.into_bytes(), false));
            needles.extend(in_base64(secret.as_bytes()).into_iter().map(|form| (form, true)));
        }
        let mut starts = vec![0; 1_024];
        for (needle, _) in &needles {
            let start = start(needle);
            starts[start / 64] |= 1 << (start % 64);
        }
        Self { needles: needles.into_iter().collect(), starts: starts.into() }
    }

    /// Adds where they stand in `text`.
    pub(super) fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        let mut at = 0;
        while at + SHORTEST <= text.len() && !self.needles.is_empty() {
            let start = start(&text[at..]);
            let is_one = self.starts[start / 64] >> (start % 64) & 1 == 1;
            if is_one {
                found.extend(self.at(text, at));
            }
            at += 1;
        }
    }

    /// The longest that stands at `at`.
    fn at(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        let from = self.needles.partition_point(|(needle, _)| needle[..2] < text[at..at + 2]);
        let near = self.needles[from..].iter().take_while(|(needle, _)| needle[..2] == text[at..at + 2]);
        let (needle, is_base64) = near.filter(|(needle, _)| text[at..].starts_with(needle)).last()?;
        let end = at + needle.len();
        Some(if *is_base64 { around(text, at..end) } else { at..end })
    }
}

fn start(text: &[u8]) -> usize {
    usize::from(text[0]) << 8 | usize::from(text[1])
}

fn is_worth_it(secret: &str) -> bool {
    let is_word = WORDS.iter().any(|word| secret.eq_ignore_ascii_case(word));
    secret.len() >= SHORTEST
        && !is_word
        && !(secret.starts_with('/') && std::path::Path::new(secret).exists())
}

/// The digits that `secret` makes in base64 for certain, whatever stands before and after it, in both alphabets.
fn in_base64(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(secret.iter().copied()).collect();
        let digits = STANDARD_NO_PAD.encode(&padded);
        let (from, to) = ([0, 2, 3][before], padded.len() * 8 / 6);
        let certain = digits.as_bytes()[from..to].to_vec();
        let url: Vec<u8> = certain
            .iter()
            .map(|byte| match byte {
                b'+' => b'-',
                b'/' => b'_',
                byte => *byte,
            })
            .collect();
        forms.extend([certain, url]);
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms
}

/// All of the base64 that `found` stands in.
fn around(text: &[u8], found: Range<usize>) -> Range<usize> {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
    let before = text[..found.start].iter().rev().take(512).take_while(|byte| is_digit(byte)).count();
    let after = text[found.end..].iter().take(512).take_while(|byte| is_digit(byte)).count();
    found.start - before..found.end + after
}

/// What is secret within a value: what its look and the names in it say, and what `Basic` packs.
pub(super) fn parts(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    look::placed(value.as_bytes(), &mut found);
    let mut parts: Vec<_> =
        found.into_iter().filter_map(|range| value.get(range).map(str::to_owned)).collect();
    parts.extend(assigned(value));
    if let Some((scheme, rest)) = value.trim().split_once(' ').filter(|(_, rest)| !rest.contains(' ')) {
        if ["basic", "bearer", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            parts.push(rest.to_owned());
        }
        parts.extend(STANDARD.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok()));
    }
    // `user:password`, of a URL or unpacked.
    let passwords =
        parts.iter().filter_map(|part| Some(part.split_once(':')?.1.to_owned())).collect::<Vec<_>>();
    parts.extend(passwords);
    parts
}

/// The secrets that a variable holds: its value if its name says so, and what within any value is one.
pub fn of_variable(name: &str, value: &str) -> Vec<String> {
    let mut secrets = parts(value);
    if is_secret(name) && !name.eq_ignore_ascii_case("PWD") {
        secrets.push(value.to_owned());
    }
    secrets
}

/// What stands under a secret's name within a value: `Password=x;`, `--token x`, `"apiKey": "x"`.
fn assigned(value: &str) -> Vec<String> {
    let pieces = value.split(|char: char| char.is_whitespace() || "=:;,&?\"'{}[]".contains(char));
    let pieces: Vec<_> = pieces.filter(|piece| !piece.is_empty()).collect();
    // Behind a header's name its scheme comes first.
    let after = |at: usize| pieces[at + 1..].iter().take(2);
    let named = (0..pieces.len()).filter(|at| is_secret(pieces[*at]));
    let mut found: Vec<_> = named.flat_map(after).map(|piece| (*piece).to_owned()).collect();
    // What is quoted or ends at a semicolon may have a blank or a sign in it.
    let whole = value.split([';', '&', '\n']).filter_map(|part| part.split_once(['=', ':']));
    let whole = whole.filter(|(name, _)| is_secret(name.trim()));
    found.extend(whole.map(|(_, said)| said.trim_matches(|char| " \"'{}".contains(char)).to_owned()));
    found
}

/// Whether what goes under `name` is secret, by how variables are called.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let has = |part: &str| name.contains(part);
    let is_author = name.match_indices("AUTHOR").any(|(at, _)| !name[at + 6..].starts_with("IZ"));
    has("TOKEN")
        || has("SECRET")
        || has("PASS")
        || has("CREDENTIAL")
        || has("COOKIE")
        || has("BEARER")
        || has("AUTH") && !is_author
        || name.split(['_', '-']).any(|part| {
            ["KEYS", "PW", "PWD", "PIN", "PAT", "SK", "SALT"].contains(&part) || part.ends_with("KEY")
        })
}
