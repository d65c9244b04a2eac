//! A structure without its credentials. An object or a list is to it what a paragraph is to a text: one that names a
//! credential goes whole, and so does what stands around it.

use super::{
    look, name,
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

/// Members of our own objects that hold a text which answers no other.
const TEXTS: &[&str] =
    &["description", "done", "failed", "message", "name", "question", "reason", "rejected"];

/// Goes through a structure; what is beyond its reach is not told.
pub(super) struct Walk<'a> {
    pub(super) own: &'a Own,
    /// How many bytes are looked at.
    pub(super) left: usize,
    /// Whether something was withheld for a name.
    pub(super) has_named: bool,
}

impl Walk<'_> {
    /// `content` without its credentials; `is_ours` where its members have the names that the mesh gives them.
    pub(super) fn told(&mut self, content: &Value, is_ours: bool) -> Value {
        match content {
            Value::String(text) => self.text(text).into(),
            Value::Array(items) if is_named(content, reach(is_ours)) && !items.is_empty() => self.withheld(),
            Value::Array(items) => self.items(items, is_ours),
            Value::Object(members) if is_ours => self.ours(members),
            Value::Object(_) if is_named(content, reach(is_ours)) => self.withheld(),
            Value::Object(members) => self.members(members),
            Value::Null | Value::Bool(_) | Value::Number(_) => content.clone(),
        }
    }

    fn withheld(&mut self) -> Value {
        self.has_named = true;
        WITHHELD.into()
    }

    /// The items of a list; none behind one that names a credential, for it may ask for what they answer, and not the one
    /// before it, of which it may speak.
    fn items(&mut self, items: &[Value], is_ours: bool) -> Value {
        let had_named = std::mem::take(&mut self.has_named);
        let mut told = Vec::new();
        for item in items {
            if self.has_named || !self.has_room(8) {
                told.push(if self.has_named { WITHHELD } else { "…" }.into());
                break;
            }
            let said = self.told(item, is_ours);
            if let (true, Some(before)) = (self.has_named, told.last_mut()) {
                *before = WITHHELD.into();
            }
            told.push(said);
        }
        self.has_named |= had_named;
        told.into()
    }

    /// The members of an object of ours. Where one of them names a credential, what may answer it goes: all but
    /// identifiers and texts of their own.
    fn ours(&mut self, members: &Map<String, Value>) -> Value {
        let names = |(name, value): (&String, &Value)| match value {
            Value::String(text) => !is_ours(SURE, name) && text::names(text),
            Value::Object(_) | Value::Array(_) => is_named(value, if is_of_ours(name) { 1 } else { 2 }),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        };
        let has_name = members.iter().any(|(name, value)| names((name, value)) || names_member(name, value));
        let goes = |name: &String, value| has_name && (names_member(name, value) || !names((name, value)));
        let mut told = Map::new();
        for (name, value) in members {
            if !self.has_room(8 + name.len()) {
                told.insert("…".to_owned(), "…".into());
                break;
            }
            let said = match value {
                Value::Null | Value::Bool(_) => value.clone(),
                value if is_ours(IDS, name) && is_id(value) => self.id(value),
                Value::String(text) if is_ours(TEXTS, name) => self.text(text).into(),
                _ if goes(name, value) => self.withheld(),
                Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    self.told(value, is_of_ours(name))
                }
            };
            told.insert(self.name(name, value), said);
        }
        told.into()
    }

    fn members(&mut self, members: &Map<String, Value>) -> Value {
        let mut told = Map::new();
        for (name, value) in members {
            if !self.has_room(8 + name.len()) {
                told.insert("…".to_owned(), "…".into());
                break;
            }
            let said = self.told(value, false);
            told.insert(self.name(name, value), said);
        }
        told.into()
    }

    /// A member's name, which is withheld if it names a credential: it may hold it, too.
    fn name(&self, name: &str, value: &Value) -> String {
        match name {
            ours if is_ours(shape::OURS, ours) => ours.to_owned(),
            named if names_member(named, value) => WITHHELD.to_owned(),
            name => text::masked(name, self.own),
        }
    }

    /// An identifier, or a list of them.
    fn id(&self, value: &Value) -> Value {
        match value {
            Value::String(id) => without(id, self.own).into(),
            Value::Array(ids) => ids.iter().map(|id| self.id(id)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.clone(),
        }
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        self.left = self.left.saturating_sub(bytes);
        self.left > 0
    }

    /// A text without its credentials, as far as there is room.
    pub(super) fn text(&mut self, text: &str) -> String {
        let is_cut = text.len() > self.left;
        let seen = if is_cut { super::head(text, self.left) } else { text };
        self.left -= seen.len();
        let told = text::told(seen, self.own, is_cut);
        self.has_named |= told.is_named;
        if is_cut { told.text + "…" } else { told.text }
    }
}

/// Whether `content` asks for something with words that name a credential: what comes then comes without such words.
pub(super) fn asks(content: &Value) -> bool {
    match content {
        Value::Object(members) => {
            let is_question = members.get("type").is_some_and(|kind| kind == "question");
            let is_asked =
                |name: &str| is_ours(&["description", "question"], name) || is_question && name == "text";
            members.iter().any(|(name, value)| match value {
                Value::String(text) if is_asked(name) => {
                    text::is_label(text) || text.contains(['?', '？', '؟']) && text::names(text)
                }
                Value::Object(_) | Value::Array(_) => is_of_ours(name) && asks(value),
                Value::String(_) | Value::Number(_) | Value::Null | Value::Bool(_) => false,
            })
        }
        Value::Array(items) => items.iter().any(asks),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// How far names reach up: within what others made, to the object or list around the one that holds them.
fn reach(is_ours: bool) -> usize {
    if is_ours { 1 } else { 2 }
}

fn is_ours(list: &[&str], name: &str) -> bool {
    list.contains(&name)
}

fn is_of_ours(name: &str) -> bool {
    is_ours(shape::OURS, name) && !is_ours(shape::FREE, name)
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
    // `{"openai": {"key": "x"}}`, `{"keys": {"openai": "x"}}`
    let is_of = |member: &String| ["key", "keys"].contains(&member.as_str()) && !is_ours(shape::OURS, name);
    let is_joined = |member: &String| is_of(member) && name::names(&format!("{name}.key"));
    match value {
        Value::Null => false,
        Value::Object(members) => name == "keys" || name::names(&said) || members.keys().any(is_joined),
        Value::Array(_) => name == "keys" || name::names(&said),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => name::names(&said),
    }
}

/// Whether an object or a list names a credential, itself or `levels` deep: by a member's name, or by a label in it.
fn is_named(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(members) if levels > 0 => members
            .iter()
            .any(|(name, value)| names_member(name, value) || is_named(value, levels - 1) || is_label(value)),
        Value::Array(items) if levels > 0 => {
            items.iter().any(|item| is_named(item, levels - 1) || is_label(item))
        }
        Value::Object(_)
        | Value::Array(_)
        | Value::String(_)
        | Value::Number(_)
        | Value::Null
        | Value::Bool(_) => false,
    }
}

fn is_label(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text::is_label(text) || look::is_option(text))
}
