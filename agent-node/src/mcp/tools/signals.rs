//! Signals of the blackboard.

use super::invalid;
use crate::mcp::{
    api::encoded,
    tool_call::{McpToolCall, ToolOutcome},
};
use protocol::{problem::Problem, routes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long a tool may wait.
const MAX_WAIT_SECONDS: u64 = 300;

const MAX_SIGNALS: usize = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReadSignals {
    /// Only signals of these types; one that ends in * names all that begin so, such as task.*.
    #[serde(default)]
    types: Vec<String>,
    /// Only signals about this capability.
    #[serde(default)]
    capability: Option<String>,
    /// Only signals about this task.
    #[serde(default)]
    task_id: Option<String>,
    /// Only signals behind this cursor: the next of an earlier result, or now. Without it from the oldest one on.
    #[serde(default)]
    after: Option<String>,
    /// How many, at most 100.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
    /// If there is none, how long to wait for one, at most 300 seconds.
    #[serde(default)]
    #[schemars(range(max = 300))]
    wait_seconds: u64,
}

fn twenty() -> usize {
    20
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct SignalList {
    /// The signals, oldest first.
    signals: Vec<Value>,
    /// The cursor to read on from.
    next: Value,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PublishSignal {
    /// Its type: task.available, help.needed, or one of your own, such as acme.build.started.
    #[serde(rename = "type")]
    kind: String,
    /// What it is about.
    #[serde(default)]
    subject: Option<String>,
    /// The task it is about; an offer needs one.
    #[serde(default)]
    task_id: Option<String>,
    /// The capability it concerns.
    #[serde(default)]
    capability: Option<String>,
    /// References, such as the description of an offer or the sha256 of an artifact.
    #[serde(default)]
    refs: Map<String, Value>,
    /// An id of your own. The same again is published once.
    #[serde(default)]
    id: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct PublishedSignalOutput {
    id: String,
    revision: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

pub(super) async fn read(call: &mut McpToolCall<'_>, arguments: ReadSignals) -> Result<ToolOutcome, Problem> {
    let ReadSignals { types, capability, task_id, after, limit, wait_seconds } = arguments;
    if !(1..=MAX_SIGNALS).contains(&limit) || wait_seconds > MAX_WAIT_SECONDS {
        return Err(invalid(format!(
            "limit must be 1 to {MAX_SIGNALS}, waitSeconds at most {MAX_WAIT_SECONDS}"
        )));
    }
    let one =
        |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}={}", encoded(value)));
    let mut filter: Vec<String> = types.iter().map(|kind| format!("type={}", encoded(kind))).collect();
    filter.extend(one("capability", &capability));
    filter.extend(one("taskId", &task_id));
    let board = call.api.board().await?;
    let after = match after.as_deref() {
        Some("now") => {
            let head: SignalList = call.api.get(&board, &format!("{}?limit=0", routes::SIGNALS)).await?;
            Some(cursor(&head.next))
        }
        after => after.map(str::to_owned),
    };
    let path = |path: &str, after: &Option<String>, limit: Option<usize>| {
        let limit = limit.map(|limit| format!("limit={limit}"));
        let query: Vec<_> = filter.iter().cloned().chain(one("after", after)).chain(limit).collect();
        format!("{path}?{}", query.join("&"))
    };
    let mut page: SignalList = call.api.get(&board, &path(routes::SIGNALS, &after, Some(limit))).await?;
    if page.signals.is_empty() && wait_seconds > 0 {
        let after = Some(cursor(&page.next));
        let stream = path(&format!("{}/stream", routes::SIGNALS), &after, None);
        tokio::select! {
            waited = call.api.wait_for_signal(&stream, Duration::from_secs(wait_seconds)) => waited?,
            () = call.context.ct.cancelled() => {}
        }
        page = call.api.get(&board, &path(routes::SIGNALS, &after, Some(limit))).await?;
    }
    ToolOutcome::data(&page)
}

/// A cursor as a query has it.
fn cursor(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) async fn publish(
    call: &mut McpToolCall<'_>,
    arguments: PublishSignal,
) -> Result<ToolOutcome, Problem> {
    let PublishSignal { kind, subject, task_id, capability, refs, id } = arguments;
    let mut signal = json!({ "type": kind });
    if let Some(members) = signal.as_object_mut() {
        members.extend(subject.map(|subject| ("subject".to_owned(), subject.into())));
        members.extend(task_id.map(|task| ("taskId".to_owned(), task.into())));
        members.extend(capability.map(|name| ("capability".to_owned(), name.into())));
        members.extend(id.map(|id| ("id".to_owned(), id.into())));
        members.extend((!refs.is_empty()).then(|| ("refs".to_owned(), Value::Object(refs))));
    }
    let board = call.api.board().await?;
    let answer = call.api.post(&board, routes::SIGNALS, &signal).await?;
    let unreadable = |error: serde_json::Error| invalid(format!("the board's answer can't be read: {error}"));
    ToolOutcome::data(&serde_json::from_value::<PublishedSignalOutput>(answer).map_err(unreadable)?)
}
