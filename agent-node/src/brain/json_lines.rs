//! The output of a brain as JSON lines: reports ([`Progress`]), then one end: `{"type":"done"}`, `message`, `failed` or
//! `rejected`.

use protocol::{
    a2a::json::base64_of_any_kind,
    artifact::{Artifact, Part, PartContent},
    json::{MAX_DEPTH, parse as parse_json},
    patterns::{
        open_task,
        turn::{Progress, TurnEnd},
    },
    signal::SignalType,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// One line of a brain's output.
#[derive(Debug, Clone, PartialEq)]
pub enum BrainLine {
    /// A report.
    Progress(Progress),
    /// The end of the turn.
    End(TurnEnd),
}

/// The deepest nesting of a line. Messages to peers contain a line's values at a greater depth.
const MAX_LINE_DEPTH: usize = MAX_DEPTH - 4;

impl BrainLine {
    /// The line as JSON; `None` for [`TurnEnd::Waiting`], which has no line.
    pub fn to_json(&self) -> Option<String> {
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
enum EndLine {
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

/// The short form of an artifact with one part.
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

/// Parses a line. The error says what is wrong with it.
pub fn parse(line: &[u8]) -> Result<BrainLine, String> {
    let value = parse_json(line, MAX_LINE_DEPTH)
        .map_err(|problem| format!("is no JSON: {problem}; it begins {:?}", beginning(line)))?;
    from_value(value)
}

/// Converts the JSON of a line. The error says what is wrong with it.
pub fn from_value(value: Value) -> Result<BrainLine, String> {
    let kind = value.get("type").and_then(Value::as_str).map(str::to_owned);
    let kind = kind.ok_or_else(|| format!("is no object with a \"type\" ({TYPES})"))?;
    let wrong = |error: serde_json::Error| format!("{kind:?}: {error}");
    match kind.as_str() {
        "done" | "message" | "failed" | "rejected" => {
            Ok(BrainLine::End(match serde_json::from_value(value).map_err(wrong)? {
                EndLine::Done { message } => TurnEnd::Done { message },
                EndLine::Message { text } => TurnEnd::Message { text },
                EndLine::Failed { reason } => TurnEnd::Failed { reason },
                EndLine::Rejected { reason } => TurnEnd::Rejected { reason },
            }))
        }
        "artifact" if value.get("artifact").is_none() => {
            let short: ShortArtifact = serde_json::from_value(value).map_err(wrong)?;
            short.into_progress().and_then(validate).map(BrainLine::Progress)
        }
        "status" | "artifact" | "signal" | "help" | "delegate" | "question" => {
            validate(serde_json::from_value(value).map_err(wrong)?).map(BrainLine::Progress)
        }
        _ => Err(format!("unknown type {:?}; known are {TYPES}", beginning(kind.as_bytes()))),
    }
}

/// The unknown members of `line`, a `done` without a message: one of them may be meant as the message.
pub fn unknown_members(line: &[u8]) -> Vec<String> {
    let members: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
    let unknown = members.keys().filter(|name| !["type", "message"].contains(&name.as_str()));
    unknown.take(MAX_NAMED).map(|name| beginning(name.as_bytes())).collect()
}

/// The most unknown members that are named.
const MAX_NAMED: usize = 3;

/// Refuses signals that only the mesh may publish, offers that nobody can do, and raw parts that are no base64.
fn validate(progress: Progress) -> Result<Progress, String> {
    match &progress {
        Progress::Signal { signal, .. } if signal.is_registrys() => {
            Err(format!("\"signal\": only the registry publishes {signal}"))
        }
        Progress::Signal { signal, .. } if signal.is_lifecycle() => {
            Err(format!("\"signal\": only the mesh publishes {signal}, as it happens"))
        }
        Progress::Signal { signal, subject, refs, .. }
            if *signal == SignalType::task_available()
                && open_task::description(refs, subject.as_deref()).is_none() =>
        {
            Err("\"subject\": an offer says what is to be done, here or in refs.description".to_owned())
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

/// Whether a report expects an answer in a later turn.
pub fn expects_answer(progress: &Progress) -> bool {
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

    fn parsed(line: &str) -> Result<BrainLine, String> {
        parse(line.as_bytes())
    }

    #[test]
    fn both_forms_of_an_artifact_give_the_same_report() {
        let short =
            parsed(r#"{"type":"artifact","name":"handler.rs","mediaType":"text/x-rust","text":"fn f() {}"}"#);
        let full = parsed(
            r#"{"type":"artifact","artifact":{"artifactId":"handler.rs","name":"handler.rs","parts":[{"text":"fn f() {}","mediaType":"text/x-rust"}]}}"#,
        );
        assert_eq!(short, full);
        let artifact = Artifact::text("handler.rs", "text/x-rust", "fn f() {}");
        let expected = Progress::Artifact { artifact, append: false, last_chunk: false };
        assert_eq!(short, Ok(BrainLine::Progress(expected)));
    }

    #[test]
    fn an_error_names_the_cause() {
        for (line, part) in [
            ("hello", "is no JSON"),
            ("[1]", "no object with a \"type\""),
            (r#"{"type":"shout"}"#, "unknown type \"shout\"; known are status"),
            (r#"{"type":"failed"}"#, "missing field `reason`"),
            (r#"{"type":"artifact","name":"x"}"#, "exactly one of text"),
            (r#"{"type":"artifact","name":"x","text":"a","txet":"b"}"#, "unknown field `txet`"),
            (r#"{"type":"artifact","name":"x","raw":"no base64!"}"#, "\"raw\": "),
            (r#"{"type":"signal","signal":"agent.left"}"#, "only the registry publishes agent.left"),
            (
                r#"{"type":"signal","signal":"task.available","capability":"dig"}"#,
                "\"subject\": an offer says",
            ),
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
    fn every_report_is_the_same_after_a_round_trip() {
        for line in [
            r#"{"type":"status","message":"half way"}"#,
            r#"{"type":"signal","signal":"help.needed"}"#,
            r#"{"type":"help","id":"h1","capability":"code-review","question":"ok?","artifacts":["a"]}"#,
            r#"{"type":"delegate","id":"d1","to":"capability:plan","description":"plan it","input":{"a":1}}"#,
            r#"{"type":"question","id":"q1","text":"which one?"}"#,
        ] {
            let Ok(BrainLine::Progress(progress)) = parsed(line) else { panic!("{line}") };
            let again = serde_json::to_vec(&progress).unwrap();
            assert_eq!(parse(&again), Ok(BrainLine::Progress(progress)));
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }
    }
}
