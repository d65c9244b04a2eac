//! The shape of content: the names of our own words, and of everything under them its kind and size.

use serde_json::{Map, Value};

/// The names of members that messages, tasks, thoughts and artifacts have (DESIGN §4, A2A §4.1): whoever reads them learns
/// nothing of what was said. A test holds this list and the types together.
pub(super) const OURS: &[&str] = &[
    "accepted_modes",
    "acceptedModes",
    "agentId",
    "answer",
    "answers",
    "append",
    "artifact",
    "artifactId",
    "artifacts",
    "at",
    "auth",
    "bidBy",
    "capability",
    "capability_match",
    "constraints",
    "contact",
    "contextId",
    "cost",
    "data",
    "deadline",
    "declined",
    "delegate",
    "description",
    "done",
    "end",
    "epoch",
    "eta",
    "extensions",
    "failed",
    "filename",
    "from",
    "help",
    "id",
    "input",
    "inlineArtifacts",
    "keptWord",
    "lastChunk",
    "leaseMs",
    "load",
    "mediaType",
    "message",
    "messageId",
    "metadata",
    "name",
    "ok",
    "onBehalfOf",
    "owner",
    "parent",
    "parentTaskId",
    "parts",
    "path",
    "produced",
    "publisher",
    "question",
    "raw",
    "reason",
    "referenceTaskIds",
    "refs",
    "rejected",
    "replyTo",
    "revision",
    "role",
    "root",
    "seq",
    "sha256",
    "signal",
    "size",
    "state",
    "status",
    "subject",
    "task",
    "taskId",
    "tenant",
    "text",
    "to",
    "turn",
    "type",
    "updates",
    "url",
    "validForMs",
    "wall",
];

/// Under these names anything may stand, and names within it are content.
pub(super) const FREE: &[&str] = &["data", "input", "metadata", "refs", "constraints", "keptWord"];

/// How many items of a list are told one by one.
const MOST: usize = 16;

/// The names that are ours, and how much stands under each.
pub(super) fn of(content: &Value) -> Value {
    match content {
        Value::Array(items) => {
            let mut told: Vec<_> = items.iter().take(MOST).map(of).collect();
            if items.len() > MOST {
                told.push(format!("[{} items more]", items.len() - MOST).into());
            }
            told.into()
        }
        Value::Object(members) => {
            let (ours, others): (Vec<_>, Vec<_>) =
                members.iter().partition(|(name, _)| OURS.contains(&name.as_str()));
            let told = |(name, value): (&String, &Value)| {
                let is_free = FREE.contains(&name.as_str());
                (name.clone(), if is_free { size(value) } else { of(value) })
            };
            let mut told: Map<_, _> = ours.into_iter().map(told).collect();
            if !others.is_empty() {
                told.insert("…".to_owned(), format!("[{} members more]", others.len()).into());
            }
            told.into()
        }
        Value::String(_) | Value::Number(_) | Value::Null | Value::Bool(_) => size(content),
    }
}

/// What kind of thing it is, and how large.
fn size(content: &Value) -> Value {
    match content {
        Value::String(text) => format!("[{} characters]", text.chars().count()).into(),
        Value::Array(items) => format!("[{} items]", items.len()).into(),
        Value::Object(members) => format!("[{} members]", members.len()).into(),
        Value::Number(_) => "[number]".into(),
        Value::Bool(_) => "[boolean]".into(),
        Value::Null => Value::Null,
    }
}
