//! The one interface to language models: a request in, a stream of deltas out. Providers' formats are in `chat`, `responses` and `messages`.

use futures_util::Stream;
use protocol::ids::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

/// A model at a provider.
///
/// The stream ends after its first error and after [`ModelDelta::Answer`], which every complete answer ends with. A stream
/// that breaks off is an error. Dropping the stream closes the request at the provider.
pub trait ModelClient: Send + Sync {
    /// Asks for the next message of a conversation.
    fn ask(&self, request: Arc<ModelRequest>) -> ModelStream;

    /// The model as the configuration names it: `anthropic/claude-sonnet-4-5`.
    fn name(&self) -> &str;
}

/// An answer as it arrives.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelDelta, ModelError>> + Send>>;

/// A conversation to continue.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Instructions, which take precedence over all messages.
    pub system: String,
    /// The conversation, oldest first. It begins with the user.
    pub messages: Vec<ModelMessage>,
    /// What the model may call.
    pub tools: Vec<ToolSpec>,
    /// The JSON Schema of the final answer, if it is JSON.
    pub output_schema: Option<Value>,
    /// The message that says what the turn is about, by its place, as every run of the same task has it: without deadline, earlier
    /// tasks and other agents.
    pub repeatable: (usize, String),
    /// Whether the last message is about the budget.
    pub has_budget_note: bool,
    /// How long the model may send no piece of an answer before the call fails; `None` leaves it to the caller.
    pub silence: Option<Duration>,
    /// The content of the media that the model is shown, as base64.
    pub media: BTreeMap<Digest, Arc<str>>,
}

impl ModelRequest {
    /// The bytes of what the model reads.
    pub(super) fn bytes(&self) -> usize {
        let messages = self.messages.iter().map(|message| match message {
            ModelMessage::User(text) => text.len(),
            ModelMessage::Assistant { text, calls, .. } => {
                text.len() + calls.iter().map(ToolCall::bytes).sum::<usize>()
            }
            ModelMessage::Results(results) => results.iter().map(|(_, result)| result.text.len()).sum(),
            ModelMessage::Media(media) => media.len() * MEDIUM_BYTES,
        });
        let schema = self.output_schema.as_ref().map_or(0, |schema| schema.to_string().len());
        let tools = self.tools.iter().map(ToolSpec::bytes);
        self.system.len() + messages.sum::<usize>() + tools.sum::<usize>() + schema
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelMessage {
    User(String),
    Assistant {
        text: String,
        calls: Vec<ToolCall>,
        kept: Option<Kept>,
    },
    /// The results of all calls of the message before.
    Results(Vec<(String, ToolText)>),
    /// Images and files of the user, or of the results, that the message before is about.
    Media(Vec<MediaRef>),
}

/// What a model may see besides text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MediaKind {
    /// PNG, JPEG, GIF and WebP.
    Image,
    /// PDF.
    Pdf,
}

/// About how many bytes of text a medium is worth to a model: some 1,600 tokens.
pub(super) const MEDIUM_BYTES: usize = 6 << 10;

/// An image or a PDF, whose content is in the store of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MediaRef {
    /// Of its content.
    pub digest: Digest,
    pub bytes: u64,
    pub media_type: String,
    /// The name of the file, or of its artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What a provider has sent with an answer only to get it back: reasoning, signatures, the order of its items. It goes to that provider
/// alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// The dialect and the URL of the provider.
    pub by: String,
    /// As it was sent; in the form of the dialect.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub parts: Value,
}

/// What the model reads of a tool's result.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolText {
    /// The result, or what went wrong.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: Value,
}

impl ToolSpec {
    /// The bytes of what the model reads.
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.description.len() + self.schema.to_string().len()
    }
}

/// A call of a tool by the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Unique in the task.
    pub id: String,
    pub name: String,
    /// The arguments; empty if they could not be parsed.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Why the arguments could not be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// The provider's id, which that provider alone is sent back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// What the provider wants back with the call, such as a signature of its reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

impl ToolCall {
    /// The bytes of its name and arguments.
    pub(super) fn bytes(&self) -> usize {
        let arguments = serde_json::to_string(&self.arguments).map_or(0, |text| text.len());
        self.name.len() + if self.arguments.is_empty() { 0 } else { arguments }
    }

