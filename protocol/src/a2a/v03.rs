//! A2A 0.3 as a translation of JSON from and to 1.0, at the border: whatever is handled is 1.0.
//!
//! 0.3 has two forms. JSON-RPC and webhooks have the schema's: `kind` names what an object is, states and roles are
//! lower-case words, a file is `{bytes | uri, mimeType, name}`. HTTP+JSON has the ProtoJSON of 0.3's proto, as its SDKs
//! speak it: members of a oneof, enums by name, the parts of a message in `content`.
//!
//! A file's content over HTTP+JSON is base64 of base64, as the Python SDK writes and reads it; base64 alone is read, too.
//!
//! Reading is lenient: both forms are taken wherever one may stand, and what is not understood is left as it is, so that the
//! strict reading of 1.0 names it. What 0.3 has no place for is left out: media type and file name of texts and data, tenants,
//! and over HTTP+JSON `referenceTaskIds`.
//!
//! In reading order: `content` has messages, artifacts and tasks, `events` what is answered, `requests` what is asked,
//! `card` the agent card.

mod content;

mod events;
mod requests;

mod card;

pub use card::{is_v03_card, to_hybrid_card, to_v1_card, to_v03_signed, without_v03_members};
pub use content::{task_to_v1, task_to_v03};
pub use events::{error_to_v03, event_to_v1, event_to_v03, http_status, result_to_v03};
pub use requests::{
    find_route, is_v1_message, method, operation, params_to_v1, params_to_v03, path, takes_first_config,
};

use serde_json::{Map, Value};

/// The header of 0.3 with the extensions that a client wants, and that of the answer with those that are used.
pub const EXTENSIONS_HEADER: &str = "X-A2A-Extensions";

/// Which form of 0.3 is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum V03Form {
    /// The schema's: JSON-RPC, and webhooks.
    Schema,
    /// ProtoJSON: HTTP+JSON.
    Proto,
}

/// Removes a member. `null` is as good as none.
fn take(members: &mut Map<String, Value>, name: &str) -> Option<Value> {
    members.remove(name).filter(|value| !value.is_null())
}

/// Takes a member out of any value; `null` if it has none.
fn taken(value: &mut Value, name: &str) -> Value {
    value.get_mut(name).map(Value::take).unwrap_or_default()
}

/// Changes a member, if it is there.
fn change(members: &mut Map<String, Value>, name: &str, how: impl FnOnce(Value) -> Value) {
    if let Some(value) = take(members, name) {
        members.insert(name.to_owned(), how(value));
    }
}

/// Changes every item of a list, if it is there.
fn change_each(members: &mut Map<String, Value>, name: &str, how: impl Fn(Value) -> Value) {
    change(members, name, |list| each(list, how));
}

/// Changes every item of a list.
fn each(list: Value, how: impl Fn(Value) -> Value) -> Value {
    let Value::Array(items) = list else { return list };
    items.into_iter().map(how).collect()
}

/// Gives a member another name, unless there is one of that name.
fn rename(members: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = take(members, from) {
        members.entry(to).or_insert(value);
    }
}

/// Changes the members of an object; another value stays.
fn within(value: Value, how: impl FnOnce(&mut Map<String, Value>)) -> Value {
    let Value::Object(mut members) = value else { return value };
    how(&mut members);
    Value::Object(members)
}

#[cfg(test)]
mod tests;
