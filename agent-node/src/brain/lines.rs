//! What a brain says, line by line: the reports of [`Progress`], then one end: `{"type":"done"}`, `message`, `failed` or
//! `rejected`.

use protocol::{
    a2a::json::base64_of_any_kind,
    artifact::{Artifact, Part, PartContent},
    json::{MAX_DEPTH, parse as parse_json},
    patterns::turn::{Progress, TurnEnd},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One line of a brain.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// It goes on.
    Progress(Progress),
    /// It is over.
    End(TurnEnd),
}

/// What is said here stands deeper in the messages that pass it on, and must not be too deep there.
const DEPTH: usize = MAX_DEPTH - 4;

impl Said {
    /// The line that says it; a turn that ends waiting says so by saying nothing.
    pub fn line(&self) -> Option<String> {
        let value = match self {
            Self::Progress(progress) => serde_json::to_value(progress).ok()?,
            Self::End(TurnEnd::Done { message: Some(message) }) => {
                json!({ "type": "done", "message": message })
            }
            Self::End(TurnEnd::Done { message: None }) => json!({ "type": "done" }),
            Self::End(TurnEnd::Failed { reason }) => json!({ "type": "failed", "reason": reason }),
            Self::End(TurnEnd::Rejected { reason }) => json!({ "type": "rejected", "reason": reason }),
            Self::End(TurnEnd::Message { text }) => json!({ "type": "message", "text": text }),
            Self::End(TurnEnd::Waiting) => return None,
        };
        Some(value.to_string())
    }
}

const TYPES: &str = "status, artifact, signal, help, delegate, question, done, message, failed, rejected";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
enum End {
    Done {
        #[serde(default)]
        message: Option<String>,
    },
    Message {
        text: String,
    },
    Failed {
        reason: String,
    },
    Rejected {
        reason: String,
    },
}

/// An artifact of one part, without the ceremony of A2A's.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ShortArtifact {
    #[serde(rename = "type")]
    _type: Value,
    name: String,
    #[serde(default)]
    artifact_id: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    raw: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    filename: Option<String>,
    #[serde(default)]
    append: bool,
    #[serde(default)]
    last_chunk: bool,
}

impl ShortArtifact {
    fn into_progress(self) -> Result<Progress, String> {
        let contents = [
            self.text.map(PartContent::Text),
            self.data.map(PartContent::Data),
            self.raw.map(PartContent::Raw),
            self.url.map(PartContent::Url),
        ];
        let mut contents = contents.into_iter().flatten();
        let (Some(content), None) = (contents.next(), contents.next()) else {
            return Err(
                "an artifact needs exactly one of text, data, raw, url; or the full form in \"artifact\""
                    .into(),
            );
        };
        let part = Part { media_type: self.media_type, filename: self.filename, ..Part::new(content) };
        let artifact = Artifact {
            artifact_id: self.artifact_id.unwrap_or_else(|| self.name.clone()),
            name: Some(self.name),
            description: self.description,
            parts: vec![part],
            metadata: Map::new(),
            extensions: Vec::new(),
        };
        Ok(Progress::Artifact { artifact, append: self.append, last_chunk: self.last_chunk })
    }
}

/// What `line` says, or what is wrong with it.
pub fn parse(line: &[u8]) -> Result<Said, String> {
    let value = parse_json(line, DEPTH)
        .map_err(|problem| format!("is no JSON: {problem}; it begins {:?}", beginning(line)))?;
    said(value)
}

/// What a parsed line says, or what is wrong with it.
pub fn said(value: Value) -> Result<Said, String> {
    let kind = value.get("type").and_then(Value::as_str).map(str::to_owned);
    let kind = kind.ok_or_else(|| format!("is no object with a \"type\" ({TYPES})"))?;
    let wrong = |error: serde_json::Error| format!("{kind:?}: {error}");
    match kind.as_str() {
        "done" | "message" | "failed" | "rejected" => {
            Ok(Said::End(match serde_json::from_value(value).map_err(wrong)? {
                End::Done { message } => TurnEnd::Done { message },
                End::Message { text } => TurnEnd::Message { text },
                End::Failed { reason } => TurnEnd::Failed { reason },
                End::Rejected { reason } => TurnEnd::Rejected { reason },
            }))
        }
        "artifact" if value.get("artifact").is_none() => {
            let short: ShortArtifact = serde_json::from_value(value).map_err(wrong)?;
            short.into_progress().and_then(allowed).map(Said::Progress)
        }
        "status" | "artifact" | "signal" | "help" | "delegate" | "question" => {
            allowed(serde_json::from_value(value).map_err(wrong)?).map(Said::Progress)
        }
        _ => Err(format!("unknown type {:?}; known are {TYPES}", beginning(kind.as_bytes()))),
    }
}

