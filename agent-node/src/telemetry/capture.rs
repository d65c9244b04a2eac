//! How much of what is said is told: nothing, its shape, or all of it; credentials never.
//!
//! A credential is known by the name it goes under (`password`, `apiKey`, …), by its look (a bearer token, a private key,
//! a key of a well-known provider), or because this process has it: the values of its own secrets are masked wherever
//! they turn up.

use serde_json::{Map, Value};
use std::sync::Arc;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Level {
    /// Nothing of any content.
    #[default]
    Off,
    /// Which members there are and how long their texts, and no word of them.
    Redacted,
    /// All of it but credentials, up to 16 KiB a span.
    Full,
}

/// What decides what is told of content.
#[derive(Clone, Default)]
pub struct Capture {
    level: Level,
    known: Arc<[String]>,
}

/// The most that is told of one thing, bytes.
const MOST: usize = 16 * 1024;
/// A secret shorter than this is not looked for: it would turn up by chance.
const SHORTEST: usize = 8;
/// What stands in a credential's place.
const MASK: &str = "***";

impl Capture {
    /// Tells `level` and never one of `secrets`.
    pub fn new(level: Level, secrets: impl IntoIterator<Item = String>) -> Self {
        let known: Vec<_> = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST).collect();
        Self { level, known: known.into() }
    }

    /// Whether anything is told at all; else nobody need prepare it.
    pub fn is_off(&self) -> bool {
        self.level == Level::Off
    }

    /// What may be told of `content`.
    pub fn told(&self, content: &Value) -> Option<String> {
        let text = match (self.level, content) {
            (Level::Off, _) | (_, Value::Null) => return None,
            (Level::Redacted, content) => shape(content).to_string(),
            (Level::Full, Value::String(text)) => self.masked(text),
            (Level::Full, content) => self.without_credentials(content).to_string(),
        };
        Some(clipped(text))
    }

    fn without_credentials(&self, content: &Value) -> Value {
        match content {
            Value::String(text) => self.masked(text).into(),
            Value::Array(items) => items.iter().map(|item| self.without_credentials(item)).collect(),
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    let told = match is_credentials_name(name) {
                        true => Value::from(MASK),
                        false => self.without_credentials(value),
                    };
                    (self.masked(name), told)
                };
                Value::Object(members.iter().map(member).collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => content.clone(),
        }
    }

    fn masked(&self, text: &str) -> String {
        let text = self.known.iter().fold(text.to_owned(), |text, known| text.replace(known, MASK));
        without_keys(&words_masked(&text))
    }
}

/// The same members, with how much each holds instead of what.
fn shape(content: &Value) -> Value {
    match content {
        Value::String(text) => format!("[{} characters]", text.chars().count()).into(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, value)| (name.clone(), shape(value))).collect())
        }
        Value::Number(_) => "[number]".into(),
        Value::Null | Value::Bool(_) => content.clone(),
    }
}

/// Whether something that goes under this name is a credential.
pub fn is_credentials_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let says = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "apikey",
        "accesskey",
        "privatekey",
        "authorization",
        "credential",
        "cookie",
        "bearer",
    ];
    says.iter().any(|word| plain.contains(word))
}

/// The text with every word masked that looks like a credential, or stands where one does.
fn words_masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut next_is_one = false;
    for piece in text.split_inclusive(|c: char| c.is_whitespace() || "\"'`,;<>()[]{}".contains(c)) {
        let end = piece.trim_end_matches(|c: char| c.is_whitespace() || "\"'`,;<>()[]{}".contains(c));
        let (word, rest) = piece.split_at(end.len());
        if word.is_empty() {
            out.push_str(rest);
            continue;
        }
        let (name, value) = word.split_once(['=', ':']).unwrap_or((word, ""));
        let is_scheme = ["bearer", "basic"].contains(&word.to_ascii_lowercase().as_str());
        let is_named = is_credentials_name(name) && name.len() < word.len();
        if is_scheme {
            out.push_str(word);
            next_is_one = true;
        } else if next_is_one {
            out.push_str(MASK);
            next_is_one = false;
        } else if is_named && !value.is_empty() {
            out.push_str(&word[..=name.len()]);
            out.push_str(MASK);
        } else if looks_like_one(word) {
            out.push_str(MASK);
        } else {
            next_is_one = is_named;
            out.push_str(&without_user(word));
        }
        out.push_str(rest);
    }
    out
}

