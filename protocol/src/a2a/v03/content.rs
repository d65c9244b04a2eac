//! Parts, messages, artifacts, states and tasks.

use super::{V03Form, change, change_each, rename, take, taken, within};
use crate::{a2a::json::bytes_of, time::WallTime};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

/// Metadata that says that data which is no object stands in an object of one member, `value`, as the SDKs write it.
const WRAPPED_DATA: &str = "data_part_compat";

/// A task of 0.3 as one of 1.0.
pub fn task_to_v1(task: Value) -> Value {
    within(task, |task| {
        task.remove("kind");
        change(task, "status", status_to_v1);
        change_each(task, "artifacts", artifact_to_v1);
        change_each(task, "history", message_to_v1);
    })
}

/// A task of 1.0 as one of 0.3.
pub fn task_to_v03(task: Value, form: V03Form) -> Value {
    within(task, |task| {
        change(task, "status", |status| status_to_v03(status, form));
        change_each(task, "artifacts", |artifact| artifact_to_v03(artifact, form));
        change_each(task, "history", |message| message_to_v03(message, form));
        name_kind(task, "task", form);
    })
}

/// Names what an object is, where that is done by a member.
pub(super) fn name_kind(members: &mut Map<String, Value>, kind: &str, form: V03Form) {
    if form == V03Form::Schema {
        members.insert("kind".to_owned(), kind.into());
    }
}

pub(super) fn message_to_v1(message: Value) -> Value {
    within(message, |message| {
        message.remove("kind");
        rename(message, "content", "parts");
        change(message, "role", |role| match role.as_str() {
            Some("user") => "ROLE_USER".into(),
            Some("agent") => "ROLE_AGENT".into(),
            _ => role,
        });
        change_each(message, "parts", part_to_v1);
    })
}

pub(super) fn message_to_v03(message: Value, form: V03Form) -> Value {
    within(message, |message| {
        change_each(message, "parts", |part| part_to_v03(part, form));
        match form {
            V03Form::Schema => change(message, "role", |role| match role.as_str() {
                Some("ROLE_USER") => "user".into(),
                Some("ROLE_AGENT") => "agent".into(),
                _ => role,
            }),
            V03Form::Proto => {
                rename(message, "parts", "content");
                message.remove("referenceTaskIds");
            }
        }
        name_kind(message, "message", form);
    })
}

pub(super) fn artifact_to_v1(artifact: Value) -> Value {
    within(artifact, |artifact| change_each(artifact, "parts", part_to_v1))
}

pub(super) fn artifact_to_v03(artifact: Value, form: V03Form) -> Value {
    within(artifact, |artifact| change_each(artifact, "parts", |part| part_to_v03(part, form)))
}

pub(super) fn status_to_v1(status: Value) -> Value {
    within(status, |status| {
        rename(status, "update", "message");
        change(status, "message", message_to_v1);
        change(status, "state", |state| match state.as_str() {
            Some(word) => state_to_v1(word).into(),
            None => state,
        });
        // Some servers of 0.3 write times without an offset. What is no time at all is left out.
        if let Some(Value::String(time)) = take(status, "timestamp") {
            let times = [time.clone(), format!("{time}Z")];
            if let Some(time) = times.into_iter().find(|time| WallTime::parse(time).is_ok()) {
                status.insert("timestamp".to_owned(), time.into());
            }
        }
    })
}

pub(super) fn status_to_v03(status: Value, form: V03Form) -> Value {
    within(status, |status| {
        change(status, "message", |message| message_to_v03(message, form));
        change(status, "state", |state| match state.as_str() {
            Some(name) => state_to_v03(name, form).into(),
            None => state,
        });
    })
}

fn state_to_v1(word: &str) -> String {
    match word {
        "unknown" => "TASK_STATE_UNSPECIFIED".to_owned(),
        "TASK_STATE_CANCELLED" | "cancelled" => "TASK_STATE_CANCELED".to_owned(),
        name if name.starts_with("TASK_STATE_") => name.to_owned(),
        word => format!("TASK_STATE_{}", word.to_ascii_uppercase().replace('-', "_")),
    }
}

