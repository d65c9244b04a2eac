//! The secrets of this process, and the names whose values are secret.

use crate::token_format::{BRAIN_PREFIX, PEER_PREFIX, PERSON_PREFIX};
use aho_corasick::{AhoCorasick, MatchKind};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Url;
use serde_json::json;
use std::{borrow::Cow, collections::BTreeSet};

/// What replaces a secret.
pub(super) const MASK: &str = "***";

/// Shorter secrets are not searched for: they occur by chance.
const MIN_LEN: usize = 6;

/// A line of a secret (of a PEM file) that is at least this long is a secret too.
const MIN_LINE_LEN: usize = 16;

/// Ends of names whose values are secret, in lower case and without `_` and `-`.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "secrets",
    "token",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "authorization",
    "cookie",
    "cookies",
    "credential",
    "credentials",
];

/// Further ends for names of variables and options, where `key` is seldom anything else.
const SECRET_VARIABLES: &[&str] = &["key", "pass", "auth", "pat"];

pub(super) fn is_secret_name(name: &str) -> bool {
    ends_with(name, SECRET_NAMES)
}

fn ends_with(name: &str, ends: &[&str]) -> bool {
    let name: String = name.chars().filter(|char| !['_', '-'].contains(char)).collect();
    let name = name.to_lowercase();
    ends.iter().any(|end| name.ends_with(end))
}

/// The secrets in an environment variable: its value if its name says so, and the password of a URL.
pub fn of_variable(name: &str, value: &str) -> Vec<String> {
    let mut secrets = Vec::new();
    let is_directory = ["PWD", "OLDPWD"].contains(&name);
    if !is_directory && (is_secret_name(name) || ends_with(name, SECRET_VARIABLES)) {
        secrets.push(value.to_owned());
    }
    if let Some(password) = Url::parse(value).ok().as_ref().and_then(Url::password) {
        secrets.extend([password.to_owned(), crate::telemetry::otel_settings::decoded(password)]);
    }
    secrets
}

/// The secrets in a command line: values of options whose names say so, and passwords of URLs.
pub fn of_command(words: &[String]) -> Vec<String> {
    let before = std::iter::once("").chain(words.iter().map(String::as_str));
    let pairs = words.iter().zip(before).map(|(word, before)| word.split_once('=').unwrap_or((before, word)));
    pairs.flat_map(|(name, value)| of_variable(name, value)).collect()
}

/// The secrets in the query of a URL: values whose names say so, as they are written and decoded.
pub fn of_query(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let written = url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let written = written.map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value)));
    written.chain(url.query_pairs()).flat_map(|(name, value)| of_variable(&name, &value)).collect()
}

#[derive(Clone, Default)]
pub(super) struct SecretMasker(Option<AhoCorasick>);

impl SecretMasker {
    /// Masks `secrets`, the credentials within them (`Basic …`), and their forms in JSON and in URLs.
    pub(super) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut values = BTreeSet::new();
        for secret in secrets {
            let secret = secret.trim();
            values.extend(credentials(secret));
            values.extend(secret.lines().filter(|line| line.len() >= MIN_LINE_LEN).map(str::to_owned));
            values.insert(secret.to_owned());
        }
        values.retain(|value| value.len() >= MIN_LEN);
        let patterns: BTreeSet<_> = values.iter().flat_map(|value| forms(value)).collect();
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns);
        // Fails only with more than 2^31 bytes of patterns, which no environment holds.
        Self(Some(finder.expect("the secrets of a process fit into memory")))
    }

    /// `text` with a mask for each secret and for each token of a mesh.
    pub(super) fn mask(&self, text: &str) -> String {
        let text = without_tokens(text);
        let Some(finder) = &self.0 else { return text.into_owned() };
        let mut masked = String::with_capacity(text.len());
        finder.replace_all_with(&text, &mut masked, |_, _, masked| {
            masked.push_str(MASK);
            true
        });
        masked
    }
}

/// `text` with a mask for what follows the prefix of a token ([`crate::token_format`]), whichever process made it.
fn without_tokens(text: &str) -> Cow<'_, str> {
    let mut masked = Cow::Borrowed(text);
    for prefix in [BRAIN_PREFIX, PEER_PREFIX, PERSON_PREFIX] {
        let mut from = 0;
        while let Some(found) = masked[from..].find(prefix) {
            from += found + prefix.len();
            let secret = masked[from..].bytes().take_while(u8::is_ascii_hexdigit).count();
            if secret >= MIN_LEN {
                masked.to_mut().replace_range(from..from + secret, MASK);
            }
        }
    }
    masked
}

