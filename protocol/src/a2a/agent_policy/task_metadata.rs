//! What a client wishes of a task, read from where it may stand.

use crate::{
    a2a::{json::InvalidField, message::Message, part::PartContent},
    ids::Capability,
    task::EXTENSION,
    time::WallTime,
};
use serde_json::{Map, Value};

/// The metadata of a request that concern the task: under our URI, or plainly as `skill`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskMetadata {
    /// The skill it is meant for.
    pub capability: Option<Capability>,
    pub deadline: Option<WallTime>,
    /// What to do it with, instead of the message's data parts.
    pub input: Option<Value>,
    /// Whether the agent that is asked does it itself, however busy it is.
    pub is_addressed: bool,
}

/// The names under which clients say which skill they mean.
const SKILL: [&str; 3] = ["capability", "skill", "skillId"];

impl TaskMetadata {
    /// What metadata say: the message's before the request's, ours before what everybody may use.
    ///
    /// # Errors
    /// Names the member that is of the wrong type or can't be read.
    pub fn of(message: &Map<String, Value>, request: &Map<String, Value>) -> Result<Self, InvalidField> {
        let mut wishes = Self::default();
        let mut plain = None;
        for (place, metadata) in [("message.metadata", message), ("metadata", request)] {
            if let Some(ours) = metadata.get(EXTENSION) {
                let place = format!("{place}.{EXTENSION}");
                let ours = ours.as_object().ok_or_else(|| InvalidField::new(&place, "must be an object"))?;
                wishes.add(&place, ours)?;
            }
            if plain.is_none() {
                plain = skill(place, metadata, &SKILL[1..])?;
            }
        }
        wishes.capability = wishes.capability.or(plain);
        Ok(wishes)
    }

    fn add(&mut self, place: &str, ours: &Map<String, Value>) -> Result<(), InvalidField> {
        if let named @ Some(_) = skill(place, ours, &SKILL)? {
            self.capability = self.capability.take().or(named);
        }
        if let Some((field, text)) = text(place, ours, "deadline")? {
            let deadline =
                WallTime::parse(text).map_err(|error| InvalidField::new(field, error.to_string()))?;
            self.deadline.get_or_insert(deadline);
        }
        self.input = self.input.take().or_else(|| ours.get("input").cloned());
        self.is_addressed |= match ours.get("addressed") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(is_addressed)) => *is_addressed,
            Some(_) => return Err(InvalidField::new(format!("{place}.addressed"), "must be true or false")),
        };
        Ok(())
    }
}

/// The member `name`, and its path.
fn text<'a>(
    place: &str,
    members: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<(String, &'a str)>, InvalidField> {
    let field = || format!("{place}.{name}");
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some((field(), text))),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(InvalidField::new(field(), "must be a string"))
        }
    }
}

fn skill(
    place: &str,
    members: &Map<String, Value>,
    names: &[&str],
) -> Result<Option<Capability>, InvalidField> {
    for name in names {
        if let Some((field, text)) = text(place, members, name)? {
            return Capability::parse(text)
                .map(Some)
                .map_err(|error| InvalidField::new(field, error.to_string()));
        }
    }
    Ok(None)
}

/// The data that a message's parts hold: one value, or a list of them.
pub fn data_of(message: &Message) -> Option<Value> {
    let mut data: Vec<_> = message
        .parts
        .iter()
        .filter_map(|part| match &part.content {
            PartContent::Data(data) => Some(data.clone()),
            PartContent::Text(_) | PartContent::Raw(_) | PartContent::Url(_) => None,
        })
        .collect();
    match data.len() {
        0 => None,
        1 => data.pop(),
        _ => Some(Value::Array(data)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_wished_is_read_from_where_it_may_stand_or_refused_by_its_place() {
        let of = |message: Value, request: Value| {
            TaskMetadata::of(message.as_object().unwrap(), request.as_object().unwrap())
        };
        let ours = |value: Value| json!({ EXTENSION: value });
        let skill = |wishes: TaskMetadata| wishes.capability.map(|skill| skill.to_string());
        for (message, request) in [
            (ours(json!({ "capability": "a" })), json!({ "skill": "b" })),
            (json!({ "skill": "b" }), ours(json!({ "skillId": "a" }))),
            (json!({ "skill": "a" }), json!({ "skill": "b" })),
            (json!({ "x": 1 }), json!({ "skillId": "a", "skill": null })),
        ] {
            assert_eq!(skill(of(message, request).unwrap()).as_deref(), Some("a"));
        }
        assert!(of(ours(json!({ "addressed": true })), json!({})).unwrap().is_addressed);
        assert!(!of(json!({ "addressed": true }), ours(json!({}))).unwrap().is_addressed, "it is ours only");
        let wrong = of(ours(json!({ "addressed": "yes" })), json!({})).unwrap_err().to_string();
        assert!(wrong.contains("addressed"), "{wrong}");
        let wishes =
            of(ours(json!({ "deadline": "2030-01-01T00:00:00Z", "input": [1] })), json!({})).unwrap();
        assert!(wishes.deadline.is_some() && wishes.input == Some(json!([1])) && wishes.capability.is_none());
        for (wrong, field) in [
            (json!({ "skill": 5 }), "message.metadata.skill".to_owned()),
            (json!({ "skill": "two words" }), "message.metadata.skill".to_owned()),
            (ours(json!("str")), format!("message.metadata.{EXTENSION}")),
            (ours(json!({ "capability": ["a"] })), format!("message.metadata.{EXTENSION}.capability")),
            (ours(json!({ "deadline": 1 })), format!("message.metadata.{EXTENSION}.deadline")),
            (ours(json!({ "deadline": "soon" })), format!("message.metadata.{EXTENSION}.deadline")),
        ] {
            assert_eq!(of(wrong.clone(), json!({})).unwrap_err().field, field, "{wrong}");
        }
    }
}
