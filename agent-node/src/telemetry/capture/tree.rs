//! A structure without its credentials. One that names a credential anywhere, in a member's name or in a text, keeps
//! nothing but identifiers and the mesh's own numbers.

use super::{
    look,
    own::Own,
    shape,
    text::{self, WITHHELD, without},
};
use serde_json::{Map, Value};

/// Members of our own objects whose values are identifiers and numbers, no content (DESIGN §4, A2A §4.1).
const IDS: &[&str] = &[
    "agentId",
    "append",
    "artifactId",
    "at",
    "bidBy",
    "capability",
    "contextId",
    "cost",
    "deadline",
    "epoch",
    "eta",
    "from",
    "id",
    "lastChunk",
    "leaseMs",
    "load",
    "mediaType",
    "messageId",
    "onBehalfOf",
    "owner",
    "parent",
    "parentTaskId",
    "publisher",
    "referenceTaskIds",
    "replyTo",
    "revision",
    "role",
    "root",
    "seq",
    "sha256",
    "size",
    "state",
    "taskId",
    "tenant",
    "to",
    "turn",
    "type",
    "validForMs",
    "wall",
];

/// Those that name nothing but what they identify: a skill may be called `login`.
const SURE: &[&str] = &[
    "agentId",
    "artifactId",
    "bidBy",
    "capability",
    "contextId",
    "mediaType",
    "messageId",
    "onBehalfOf",
    "parentTaskId",
    "publisher",
    "referenceTaskIds",
    "replyTo",
    "taskId",
    "tenant",
];

/// As much of `content` as there is room for: what is beyond it is neither looked at nor told.
pub(super) fn seen(content: &Value, left: &mut usize) -> Value {
    const EACH: usize = 8;
    match content {
        Value::String(text) => {
            let head = super::head(text, *left);
            *left -= head.len();
            if head.len() < text.len() { format!("{head}…").into() } else { text.as_str().into() }
        }
        Value::Array(items) => {
            let mut seen = Vec::new();
            for item in items {
                *left = left.saturating_sub(EACH);
                if *left == 0 {
                    seen.push("…".into());
                    break;
                }
                seen.push(self::seen(item, left));
            }
            seen.into()
        }
        Value::Object(members) => {
            let mut seen = Map::new();
            for (name, value) in members {
                *left = left.saturating_sub(EACH + name.len());
                if *left == 0 {
                    seen.insert("…".to_owned(), "…".into());
                    break;
                }
                seen.insert(name.clone(), self::seen(value, left));
            }
            seen.into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => content.clone(),
    }
}

/// Whether `content` names a credential anywhere; `is_ours` where its members have the names that the mesh gives them.
pub(super) fn names(content: &Value, is_ours: bool) -> bool {
    match content {
        Value::String(text) => text::names(text) || look::is_option(text),
        Value::Array(items) => {
            // `["API", "key", "x"]`
            let said: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            items.iter().any(|item| names(item, is_ours)) || said.len() > 1 && text::names(&said.join(" "))
        }
        Value::Object(members) => members.iter().any(|(name, value)| {
            let is_sure = is_ours && SURE.contains(&name.as_str()) && is_id(value);
            !is_sure && (names_member(name, value) || names(value, is_ours && is_of_ours(name)))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// `content`, which names no credential, without words that look like one.
pub(super) fn masked(content: &Value, own: &Own, is_ours: bool) -> Value {
    match content {
        Value::String(text) => text::masked(text, own).into(),
        Value::Array(items) => items.iter().map(|item| masked(item, own, is_ours)).collect(),
        Value::Object(members) => {
            let told = members.iter().map(|(name, value)| {
                let is_known = is_ours && shape::OURS.contains(&name.as_str());
                let said = match is_known && IDS.contains(&name.as_str()) && is_id(value) {
                    true => id(value, own),
                    false => masked(value, own, is_ours && is_of_ours(name)),
                };
                (if is_known { name.clone() } else { text::masked(name, own) }, said)
            });
            Value::Object(told.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => content.clone(),
    }
}

/// What stays of `content`, which names a credential: our own members, identifiers and numbers.
pub(super) fn withheld(content: &Value, own: &Own) -> Value {
    match content {
        Value::Array(items) if items.iter().all(Value::is_object) => {
            items.iter().map(|item| withheld(item, own)).collect()
        }
        Value::Object(members) => {
            let mut told = Map::new();
            for (name, value) in members {
                let said = match value {
                    _ if !shape::OURS.contains(&name.as_str()) => {
                        told.insert(WITHHELD.to_owned(), WITHHELD.into());
                        continue;
                    }
                    Value::Null | Value::Bool(_) => value.clone(),
                    value if IDS.contains(&name.as_str()) && is_id(value) => id(value, own),
                    Value::Object(_) | Value::Array(_) if is_of_ours(name) => withheld(value, own),
                    Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                        WITHHELD.into()
                    }
                };
                told.insert(name.clone(), said);
            }
            told.into()
        }
        Value::String(_) | Value::Array(_) | Value::Number(_) | Value::Null | Value::Bool(_) => {
            WITHHELD.into()
        }
    }
}

/// An identifier, or a list of them.
fn id(value: &Value, own: &Own) -> Value {
    match value {
        Value::String(id) => without(id, own).into(),
        Value::Array(ids) => ids.iter().map(|value| id(value, own)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.clone(),
    }
}

fn is_of_ours(name: &str) -> bool {
    shape::OURS.contains(&name) && !shape::FREE.contains(&name)
}

fn is_id(value: &Value) -> bool {
    const LONGEST: usize = 256;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/+*-".contains(&byte);
    match value {
        Value::String(id) => id.len() <= LONGEST && id.bytes().all(is_part),
        Value::Array(ids) => ids.iter().all(is_id),
        Value::Number(_) => true,
        Value::Null | Value::Bool(_) | Value::Object(_) => false,
    }
}

/// Whether a member is a credential's by its name. Tokens are counted, and a count is none.
fn names_member(name: &str, value: &Value) -> bool {
    let said = if value.is_number() { format!("{name}: 0") } else { name.to_owned() };
    let is_named = text::names(&said) || look::is_option(name);
    // `{"openai": {"key": "x"}}`, `{"keys": {"openai": "x"}}`
    match value {
        Value::Object(members) => {
            is_named || name == "keys" || members.contains_key("key") && text::names(&format!("{name}.key"))
        }
        Value::Array(_) => is_named || name == "keys",
        Value::String(_) => is_named || ["key", "code"].contains(&name.to_ascii_lowercase().as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) => is_named,
    }
}