/// What follows the scheme of an `Authorization` value; of `Basic`, the password too.
fn credentials(secret: &str) -> Vec<String> {
    let Some((scheme, credentials)) = secret.split_once(' ') else { return Vec::new() };
    if !["basic", "bearer"].contains(&scheme.to_lowercase().as_str()) {
        return Vec::new();
    }
    let decoded = STANDARD.decode(credentials).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let password =
        decoded.as_deref().and_then(|pair| pair.split_once(':')).map(|(_, password)| password.to_owned());
    [credentials.to_owned()].into_iter().chain(password).collect()
}

/// `secret` as it is, escaped in JSON once and twice, and as a URL has it.
fn forms(secret: &str) -> Vec<String> {
    let escaped = |text: &str| {
        let json = json!(text).to_string();
        json[1..json.len() - 1].to_owned()
    };
    let (once, twice) = (escaped(secret), escaped(&escaped(secret)));
    let mut forms = vec![secret.to_owned(), once, twice];
    if let Ok(url) = Url::parse_with_params("http://localhost", [(secret, "")]) {
        let query = url.query().unwrap_or_default().trim_end_matches('=');
        forms.extend([query.to_owned(), query.replace('+', "%20")]);
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_in_variables_and_commands() {
        for (name, value, secret) in [
            ("GITHUB_TOKEN", "canary", Some("canary")),
            ("OPENAI_API_KEY", "canary", Some("canary")),
            ("SMTP_PASS", "canary", Some("canary")),
            ("DATABASE_URL", "postgres://mesh:canary%40x@127.0.0.1/mesh", Some("canary@x")),
            ("PWD", "/home/me", None),
            ("PATH", "/bin", None),
            ("TOKEN_FILE", "/run/token", None),
        ] {
            assert_eq!(of_variable(name, value).last().map(String::as_str), secret, "{name}");
        }
        let words =
            ["curl", "--token", "canary-1", "--api-key=canary-2", "http://u:canary-3@h/"].map(str::to_owned);
        assert_eq!(of_command(&words), ["canary-1", "canary-2", "canary-3", "canary-3"]);
        let url = "https://host/p?tokens=1&api_key=canary%2B4&page=2";
        assert_eq!(of_query(url), ["canary%2B4", "canary+4"]);
    }

    #[test]
    fn the_password_within_a_header_and_the_lines_of_a_key_are_masked() {
        let header = format!("Basic {}", STANDARD.encode("mesh:nightingale"));
        let secrets = SecretMasker::new([header, "-----BEGIN KEY-----\nMIIBVgIBADANBgkq\n".to_owned()]);
        for (text, masked) in
            [("a nightingale", "a ***"), ("> MIIBVgIBADANBgkq", "> ***"), ("Basic", "Basic")]
        {
            assert_eq!(secrets.mask(text), masked);
        }
    }

    #[test]
    fn the_forms_of_a_secret_in_json_and_urls_are_masked() {
        let secrets = SecretMasker::new(["own \"word\"/&1".to_owned()]);
        for form in [
            r#"own \"word\"/&1"#,
            r#"own \\\"word\\\"/&1"#,
            "own+%22word%22%2F%261",
            "own%20%22word%22%2F%261",
        ] {
            assert_eq!(secrets.mask(&format!("?a={form}&b")), "?a=***&b", "{form}");
        }
    }

    #[test]
    fn tokens_of_a_mesh_are_masked_also_in_part() {
        let [brain, person] = [BRAIN_PREFIX, PERSON_PREFIX].map(crate::token_format::random_token);
        for secrets in [SecretMasker::default(), SecretMasker::new(["nightingale".to_owned()])] {
            let text = format!("A={brain}\nB={}; {person}, mesh-brain-dig-01", &brain[..30]);
            let masked = "A=mesh-brain-***\nB=mesh-brain-***; mesh-person-***, mesh-brain-dig-01";
            assert_eq!(secrets.mask(&text), masked);
        }
    }
}
