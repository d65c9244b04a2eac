//! YAML as a tree that remembers its lines.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value, json};
use serde_saphyr::Spanned;
use std::fmt;

/// A value and the line it stands on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) line: u64,
    pub(super) is: Is,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Is {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    /// Key, the key's line, value.
    Map(Vec<(String, u64, Node)>),
}

/// A fault of the YAML itself: its line, if known, and what is wrong.
pub(super) struct BadYaml {
    pub(super) line: Option<u64>,
    pub(super) what: String,
}

/// The documents of `text`, empty ones left out.
pub(super) fn documents(text: &str) -> Result<Vec<Node>, BadYaml> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let line = error.location().map(|at| at.line()).filter(|line| *line > 0);
        let what = error.to_string();
        let what = what.lines().next().unwrap_or_default();
        BadYaml { line, what: in_words_of_ours(what) }
    })
}

/// What the library says of a text, without its advice to programmers.
fn in_words_of_ours(what: &str) -> String {
    match what.strip_prefix("duplicate mapping key: ") {
        Some(key) => format!("names {} twice", key.split(", set ").next().unwrap_or(key)),
        None => format!("is no YAML: {}", what.split(" at line ").next().unwrap_or(what)),
    }
}

impl Node {
    /// The same without its lines.
    pub(super) fn to_json(&self) -> Value {
        match &self.is {
            Is::Null => Value::Null,
            Is::Bool(bool) => json!(bool),
            Is::Number(number) => Value::Number(number.clone()),
            Is::Text(text) => json!(text),
            Is::List(items) => items.iter().map(Self::to_json).collect(),
            Is::Map(members) => {
                Value::Object(members.iter().map(|(key, _, value)| (key.clone(), value.to_json())).collect())
            }
        }
    }

    /// What stands under `key`, if this is a map that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.is {
            Is::Map(members) => members.iter().find(|(name, _, _)| name == key).map(|(_, _, value)| value),
            Is::Null | Is::Bool(_) | Is::Number(_) | Is::Text(_) | Is::List(_) => None,
        }
    }

    /// The line of what `path` leads to, or of the nearest thing on the way that exists. Steps are keys or positions.
    pub(super) fn line_of<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> u64 {
        let (mut node, mut line) = (self, self.line);
        for step in path {
            let next = match &node.is {
                Is::Map(members) => {
                    members.iter().find(|(name, _, _)| name == step).map(|(_, at, value)| (*at, value))
                }
                Is::List(items) => {
                    step.parse::<usize>().ok().and_then(|at| items.get(at)).map(|item| (item.line, item))
                }
                Is::Null | Is::Bool(_) | Is::Number(_) | Is::Text(_) => None,
            };
            let Some((at, value)) = next else { break };
            (node, line) = (value, at);
        }
        line
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::<Is>::deserialize(deserializer)?;
        Ok(Self { line: referenced.line(), is: value })
    }
}

impl<'de> Deserialize<'de> for Is {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Is;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Is, E> {
        Ok(Is::Null)
    }

    fn visit_none<E>(self) -> Result<Is, E> {
        Ok(Is::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Is, D::Error> {
        Is::deserialize(deserializer)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Is, E> {
        Ok(Is::Bool(bool))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Is, E> {
        Ok(Is::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Is, E> {
        Ok(Is::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Is, E> {
        Number::from_f64(number).map(Is::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Is, E> {
        Ok(Is::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Is, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Is::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Is, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = members.next_key::<Spanned<String>>()? {
            map.push((key.value, key.referenced.line(), members.next_value()?));
        }
        Ok(Is::Map(map))
    }
}