    /// A call with arguments as the model wrote them. Nothing, and `null`, stand for an empty object; some servers send the object as
    /// a text within a text.
    pub(super) fn parse(id: String, name: String, arguments: &str, extra: Option<Value>) -> Self {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let read = match serde_json::from_str(text) {
            Ok(Value::String(inner)) => serde_json::from_str(&inner),
            read => read,
        };
        let (arguments, invalid) = match read {
            Ok(Value::Object(members)) => (members, None),
            Ok(Value::Null) => (Map::new(), None),
            Ok(_) => (Map::new(), Some("they are no JSON object".to_owned())),
            Err(error) => (Map::new(), Some(error.to_string())),
        };
        Self { id, name, arguments, invalid, provider_id: None, extra }
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelDelta {
    /// Text that follows what was said so far.
    Text(String),
    /// The model works on what is no text: reasoning, or the arguments of a call. Bytes.
    Hidden(usize),
    /// What the provider has counted so far.
    Counted(TokenUsage),
    /// What people should know of how the model is asked.
    Notice(String),
    Answer(ModelAnswer),
}

impl ModelDelta {
    /// The bytes that it adds to the answer.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Hidden(bytes) => *bytes,
            Self::Counted(_) | Self::Notice(_) | Self::Answer(_) => 0,
        }
    }
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    pub text: String,
    /// What it calls. The ids are the provider's.
    pub calls: Vec<ToolCall>,
    pub stop: StopReason,
    /// What it took; `None` if the provider did not say.
    pub usage: Option<TokenUsage>,
    /// What goes back to the provider with it.
    pub kept: Option<Kept>,
}

impl ModelAnswer {
    /// The bytes of its text and its calls.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.calls.iter().map(ToolCall::bytes).sum::<usize>()
    }
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// The model was done, or calls tools.
    Complete,
    /// It reached the largest number of tokens of an answer.
    Length,
    /// The model or its provider refused to go on.
    Refused,
}

impl StopReason {
    /// The reason as OpenTelemetry's GenAI conventions name it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Complete => "stop",
            Self::Length => "length",
            Self::Refused => "content_filter",
        }
    }
}

/// The tokens of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Of the request, cached ones included.
    pub input: u64,
    pub output: u64,
    /// Of the request, read from the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached: u64,
    /// Of the request, written into the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What can be done about it.
    pub kind: ModelErrorKind,
    /// The provider's status, if it answered.
    pub status: Option<u16>,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
    pub message: String,
    /// What the provider said, in lower case.
    pub said: String,
    /// Whether an answer had begun, which the provider counts.
    pub has_begun: bool,
}

/// What can be done about a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModelErrorKind {
    /// The same call may succeed later.
    Transient,
    /// The same call fails again.
    Permanent,
    /// A shorter conversation may succeed.
    ContextTooLong,
    /// The cassette has no answer, or can't be written. No other model is asked.
    Cassette,
}

impl ModelError {
    /// An error that may pass.
    pub(super) fn transient(message: impl Into<String>) -> Self {
        let kind = ModelErrorKind::Transient;
        Self {
            kind,
            status: None,
            retry_after: None,
            message: message.into(),
            said: String::new(),
            has_begun: false,
        }
    }

    /// The error of an answer that ended where the model's context ends.
    pub(super) fn context_is_full() -> Self {
        let message = "the answer reached the end of the model's context";
        Self { kind: ModelErrorKind::ContextTooLong, ..Self::transient(message) }
    }

    /// The error as a code without content.
    pub(super) fn code(&self) -> String {
        match (self.kind, self.status) {
            (ModelErrorKind::ContextTooLong, _) => "context_too_long".to_owned(),
            (ModelErrorKind::Cassette, _) => "cassette".to_owned(),
            (_, Some(status)) => status.to_string(),
            (ModelErrorKind::Transient, None) => "no_answer".to_owned(),
            (ModelErrorKind::Permanent, None) => "provider_error".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_no_object_are_marked() {
        for (text, arguments, part) in [
            (r#"{"a":1}"#, 1, None),
            ("", 0, None),
            (" ", 0, None),
            (r#"{"a":"#, 0, Some("EOF")),
            ("null", 0, None),
            (r#""{\"a\":1}""#, 1, None),
            ("[1]", 0, Some("no JSON object")),
        ] {
            let call = ToolCall::parse("c".into(), "t".into(), text, None);
            assert_eq!(call.arguments.len(), arguments, "{text}");
            match (call.invalid, part) {
                (None, None) => {}
                (Some(why), Some(part)) => assert!(why.contains(part), "{why}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
