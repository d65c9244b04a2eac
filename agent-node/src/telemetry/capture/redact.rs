//! The shape of content: kinds and sizes, without any text, number or name that a sender chose.

use serde_json::{Map, Value};

/// Members of messages, prompts and results (DESIGN §4, A2A §4.1) whose structure is shown.
const SHOWN: &[&str] = &[
    "answer",
    "answers",
    "artifact",
    "artifacts",
    "declined",
    "description",
    "done",
    "end",
    "failed",
    "help",
    "inlineArtifacts",
    "message",
    "parts",
    "produced",
    "question",
    "raw",
    "reason",
    "rejected",
    "signal",
    "status",
    "subject",
    "task",
    "text",
    "updates",
    "url",
];

/// Members of which only kind and size are shown: senders choose the names within them.
const OPAQUE: &[&str] = &["constraints", "data", "input", "metadata", "refs"];

const MAX_ITEMS: usize = 16;

/// The kinds and sizes of what is in `content`; members with other names are counted.
pub(super) fn shape(content: &Value) -> Value {
    match content {
        Value::Array(items) => {
            let mut shown: Vec<_> = items.iter().take(MAX_ITEMS).map(shape).collect();
            if items.len() > MAX_ITEMS {
                shown.push(format!("[{} items more]", items.len() - MAX_ITEMS).into());
            }
            shown.into()
        }
        Value::Object(members) => {
            let mut shown = Map::new();
            for (name, value) in members {
                if SHOWN.contains(&name.as_str()) {
                    shown.insert(name.clone(), shape(value));
                } else if OPAQUE.contains(&name.as_str()) {
                    shown.insert(name.clone(), size(value).into());
                }
            }
            let others = members.len() - shown.len();
            if others > 0 {
                shown.insert("…".to_owned(), format!("[{others} members more]").into());
            }
            shown.into()
        }
        Value::String(_) | Value::Number(_) | Value::Null | Value::Bool(_) => size(content).into(),
    }
}

fn size(content: &Value) -> String {
    match content {
        Value::String(text) => format!("[{} characters]", text.chars().count()),
        Value::Array(items) => format!("[{} items]", items.len()),
        Value::Object(members) => format!("[{} members]", members.len()),
        Value::Number(_) => "[number]".to_owned(),
        Value::Bool(_) => "[boolean]".to_owned(),
        Value::Null => "[null]".to_owned(),
    }
}