fn state_to_v03(name: &str, form: V03Form) -> String {
    match (form, name) {
        (V03Form::Proto, "TASK_STATE_CANCELED") => "TASK_STATE_CANCELLED".to_owned(),
        (V03Form::Proto, name) => name.to_owned(),
        (V03Form::Schema, "TASK_STATE_UNSPECIFIED") => "unknown".to_owned(),
        (V03Form::Schema, name) => {
            let word = name.strip_prefix("TASK_STATE_").unwrap_or(name);
            word.to_ascii_lowercase().replace('_', "-")
        }
    }
}

fn part_to_v1(part: Value) -> Value {
    within(part, |part| {
        let kind = part.remove("kind");
        if let Some(Value::Object(mut file)) = take(part, "file") {
            for (from, to) in [
                ("bytes", "raw"),
                ("fileWithBytes", "raw"),
                ("uri", "url"),
                ("fileWithUri", "url"),
                ("mimeType", "mediaType"),
                ("name", "filename"),
            ] {
                if let Some(value) = take(&mut file, from) {
                    let value = if from == "fileWithBytes" { encoded_once(value) } else { value };
                    part.insert(to.to_owned(), value);
                }
            }
        }
        // In ProtoJSON the data are in a message of their own.
        if kind.is_none() {
            change(part, "data", |mut data| {
                let is_message = data.as_object().is_some_and(|of| of.len() == 1 && of.contains_key("data"));
                if is_message { taken(&mut data, "data") } else { data }
            });
        }
        let is_wrapped = part.get("metadata").is_some_and(|about| about[WRAPPED_DATA] == true);
        if let Some(value) =
            part.get_mut("data").and_then(|data| data.get_mut("value")).filter(|_| is_wrapped)
        {
            let value = value.take();
            part.insert("data".to_owned(), value);
            if let Some(Value::Object(mut about)) = take(part, "metadata") {
                about.remove(WRAPPED_DATA);
                if !about.is_empty() {
                    part.insert("metadata".to_owned(), about.into());
                }
            }
        }
    })
}

/// The content of a file over HTTP+JSON as base64. The Python SDK encodes it twice: what stands for base64 is taken for that.
fn encoded_once(content: Value) -> Value {
    let inner = content.as_str().and_then(bytes_of).and_then(|bytes| String::from_utf8(bytes).ok());
    match inner.filter(|inner| !inner.is_empty() && bytes_of(inner).is_some()) {
        Some(inner) => inner.into(),
        None => content,
    }
}

/// The content of a file as the Python SDK reads it over HTTP+JSON.
fn encoded_twice(content: Value) -> Value {
    content.as_str().map(|text| STANDARD.encode(text).into()).unwrap_or(content)
}

fn part_to_v03(part: Value, form: V03Form) -> Value {
    let Value::Object(mut part) = part else { return part };
    let mut legacy = Map::new();
    let mut metadata = take(&mut part, "metadata").unwrap_or_else(|| json!({}));
    let kind = if let Some(text) = part.remove("text") {
        legacy.insert("text".to_owned(), text);
        "text"
    } else if let Some(data) = part.remove("data") {
        let data = if data.is_object() {
            data
        } else {
            metadata = within(metadata, |about| drop(about.insert(WRAPPED_DATA.to_owned(), true.into())));
            json!({ "value": data })
        };
        legacy.insert("data".to_owned(), if form == V03Form::Proto { json!({ "data": data }) } else { data });
        "data"
    } else {
        let names = match form {
            V03Form::Schema => ("bytes", "uri"),
            V03Form::Proto => ("fileWithBytes", "fileWithUri"),
        };
        let mut file = Map::new();
        for (from, to) in
            [("raw", names.0), ("url", names.1), ("mediaType", "mimeType"), ("filename", "name")]
        {
            let value = take(&mut part, from);
            file.extend(value.map(|value| {
                let value = if to == "fileWithBytes" { encoded_twice(value) } else { value };
                (to.to_owned(), value)
            }));
        }
        legacy.insert("file".to_owned(), file.into());
        "file"
    };
    if metadata.as_object().is_some_and(|about| !about.is_empty()) {
        legacy.insert("metadata".to_owned(), metadata);
    }
    name_kind(&mut legacy, kind, form);
    Value::Object(legacy)
}