/// The members of `line`, which says `done` and no message, that nobody here knows: one of them may be what was meant.
pub fn strangers(line: &[u8]) -> Vec<String> {
    let members: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
    let unknown = members.keys().filter(|name| !["type", "message"].contains(&name.as_str()));
    unknown.take(MOST_STRANGERS).map(|name| beginning(name.as_bytes())).collect()
}

/// The most unknown members that are named.
const MOST_STRANGERS: usize = 3;

/// `progress`, unless it announces what is not for a brain to announce, or has bytes that are no base64: no client of A2A
/// could read those.
fn allowed(progress: Progress) -> Result<Progress, String> {
    match &progress {
        Progress::Signal { signal, .. } if signal.is_registrys() => {
            Err(format!("\"signal\": only the registry publishes {signal}"))
        }
        Progress::Artifact { artifact, .. } => {
            for part in &artifact.parts {
                if let PartContent::Raw(text) = &part.content {
                    base64_of_any_kind(text.clone()).map_err(|invalid| format!("\"raw\": {invalid}"))?;
                }
            }
            Ok(progress)
        }
        Progress::Signal { .. }
        | Progress::Status { .. }
        | Progress::Help { .. }
        | Progress::Delegate { .. }
        | Progress::Question { .. } => Ok(progress),
    }
}

/// Whether what was reported waits for an answer.
pub fn asks(progress: &Progress) -> bool {
    match progress {
        Progress::Help { .. } | Progress::Delegate { .. } | Progress::Question { .. } => true,
        Progress::Status { .. } | Progress::Artifact { .. } | Progress::Signal { .. } => false,
    }
}

fn beginning(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(line: &str) -> Result<Said, String> {
        parse(line.as_bytes())
    }

    #[test]
    fn both_forms_of_an_artifact_say_the_same() {
        let short =
            parsed(r#"{"type":"artifact","name":"handler.rs","mediaType":"text/x-rust","text":"fn f() {}"}"#);
        let full = parsed(
            r#"{"type":"artifact","artifact":{"artifactId":"handler.rs","name":"handler.rs","parts":[{"text":"fn f() {}","mediaType":"text/x-rust"}]}}"#,
        );
        assert_eq!(short, full);
        let artifact = Artifact::text("handler.rs", "text/x-rust", "fn f() {}");
        let expected = Progress::Artifact { artifact, append: false, last_chunk: false };
        assert_eq!(short, Ok(Said::Progress(expected)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, part) in [
            ("hello", "is no JSON"),
            ("[1]", "no object with a \"type\""),
            (r#"{"type":"shout"}"#, "unknown type \"shout\"; known are status"),
            (r#"{"type":"failed"}"#, "missing field `reason`"),
            (r#"{"type":"artifact","name":"x"}"#, "exactly one of text"),
            (r#"{"type":"artifact","name":"x","text":"a","txet":"b"}"#, "unknown field `txet`"),
            (r#"{"type":"artifact","name":"x","raw":"no base64!"}"#, "\"raw\": "),
            (r#"{"type":"signal","signal":"agent.left"}"#, "only the registry publishes agent.left"),
            (r#"{"type":"signal","signal":"agent.gone"}"#, "\"agent.gone\" is no signal type"),
            (
                r#"{"type":"delegate","id":"a","to":"capability:","description":"d"}"#,
                "a capability must match",
            ),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn every_report_survives_its_line() {
        for line in [
            r#"{"type":"status","message":"half way"}"#,
            r#"{"type":"signal","signal":"help.needed"}"#,
            r#"{"type":"help","id":"h1","capability":"code-review","question":"ok?","artifacts":["a"]}"#,
            r#"{"type":"delegate","id":"d1","to":"capability:plan","description":"plan it","input":{"a":1}}"#,
            r#"{"type":"question","id":"q1","text":"which one?"}"#,
        ] {
            let Ok(Said::Progress(progress)) = parsed(line) else { panic!("{line}") };
            let again = serde_json::to_vec(&progress).unwrap();
            assert_eq!(parse(&again), Ok(Said::Progress(progress)));
        }
    }

    proptest! {
        #[test]
        fn any_line_is_answered(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }
    }
}
