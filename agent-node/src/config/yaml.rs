//! A YAML tree with line numbers.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value, json};
use serde_saphyr::Spanned;
use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct YamlNode {
    pub(super) line: u64,
    pub(super) value: YamlValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum YamlValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<YamlNode>),
    /// Key, the key's line, value.
    Map(Vec<(String, u64, YamlNode)>),
}

/// A syntax error of the YAML, with its line if known.
pub(super) struct YamlError {
    pub(super) line: Option<u64>,
    pub(super) what: String,
}

/// The documents of `text`, empty ones left out.
pub(super) fn documents(text: &str) -> Result<Vec<YamlNode>, YamlError> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let line = error.location().map(|at| at.line()).filter(|line| *line > 0);
        let what = error.to_string();
        let what = what.lines().next().unwrap_or_default();
        YamlError { line, what: reword(what) }
    })
}

/// The library's message without its advice to programmers.
fn reword(what: &str) -> String {
    match what.strip_prefix("duplicate mapping key: ") {
        Some(key) => format!("names {} twice", key.split(", set ").next().unwrap_or(key)),
        None => format!("is no YAML: {}", what.split(" at line ").next().unwrap_or(what)),
    }
}

impl YamlValue {
    /// A text, number or truth value; null for anything else.
    pub(super) fn of_scalar(value: &Value) -> Self {
        match value {
            Value::Bool(bool) => Self::Bool(*bool),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(text.clone()),
            Value::Null | Value::Array(_) | Value::Object(_) => Self::Null,
        }
    }
}

impl YamlNode {
    /// This with `other` over it: maps are merged, other values replaced.
    pub(super) fn merged(mut self, other: &Self) -> Self {
        let (YamlValue::Map(members), YamlValue::Map(others)) = (&mut self.value, &other.value) else {
            return other.clone();
        };
        for (key, line, value) in others {
            match members.iter_mut().find(|(name, _, _)| name == key) {
                Some(member) => member.2 = member.2.clone().merged(value),
                None => members.push((key.clone(), *line, value.clone())),
            }
        }
        self
    }

    pub(super) fn to_json(&self) -> Value {
        match &self.value {
            YamlValue::Null => Value::Null,
            YamlValue::Bool(bool) => json!(bool),
            YamlValue::Number(number) => Value::Number(number.clone()),
            YamlValue::Text(text) => json!(text),
            YamlValue::List(items) => items.iter().map(Self::to_json).collect(),
            YamlValue::Map(members) => {
                Value::Object(members.iter().map(|(key, _, value)| (key.clone(), value.to_json())).collect())
            }
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let YamlValue::Map(members) = &self.value else { return None };
        members.iter().find(|(name, _, _)| name == key).map(|(_, _, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let YamlValue::Map(members) = &mut self.value else { return None };
        members.iter_mut().find(|(name, _, _)| name == key).map(|(_, _, value)| value)
    }

    /// Takes the value of `key` out, if this is a map that has it.
    pub(super) fn remove(&mut self, key: &str) -> Option<Self> {
        let YamlValue::Map(members) = &mut self.value else { return None };
        let at = members.iter().position(|(name, _, _)| name == key)?;
        Some(members.remove(at).2)
    }

    /// The value at `key`, such as `agents[0].bid`.
    pub(super) fn at(&self, key: &str) -> Option<&Self> {
        steps(key).try_fold(self, |node, step| node.step(step).map(|(_, value)| value))
    }

    /// The line of the value at `key`, such as `agents[0].bid`, or of its nearest existing ancestor, if it is known.
    pub(super) fn line_at(&self, key: &str) -> Option<u64> {
        let (mut node, mut line) = (self, self.line);
        for step in steps(key) {
            let Some((at, value)) = node.step(step) else { break };
            (node, line) = (value, at);
        }
        Some(line).filter(|line| *line > 0)
    }

    /// The member of a map or the item of a list, with its line.
    fn step(&self, step: &str) -> Option<(u64, &Self)> {
        match &self.value {
            YamlValue::Map(members) => {
                members.iter().find(|(name, _, _)| name == step).map(|(_, at, value)| (*at, value))
            }
            YamlValue::List(items) => {
                step.parse::<usize>().ok().and_then(|at| items.get(at)).map(|item| (item.line, item))
            }
            _ => None,
        }
    }
}

/// The names and numbers in a key such as `agents[0].bid`.
fn steps(key: &str) -> impl Iterator<Item = &str> {
    key.split(['.', '[', ']']).filter(|step| !step.is_empty())
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::<YamlValue>::deserialize(deserializer)?;
        Ok(Self { line: referenced.line(), value })
    }
}

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = YamlValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_none<E>(self) -> Result<YamlValue, E> {
        Ok(YamlValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlValue, D::Error> {
        YamlValue::deserialize(deserializer)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<YamlValue, E> {
        Ok(YamlValue::Bool(bool))
    }

    fn visit_i64<E>(self, number: i64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<YamlValue, E> {
        Ok(YamlValue::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<YamlValue, E> {
        Number::from_f64(number).map(YamlValue::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<YamlValue, E> {
        Ok(YamlValue::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<YamlValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(YamlValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<YamlValue, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = members.next_key::<Spanned<String>>()? {
            map.push((key.value, key.referenced.line(), members.next_value()?));
        }
        Ok(YamlValue::Map(map))
    }
}
