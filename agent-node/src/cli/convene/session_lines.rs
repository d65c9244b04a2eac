//! A session as a person reads it: what each seat says, and how each stage went.

use protocol::patterns::session::seat::{SESSION, TEAM};
use serde_json::Value;

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// What a seat has said, if the artifact is that: stage and round, the seat, and the text with its further lines indented.
pub(in crate::cli) fn speech(artifact: &Value) -> Option<String> {
    let about = artifact["metadata"].get(SESSION).filter(|about| about["from"].is_string())?;
    let to: Vec<&str> = about["to"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let to = if to == [TEAM] { String::new() } else { format!(" → {}", to.join(", ")) };
    let parts = artifact["parts"].as_array().into_iter().flatten();
    let parts = parts.map(|part| match (part["text"].as_str(), part.get("data")) {
        (Some(text), _) => text.to_owned(),
        (None, Some(data)) => data.to_string(),
        (None, None) => format!("[{}]", artifact["name"].as_str().unwrap_or(word(artifact, "artifactId"))),
    });
    let text = parts.collect::<Vec<_>>().join("\n");
    let text = text.trim_end().replace('\n', "\n    ");
    Some(format!("[{} {}] {}{to}: {text}", word(about, "stage"), about["round"], word(about, "from")))
}

/// How each stage went and what was used, a line each.
pub(super) fn summary(session: &Value) -> Vec<String> {
    let stages = session["stages"].as_array().into_iter().flatten().map(|stage| {
        let end = stage["label"].as_str().unwrap_or(word(stage, "state"));
        let why = stage["reason"].as_str().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("stage {}: {end}{why}", word(stage, "stage"))
    });
    let budget = &session["budget"];
    let used = |name: &str| format!("{} of {} {name}", budget[name]["used"], budget[name]["limit"]);
    let notes = session["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let used = format!("used: {}, {}", used("turns"), used("tokens"));
    stages.chain(notes.map(str::to_owned)).chain([used]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_speech_names_its_stage_round_seat_and_addressees() {
        let of = |to: Value| {
            speech(&json!({
                "artifactId": "table.1", "parts": [{ "text": "one\ntwo\n" }],
                "metadata": { SESSION: { "stage": "table", "round": 2, "from": "ann", "to": to } },
            }))
        };
        assert_eq!(of(json!(["team"])).unwrap(), "[table 2] ann: one\n    two");
        assert_eq!(of(json!(["bob", "eve"])).unwrap(), "[table 2] ann → bob, eve: one\n    two");
        assert_eq!(speech(&json!({ "artifactId": "a.txt", "parts": [{ "text": "made" }] })), None);
        let record = json!({ "artifactId": "say.1", "metadata": { SESSION: { "say": { "to": ["a"] } } } });
        assert_eq!(speech(&record), None);
    }
}
