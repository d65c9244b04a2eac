//! What is wrong with a card that can't even be read: member by member, so that nothing hides behind the first fault.

use crate::a2a::{
    card::{AgentCapabilities, AgentInterface, AgentSkill},
    json::{FromProtoJson, InvalidField},
};
use serde_json::Value;

/// The member of this camelCase name, or of its snake_case one, unless it is `null`.
pub(super) fn member<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    of.get(name).or_else(|| of.get(&snake)).filter(|value| !value.is_null())
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().is_empty()) || value.as_array().is_some_and(Vec::is_empty)
}

/// Every reason against `raw`, which `invalid` keeps from being read. Interfaces are judged by `unfit`.
pub(super) fn reasons(
    raw: &Value,
    invalid: &InvalidField,
    unfit: impl Fn(&AgentInterface) -> Option<String>,
) -> Vec<String> {
    let mut against = Vec::new();
    for name in [
        "name",
        "description",
        "version",
        "supportedInterfaces",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
    ] {
        if member(raw, name).is_some_and(is_blank) {
            against.push(format!("{name} is empty"));
        }
    }
    if let Some(Err(invalid)) =
        member(raw, "capabilities").map(|can| AgentCapabilities::from_proto(can.clone()))
    {
        against.push(invalid.under("capabilities").to_string());
    }
    for (at, interface) in items(raw, "supportedInterfaces") {
        match AgentInterface::from_proto(interface.clone()) {
            Ok(interface) => against.extend(unfit(&interface)),
            Err(invalid) => {
                against.push(invalid.under(&format!("[{at}]")).under("supportedInterfaces").to_string());
            }
        }
    }
    for (at, skill) in items(raw, "skills") {
        let mut faults = Vec::new();
        for name in ["id", "name", "description", "tags"] {
            match member(skill, name) {
                None => faults.push(format!("skills[{at}].{name} is missing")),
                Some(value) if is_blank(value) => faults.push(format!("skills[{at}].{name} is empty")),
                Some(_) => {}
            }
        }
        if let (true, Err(invalid)) = (faults.is_empty(), AgentSkill::from_proto(skill.clone())) {
            faults.push(invalid.under(&format!("[{at}]")).under("skills").to_string());
        }
        against.extend(faults);
    }
    let is_said = |why: &String| why.starts_with(&invalid.field);
    if !against.iter().any(is_said) {
        against.push(invalid.to_string());
    }
    against
}

fn items<'a>(raw: &'a Value, name: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    member(raw, name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter().enumerate()
}