/// Keys of well-known providers, and signed tokens.
fn looks_like_one(word: &str) -> bool {
    let long = |prefix: &str| word.starts_with(prefix) && word.len() >= prefix.len() + 12;
    let known = [
        "sk-",
        "pk-lf-",
        "ghp_",
        "gho_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "xoxa-",
        "AKIA",
        "AIza",
        "hf_",
        "npm_",
    ];
    known.into_iter().any(long) || long("eyJ") && word.matches('.').count() == 2
}

/// The word without the user and password of a URL.
fn without_user(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => format!("{scheme}://{MASK}@{}", &rest[at + 1..]),
        None => word.to_owned(),
    }
}

/// The text without what stands between the lines that mark a private key.
fn without_keys(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(from) = rest.find("-----BEGIN ") {
        let is_private = rest[from..].lines().next().is_some_and(|line| line.contains("PRIVATE KEY"));
        let until = rest[from..].find("-----END ").map_or(rest.len(), |end| from + end);
        out.push_str(if is_private { &rest[..from] } else { &rest[..until] });
        if is_private {
            out.push_str(MASK);
        }
        rest = &rest[until..];
        let Some(skip) = rest.strip_prefix("-----END ") else { break };
        out.push_str("-----END ");
        rest = skip;
    }
    out.push_str(rest);
    out
}

fn clipped(mut text: String) -> String {
    if text.len() > MOST {
        let at = (0..=MOST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let left = text.len() - at;
        text.truncate(at);
        text.push_str(&format!("… [{left} bytes more]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn nothing_its_shape_or_all_but_credentials_is_told() {
        let content = json!({ "text": "paint it blue", "n": 7, "apiKey": "canary-1", "deep": [{ "password": "canary-2" }] });
        let told = |level| Capture::new(level, []).told(&content);
        assert_eq!(told(Level::Off), None);
        let shape = told(Level::Redacted).unwrap();
        assert!(
            shape.contains("[13 characters]") && !shape.contains("blue") && !shape.contains("canary"),
            "{shape}"
        );
        let full = told(Level::Full).unwrap();
        assert!(full.contains("paint it blue") && !full.contains("canary"), "{full}");
    }

    #[test]
    fn credentials_are_known_by_their_name_their_look_and_because_they_are_ours() {
        let full = Capture::new(Level::Full, ["join-secret-canary".to_owned(), "short".to_owned()]);
        let hidden = [
            "use Authorization: Bearer canary-token, please",
            "password=canary and go",
            "the token: canary",
            "https://user:canary@example.org/x",
            "sk-canarycanarycanary",
            "eyJhbGciOi.canary.canary",
            "-----BEGIN RSA PRIVATE KEY-----\ncanary\n-----END RSA PRIVATE KEY-----",
            "it is join-secret-canary!",
            "AKIAcanarycanary1 \"ghp_canarycanary\"",
        ];
        for text in hidden {
            let told = full.told(&json!(text)).unwrap();
            assert!(!told.contains("canary") && told.contains(MASK), "{text:?} is told as {told:?}");
        }
        for text in [
            "a short text",
            "secretary: hired",
            "see https://example.org/a@b",
            "-----BEGIN CERTIFICATE-----\nx",
        ] {
            let told = full.told(&json!(text)).unwrap();
            assert_eq!(told.contains(MASK), text.starts_with("secretary"), "{told:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_told_within_bounds(text in "(?s).{0,400}", times in 1usize..200) {
            let told = Capture::new(Level::Full, ["abcdefgh".to_owned()]).told(&json!(text.repeat(times))).unwrap();
            prop_assert!(told.len() <= MOST + 40);
            prop_assert!(!told.contains("abcdefgh"));
        }
    }
}
