//! One span, built from the journal: what the exporter sends and `mesh trace` prints.

use protocol::{ids::AgentId, time::WallTime, trace::TraceContext};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// OpenTelemetry's span kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpanKind {
    /// Work within an agent.
    Internal,
    /// A request or message is received.
    Server,
    /// A request is sent and its answer awaited.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Whether the parent is a span of another process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_parent_remote: bool,
    /// `tracestate` of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<String>,
    /// A linked span of the same trace: the sending of a received message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    pub agent: AgentId,
    pub kind: SpanKind,
    pub name: String,
    pub start: WallTime,
    /// The end; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<WallTime>,
    /// Why it failed, as a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Attributes, under the names of [`super::names`].
    pub attributes: Map<String, Value>,
}

impl Span {
    /// An open span of `agent` that starts at `start`.
    pub fn new(
        trace: &TraceContext,
        id: u64,
        parent: Option<u64>,
        agent: &AgentId,
        kind: SpanKind,
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

    /// The span with one more attribute, if there is a value.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Option<Value>>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets an attribute, if there is a value.
    pub fn set(&mut self, name: &str, value: impl Into<Option<Value>>) {
        if let Some(value) = value.into() {
            self.attributes.insert(name.to_owned(), value);
        }
    }

    /// The attribute `name`, if it is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.attributes.get(name)?.as_str()
    }
}

/// A span id as 16 hex digits.
pub fn hex(id: u64) -> String {
    format!("{id:016x}")
}
