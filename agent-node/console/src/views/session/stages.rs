//! Reads a session, its stages and their seats as the route of sessions shows them.

use crate::state_mark::StateTone;
use serde_json::Value;

/// The text of a member; empty if there is none.
pub(super) fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The elements of a member.
pub(super) fn all<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// The texts of a member.
pub(super) fn words<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    all(value, name).filter_map(Value::as_str).collect()
}

/// The state of a stage or a seat, as it is coloured.
pub(super) fn tone(state: &str) -> StateTone {
    match state {
        "running" | "working" => StateTone::Busy,
        "gated" | "asked" => StateTone::Wait,
        "done" | "completed" => StateTone::Ok,
        "failed" | "incomplete" => StateTone::Bad,
        _ => StateTone::Idle,
    }
}

/// Whether what was said in `stage` is shown: of a sealed one only after its end.
pub(super) fn is_open(stage: &Value) -> bool {
    stage["sealed"] != true || !["waiting", "running", "gated"].contains(&word(stage, "state"))
}

/// The people of a stage whose turn it is.
pub(super) fn asked(stage: &Value) -> Vec<&str> {
    all(stage, "seats").filter(|seat| seat["state"] == "asked").map(|seat| word(seat, "seat")).collect()
}

/// Who has a seat: the agent that has taken it, or who may.
pub(super) fn holder(seat: &Value) -> String {
    match (seat["agent"].as_str().or(seat["who"].as_str()), &seat["who"]) {
        (Some(agent), _) => agent.to_owned(),
        (None, Value::Object(kinds)) => {
            let named = kinds.iter().filter_map(|(kind, of)| Some(format!("{kind} {}", of.as_str()?)));
            named.collect::<Vec<_>>().join(", ")
        }
        _ => "\u{2013}".to_owned(),
    }
}

/// Why a stage does not go on, or who is at work in it.
pub(super) fn now(stage: &Value) -> String {
    match word(stage, "state") {
        "running" => match (asked(stage).join(", "), words(stage, "working")) {
            (person, _) if !person.is_empty() => format!("waits for {person}"),
            (_, working) if working.is_empty() => "between two turns".to_owned(),
            (_, working) => format!("{} at work", working.join(", ")),
        },
        "gated" => "waits for your decision".to_owned(),
        "waiting" => match words(stage, "waitsFor").join(", ") {
            open if open.is_empty() => "waits for a way to it".to_owned(),
            open => format!("waits for {open}"),
        },
        state => match (word(stage, "label"), word(stage, "reason")) {
            ("", "") => state.to_owned(),
            ("", why) => why.to_owned(),
            (label, _) => label.to_owned(),
        },
    }
}
