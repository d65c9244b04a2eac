//! What is wrong with a graph, and where: a key as a path, and words for people.

use protocol::{bid::Eta, words};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;
use std::fmt;

/// The most faults that a message names.
const MAX_SHOWN: usize = 10;

/// One thing that is wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFault {
    /// The key as a path, such as `stages[2].seats[0].agent`; empty for the whole graph.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
}

impl GraphFault {
    pub(super) fn new(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { key: key.into(), what: what.into() }
    }

    /// The same, of a part that the graph has at `key`.
    pub(super) fn below(self, key: &str) -> Self {
        let joined = match (key, self.key.as_str()) {
            (key, "") => key.to_owned(),
            ("", below) => below.to_owned(),
            (key, below) if below.starts_with('[') => format!("{key}{below}"),
            (key, below) => format!("{key}.{below}"),
        };
        Self { key: joined, ..self }
    }
}

impl fmt::Display for GraphFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => f.write_str(&self.what),
            key => write!(f, "{key}: {}", self.what),
        }
    }
}

/// Everything that is wrong with a graph; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFaults(pub Vec<GraphFault>);

impl From<GraphFault> for GraphFaults {
    fn from(fault: GraphFault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for GraphFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.0.iter().take(MAX_SHOWN).enumerate() {
            f.write_str(if at > 0 { "; " } else { "" })?;
            fault.fmt(f)?;
        }
        match self.0.len().checked_sub(MAX_SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for GraphFaults {}

/// Reads a part of a graph; the key that can't be read is named.
pub(super) fn read<T: DeserializeOwned>(part: Value) -> Result<T, GraphFault> {
    serde_path_to_error::deserialize(part).map_err(|error| {
        let path = error.path().to_string();
        let key = if path == "." { String::new() } else { path };
        GraphFault::new(key, explain(&error.into_inner().to_string()))
    })
}

/// The library's message in other words; names that it expects are suggested.
fn explain(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let mut names = rest.split('`').step_by(2);
        let key = names.next().unwrap_or_default();
        let known: Vec<&str> = rest.split('`').skip(2).step_by(2).collect();
        return match words::nearest(key, known.iter().copied()) {
            Some(name) => format!("unknown key; did you mean `{name}`?"),
            None => format!("unknown key; there are {}", known.join(", ")),
        };
    }
    if let Some((value, known)) =
        message.strip_prefix("unknown variant `").and_then(|rest| rest.split_once("`, expected "))
    {
        return format!("must be {known}, not `{value}`");
    }
    match message.strip_prefix("missing field ") {
        Some(name) => format!("needs {name}"),
        None => message.to_owned(),
    }
}

/// A time of a graph: a text with its unit. A bare number is refused, because nobody sees which unit it has.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Eta, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Eta::parse(&text).map_err(D::Error::custom),
        Value::Number(number) => {
            Err(D::Error::custom(format!("a time needs its unit, such as `20s` or `20min`, not {number}")))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err(D::Error::custom("must be a time with its unit, such as `20s` or `20min`"))
        }
    }
}

/// The same, or none.
pub(super) fn optional_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Eta>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        Some(value) => time(value).map(Some).map_err(D::Error::custom),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_library_are_replaced() {
        for (message, expected) in [
            (
                "unknown field `seets`, expected one of `seats`, `stages`",
                "unknown key; did you mean `seats`?",
            ),
            ("unknown field `x`, expected `max` or `time`", "unknown key; there are max, time"),
            ("unknown variant `opne`, expected `a` or `b`", "must be `a` or `b`, not `opne`"),
            ("missing field `id`", "needs `id`"),
            ("invalid type: map, expected u32", "invalid type: map, expected u32"),
        ] {
            assert_eq!(explain(message), expected);
        }
    }

    #[test]
    fn faults_are_named_by_their_keys_and_the_first_ones_are_shown() {
        let fault = GraphFault::new("agent", "is wrong").below("seats[0]").below("stages[2]");
        assert_eq!(fault.to_string(), "stages[2].seats[0].agent: is wrong");
        assert_eq!(GraphFault::new("", "is wrong").below("").to_string(), "is wrong");
        let many = GraphFaults(vec![fault; 12]).to_string();
        assert_eq!(many.matches("is wrong").count(), 10);
        assert!(many.ends_with("; and 2 more"), "{many}");
    }
}
