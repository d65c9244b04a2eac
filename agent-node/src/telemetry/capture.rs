//! How much of the content of messages, prompts and results goes into spans. Secrets of this process are masked at every
//! level, in labels too ([`SecretMasker`]). Finding other people's secrets in free text is the work of the trace collector.

mod redact;
mod secrets;

pub use secrets::{of_command, of_query, of_variable};

use secrets::{MASK, SecretMasker, is_secret_name};
use serde_json::Value;

/// How much content goes into spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum CaptureLevel {
    /// No content.
    #[default]
    Off,
    /// Which of the mesh's own members are present, the length of texts and the number of items. No content.
    Redacted,
    /// All content up to 16 KiB an attribute, without this process's secrets and without values under secret names.
    Full,
}

/// Turns content into span attributes.
#[derive(Clone, Default)]
pub struct Capture {
    level: CaptureLevel,
    secrets: SecretMasker,
}

/// The longest attribute, bytes.
const MAX_LEN: usize = 16 * 1024;

impl Capture {
    /// Captures at `level` and masks `secrets`.
    pub fn new(level: CaptureLevel, secrets: impl IntoIterator<Item = String>) -> Self {
        Self { level, secrets: SecretMasker::new(secrets) }
    }

    /// Whether content is captured at all.
    pub fn is_on(&self) -> bool {
        self.level != CaptureLevel::Off
    }

    /// The same at the level of all content.
    #[must_use]
    pub fn in_full(&self) -> Self {
        Self { level: CaptureLevel::Full, secrets: self.secrets.clone() }
    }

    /// The attribute for `content`; `None` if nothing is captured or there is no content.
    pub fn render(&self, content: &Value) -> Option<String> {
        let text = match (self.level, content) {
            (CaptureLevel::Off, _) | (_, Value::Null) => return None,
            (CaptureLevel::Redacted, content) => redact::shape(content).to_string(),
            (CaptureLevel::Full, Value::String(text)) => self.label(text),
            (CaptureLevel::Full, content) => self.masked(content).to_string(),
        };
        let end = text.floor_char_boundary(MAX_LEN);
        Some(match text.len() - end {
            0 => text,
            rest => format!("{}… [{rest} bytes more]", &text[..end]),
        })
    }

    /// `text`, which is an identifier or a label and no content, without this process's secrets and the tokens of a
    /// mesh.
    pub fn label(&self, text: &str) -> String {
        self.secrets.mask(text)
    }

    /// `content` without this process's secrets, the tokens of a mesh and the values of members whose name is secret.
    pub fn masked(&self, content: &Value) -> Value {
        match content {
            Value::Array(items) => items.iter().map(|item| self.masked(item)).collect(),
            Value::Object(members) => {
                let masked = members.iter().map(|(name, value)| match is_secret_name(name) {
                    true => (self.label(name), MASK.into()),
                    false => (self.label(name), self.masked(value)),
                });
                Value::Object(masked.collect())
            }
            Value::String(text) => self.label(text).into(),
            Value::Number(number) => match self.label(&number.to_string()) {
                masked if masked == number.to_string() => content.clone(),
                masked => masked.into(),
            },
            Value::Null | Value::Bool(_) => content.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_the_shape_or_all_is_captured() {
        let content = json!({
            "description": "paint it blue", "seq": 7, "canaryMember": "x", "append": true,
            "input": { "canary-name": { "canary-deep": [1] } },
            "artifacts": [{ "artifactId": "x", "parts": [{ "text": "abc" }], "metadata": { "canary": 1 } }],
        });
        let rendered = |level| Capture::new(level, []).render(&content);
        assert_eq!(rendered(CaptureLevel::Off), None);
        let redacted: Value = serde_json::from_str(&rendered(CaptureLevel::Redacted).unwrap()).unwrap();
        let expected = json!({
            "description": "[13 characters]", "input": "[1 members]", "…": "[3 members more]",
            "artifacts": [{ "parts": [{ "text": "[3 characters]" }], "metadata": "[1 members]", "…": "[1 members more]" }],
        });
        assert_eq!(redacted, expected);
        assert_eq!(rendered(CaptureLevel::Full).unwrap(), content.to_string());
        assert_eq!(Capture::new(CaptureLevel::Full, []).render(&Value::Null), None);
    }

    #[test]
    fn secrets_of_this_process_are_masked_wherever_they_occur() {
        let secrets = ["night\"in\\gale", "nightingale-2", "12345678"];
        let capture = Capture::new(CaptureLevel::Full, secrets.map(str::to_owned));
        for secret in secrets {
            let content = json!({ secret: [format!("a{secret}b"), json!({ "x": secret }).to_string()] });
            let text = capture.render(&content).unwrap();
            assert!([secret, "night", "gale"].iter().all(|form| !text.contains(form)), "{text}");
            assert_eq!(capture.label(&format!("a {secret}")), "a ***");
        }
        assert!(!capture.render(&json!({ "pin": 12_345_678 })).unwrap().contains("456"));
        assert_eq!(capture.label("nightingale"), "nightingale");
    }

    #[test]
    fn values_under_secret_names_are_masked() {
        let capture = Capture::new(CaptureLevel::Full, []);
        let names =
            ["password", "Passwd", "db_password", "apiKey", "X-API-KEY", "client_secret", "accessToken"];
        for name in names.into_iter().chain(["Authorization", "Set-Cookie", "credentials", "private_key"]) {
            for value in [json!("canary"), json!(["canary"]), json!({ "a": "canary" })] {
                let text = capture.render(&json!({ "input": [{ name: value }], "seq": 1 })).unwrap();
                assert_eq!(text, json!({ "input": [{ name: "***" }], "seq": 1 }).to_string());
            }
        }
        let other = json!({ "max_tokens": 512, "key": "title", "author": "me", "secretary": "you" });
        assert_eq!(capture.render(&other).unwrap(), other.to_string());
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let capture = Capture::new(CaptureLevel::Full, ["nightingale".to_owned()]);
        let text = capture.render(&json!(format!("x{}", "ä".repeat(MAX_LEN)))).unwrap();
        assert!(text.ends_with("ä… [16386 bytes more]"), "{}", &text[MAX_LEN - 10..]);
        // A secret across the limit is masked before the text is cut.
        let across = capture.render(&json!(format!("{}nightingale", "x".repeat(MAX_LEN - 4)))).unwrap();
        assert!(across.ends_with("x***"), "{}", &across[MAX_LEN - 10..]);
    }
}
