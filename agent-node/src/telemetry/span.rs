//! One span, as the journal tells of it: what an exporter sends and `mesh trace` prints.

use protocol::{ids::AgentId, time::WallTime, trace::TraceContext};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a span is to the one that called it (OpenTelemetry's SpanKind).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Work within an agent.
    Internal,
    /// Somebody else's request is taken.
    Server,
    /// A request to somebody else, whose answer is awaited.
    Client,
    /// A message is sent.
    Producer,
}

/// One span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The trace, as 32 hex digits.
    pub trace_id: String,
    /// The span, as 16 hex digits.
    pub span_id: String,
    /// What it hangs under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Whether that is another process's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_parent_remote: bool,
    /// What other systems passed along with the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<String>,
    /// A span of the same trace that it belongs to without hanging under it: the sending of a message that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Whose it is.
    pub agent: AgentId,
    /// What it is to its caller.
    pub kind: Kind,
    /// What it is called.
    pub name: String,
    /// When it began.
    pub start: WallTime,
    /// When it ended; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<WallTime>,
    /// How it failed, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What else is known of it, under the names of [`super::names`].
    pub attributes: Map<String, Value>,
}

impl Span {
    /// A span of `agent` that begins at `start` and has not ended.
    pub fn new(
        trace: &TraceContext,
        id: u64,
        parent: Option<u64>,
        agent: &AgentId,
        kind: Kind,
        name: impl Into<String>,
        start: WallTime,
    ) -> Self {
        Self {
            trace_id: trace.trace(),
            span_id: hex(id),
            parent_id: parent.map(hex),
            is_parent_remote: false,
            trace_state: trace.state.as_deref().map(str::to_owned),
            link: None,
            agent: agent.clone(),
            kind,
            name: name.into(),
            start,
            end: None,
            failed: None,
            attributes: Map::new(),
        }
    }

    /// The same with one more thing known of it; nothing is no news.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Option<Value>>) -> Self {
        self.set(name, value);
        self
    }

    /// One more thing is known of it.
    pub fn set(&mut self, name: &str, value: impl Into<Option<Value>>) {
        if let Some(value) = value.into() {
            self.attributes.insert(name.to_owned(), value);
        }
    }

    /// What is known under `name`, if it is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.attributes.get(name)?.as_str()
    }
}

/// A span's id as 16 digits.
pub fn hex(id: u64) -> String {
    format!("{id:016x}")
}
