//! The format: a line with the version, then one line per call with its request and its answer or error.

use super::CassetteError;
use crate::{
    brain::llm::model::{
        MediaRef, ModelAnswer, ModelError, ModelErrorKind, ModelMessage, ModelRequest, StopReason,
        TokenUsage, ToolCall,
    },
    telemetry::capture::Capture,
    text_file,
};
use protocol::{a2a::jcs::canonical, ids::Digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, path::Path};
use uuid::Uuid;

const VERSION: u32 = 1;
/// The largest cassette, bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The first line. It may come again, so that cassettes can be joined.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CassetteHeader {
    cassette: u32,
    /// Where the answers come from, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CassetteLine {
    pub(super) request: CassetteRequest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<CassetteAnswer>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<CassetteFailure>,
}

/// A request without what differs between two runs of the same work: deadline, earlier tasks, other agents, notes about the
/// budget, the marks around data, UUIDs, ids of delegated tasks, and what a provider wants back with a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CassetteRequest {
    /// The model as the configuration names it.
    model: String,
    system: String,
    /// The tools by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tools: BTreeMap<String, CassetteTool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    pub(super) messages: Vec<CassetteMessage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CassetteTool {
    description: String,
    schema: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum CassetteMessage {
    User(String),
    Assistant {
        #[serde(default)]
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<CassetteCall>,
    },
    Results(Vec<CassetteResult>),
    Media(Vec<MediaRef>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CassetteCall {
    /// Empty in an answer: the loop numbers calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    id: String,
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    /// Why the arguments could not be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invalid: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CassetteResult {
    call: String,
    text: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CassetteAnswer {
    #[serde(default)]
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<CassetteCall>,
    stop: StopReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<TokenUsage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CassetteFailure {
    kind: ModelErrorKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    message: String,
}

impl CassetteRequest {
    pub(super) fn new(model: &str, request: &ModelRequest) -> Self {
        let ModelRequest {
            system,
            messages,
            tools,
            output_schema,
            repeatable: (at, repeatable_message),
            has_budget_note,
            silence: _,
            media: _,
        } = request;
        let repeatable_message = ModelMessage::User(repeatable_message.clone());
        let notes = usize::from(*has_budget_note);
        let messages = messages.get(..messages.len().saturating_sub(notes)).unwrap_or_default();
        let messages = messages.iter().enumerate();
        let messages = messages.map(|(place, said)| if place == *at { &repeatable_message } else { said });
        let tools = tools.iter().map(|tool| {
            let (description, schema) = (tool.description.clone(), tool.schema.clone());
            (tool.name.clone(), CassetteTool { description, schema })
        });
        Self {
            model: model.to_owned(),
            system: repeatable(system),
            tools: tools.collect(),
            output_schema: output_schema.clone(),
            messages: messages.map(CassetteMessage::new).collect(),
        }
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(canonical(&self.to_json()).as_bytes())
    }

    pub(super) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The same with masks for secrets.
    pub(super) fn masked(&self, capture: &Capture) -> Self {
        let masked = serde_json::from_value(masked(self.to_json(), capture));
        masked.unwrap_or_else(|_| self.clone())
    }
}

impl CassetteMessage {
    fn new(message: &ModelMessage) -> Self {
        match message {
            ModelMessage::User(text) => Self::User(repeatable(text)),
            ModelMessage::Assistant { text, calls, .. } => {
                let calls = calls.iter().map(|call| CassetteCall::new(call, call.id.clone())).collect();
                Self::Assistant { text: repeatable(text), calls }
            }
            ModelMessage::Results(results) => {
                let results = results.iter().map(|(call, result)| CassetteResult {
                    call: call.clone(),
                    text: repeatable(&result.text),
                    is_error: result.is_error,
                });
                Self::Results(results.collect())
            }
            ModelMessage::Media(media) => Self::Media(media.clone()),
        }
    }
}

impl CassetteCall {
    fn new(call: &ToolCall, id: String) -> Self {
        let (name, arguments, invalid) = (call.name.clone(), call.arguments.clone(), call.invalid.clone());
        Self { id, name, arguments, invalid }
    }
}

impl CassetteAnswer {
    fn new(answer: &ModelAnswer) -> Self {
        let calls = answer.calls.iter().map(|call| CassetteCall::new(call, String::new())).collect();
        Self { text: answer.text.clone(), calls, stop: answer.stop, usage: answer.usage }
    }

    /// The answer as its provider gave it, without what providers want back.
    pub(super) fn to_answer(&self) -> ModelAnswer {
        let calls = self.calls.iter().cloned().map(|call| {
            let CassetteCall { id, name, arguments, invalid } = call;
            ToolCall { id, name, arguments, invalid, provider_id: None, extra: None }
        });
        let calls = calls.collect();
        ModelAnswer { text: self.text.clone(), calls, stop: self.stop, usage: self.usage, kept: None }
    }
}

impl CassetteFailure {
    pub(super) fn to_error(&self) -> ModelError {
        let Self { kind, status, message } = self.clone();
        ModelError { kind, status, ..ModelError::transient(message) }
    }
}

impl CassetteLine {
    pub(super) fn new(request: CassetteRequest, outcome: Result<&ModelAnswer, &ModelError>) -> Self {
        let error = outcome.err().map(|error| CassetteFailure {
            kind: error.kind,
            status: error.status,
            message: error.message.clone(),
        });
        Self { request, answer: outcome.ok().map(CassetteAnswer::new), error }
    }

    /// The line, with its end, and with masks for secrets.
    pub(super) fn to_text(&self, capture: &Capture) -> Result<String, serde_json::Error> {
        let mut line = Self { request: self.request.masked(capture), ..self.clone() };
        if let Some(answer) = &mut line.answer {
            answer.text = capture.label(&answer.text);
            for call in &mut answer.calls {
                let arguments = std::mem::take(&mut call.arguments);
                let masked = arguments.into_iter().map(|(name, value)| (name, masked(value, capture)));
                call.arguments = masked.collect();
            }
        }
        if let Some(error) = &mut line.error {
            error.message = capture.label(&error.message);
        }
        Ok(format!("{}\n", serde_json::to_string(&line)?))
    }
}

/// The first line of a new cassette.
pub(super) fn header() -> String {
    format!("{{\"cassette\":{VERSION}}}\n")
}

pub(super) fn read(path: &Path) -> Result<String, CassetteError> {
    text_file::read_up_to(path, MAX_BYTES).map_err(|error| {
        let what = format!("can't be read: {error}; `--record {}` makes one", path.display());
        CassetteError { file: path.display().to_string(), line: None, what }
    })
}

/// The calls with their line numbers, and the length of what is whole. A last line that breaks off is left out: the process
/// that recorded it was killed.
pub(super) fn parse(file: &str, text: &str) -> Result<(Vec<(usize, CassetteLine)>, usize), CassetteError> {
    let fault = |line, what: String| CassetteError { file: file.to_owned(), line: Some(line), what };
    let mut lines = Vec::new();
    let mut length = 0;
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let number = at + 1;
        let value: Value = match serde_json::from_str(line) {
            Ok(value) => value,
            Err(_) if !line.ends_with('\n') => break,
            Err(_) if line.trim().is_empty() => Value::Null,
            Err(error) => return Err(fault(number, format!("is no JSON: {error}"))),
        };
        length += line.len();
        let is_header = value.get("cassette").is_some();
        if at == 0 && !is_header {
            return Err(fault(number, format!("must be {}", header().trim_end())));
        }
        if is_header {
            let header = CassetteHeader::deserialize(value);
            let header = header.map_err(|error| fault(number, error.to_string()))?;
            if header.cassette != VERSION {
                let version = header.cassette;
                let what =
                    format!("has version {version}, and this program reads {VERSION}; record it again");
                return Err(fault(number, what));
            }
        } else if !value.is_null() {
            let line = CassetteLine::deserialize(value).map_err(|error| fault(number, error.to_string()))?;
            if line.answer.is_some() == line.error.is_some() {
                return Err(fault(number, "must have either `answer` or `error`".to_owned()));
            }
            lines.push((number, line));
        }
    }
    Ok((lines, length))
}

/// What hexadecimal digits follow, how many, and what stands for both: the marks around data, which depend on their content, and
/// the ids of delegated tasks.
const MARKED: [(&str, usize, &str); 3] =
    [("BEGIN DATA ", 12, "BEGIN DATA"), ("END DATA ", 12, "END DATA"), ("sub-", 20, "[task]")];
const UUID: usize = 36;

/// `text` without what differs between two runs: marks around data, UUIDs, ids of delegated tasks.
fn repeatable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let digits = |from: usize, count: usize| {
            let digits = rest.as_bytes().get(from..from + count);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        let marked =
            MARKED.iter().find(|(mark, count, _)| rest.starts_with(mark) && digits(mark.len(), *count));
        let taken = if let Some((mark, count, shown)) = marked {
            out.push_str(shown);
            mark.len() + count
        } else if rest.as_bytes().get(8) == Some(&b'-')
            && rest.get(..UUID).is_some_and(|id| Uuid::try_parse(id).is_ok())
        {
            out.push_str("[uuid]");
            UUID
        } else {
            out.push(next);
            next.len_utf8()
        };
        rest = &rest[taken..];
    }
    out
}

fn masked(value: Value, capture: &Capture) -> Value {
    match value {
        Value::String(text) => Value::String(capture.label(&text)),
        Value::Array(items) => items.into_iter().map(|item| masked(item, capture)).collect(),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, masked(value, capture))).collect())
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_uuids_are_left_out_and_all_else_stays() {
        for (text, expected) in [
            ("BEGIN DATA 0123456789ab\nx\nEND DATA 0123456789ab", "BEGIN DATA\nx\nEND DATA"),
            ("BEGIN DATA of mine", "BEGIN DATA of mine"),
            ("task 0198c9b1-7e7a-7cc3-9b1a-0a1b2c3d4e5f failed", "task [uuid] failed"),
            ("sub-14dca44a083ba48848b8: no", "[task]: no"),
            ("0198c9b1-7e7a-7cc3-9b1a, sub-zero", "0198c9b1-7e7a-7cc3-9b1a, sub-zero"),
            ("größe-é – 0198c9b1", "größe-é – 0198c9b1"),
        ] {
            assert_eq!(repeatable(text), expected);
        }
    }

    #[test]
    fn faults_of_a_cassette_are_named_with_their_line() {
        for (text, part) in [
            ("{}\n", "line 1: must be {\"cassette\":1}"),
            ("{\"cassette\":2}\n", "line 1: has version 2, and this program reads 1"),
            ("{\"cassette\":1}\nno\n{}\n", "line 2: is no JSON"),
            ("{\"cassette\":1}\n{\"request\":{}}\n", "line 2: missing field `model`"),
            (
                "{\"cassette\":1}\n\n{\"request\":{\"model\":\"m\",\"system\":\"s\",\"messages\":[]}}\n",
                "line 3: must have either `answer` or `error`",
            ),
            ("{\"cassette\":1,\"notes\":\"x\"}\n", "line 1: unknown field `notes`"),
        ] {
            let fault = parse("c.jsonl", text).unwrap_err().to_string();
            assert!(fault.starts_with("the cassette c.jsonl, ") && fault.contains(part), "{fault}");
        }
    }
}
