//! Templates: `{{ body.issue.title }}` stands for a part of a delivery. There is nothing else: no conditions, no code.

use serde_json::Value;
use std::fmt;

/// The names that a path may begin with.
const ROOTS: [&str; 2] = ["body", "headers"];

/// A text with places for parts of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Template(Vec<TemplatePiece>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum TemplatePiece {
    Text(String),
    /// The path of a part: members by name, items of lists by number.
    Part(Vec<String>),
}

impl Template {
    /// Fails if a placeholder is no path, or has no end.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, from)) = rest.split_once("{{") {
            let (path, after) = from.split_once("}}").ok_or_else(|| "has a {{ without its }}".to_owned())?;
            if !before.is_empty() {
                pieces.push(TemplatePiece::Text(before.to_owned()));
            }
            pieces.push(part(path.trim())?);
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(TemplatePiece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The template of the part at `path` alone.
    pub(super) fn path(path: &str) -> Result<Self, String> {
        Ok(Self(vec![part(path)?]))
    }

    /// The text with the parts of `values`. Fails if they lack one.
    pub(super) fn text(&self, values: &Value) -> Result<String, String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePiece::Text(plain) => text.push_str(plain),
                TemplatePiece::Part(path) => match found(path, values)? {
                    Value::String(value) => text.push_str(value),
                    Value::Null => {}
                    value => text.push_str(&value.to_string()),
                },
            }
        }
        Ok(text)
    }

    /// The value of the one part that it is; else its text.
    pub(super) fn value(&self, values: &Value) -> Result<Value, String> {
        match self.0.as_slice() {
            [TemplatePiece::Part(path)] => found(path, values).cloned(),
            _ => self.text(values).map(Value::String),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            TemplatePiece::Text(text) => f.write_str(text),
            TemplatePiece::Part(path) => f.write_str(&path.join(".")),
        })
    }
}

fn part(path: &str) -> Result<TemplatePiece, String> {
    let names: Vec<String> = path.split('.').map(str::to_owned).collect();
    let is_name = |name: &String| !name.is_empty() && !name.contains(char::is_whitespace);
    match ROOTS.contains(&names[0].as_str()) && names.iter().all(is_name) {
        true => Ok(TemplatePiece::Part(names)),
        false => Err(format!(
            "{path:?} is no part of a delivery, such as body.issue.title or headers.x-github-event"
        )),
    }
}

fn found<'a>(path: &[String], values: &'a Value) -> Result<&'a Value, String> {
    let below = |value: &'a Value, name: &String| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    };
    path.iter().try_fold(values, below).ok_or_else(|| format!("the delivery has no {}", path.join(".")))
}

/// Fails if a text in `value` is no template.
pub(super) fn check_value(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => Template::parse(text).map(drop),
        Value::Array(items) => items.iter().try_for_each(check_value),
        Value::Object(members) => members.values().try_for_each(check_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// `value` with the parts of `values` in its texts. Fails if they lack one.
pub(super) fn filled(value: &Value, values: &Value) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Template::parse(text)?.value(values)?,
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| filled(item, values)).collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| Ok((name.clone(), filled(value, values)?));
            Value::Object(members.iter().map(member).collect::<Result<_, String>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}
