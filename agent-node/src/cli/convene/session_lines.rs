//! A session as a person reads it: what each seat says, and how each stage went.

use patterns::session::names::{SESSION, TEAM};
use serde_json::Value;

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// A stage by its name, and after the first time with the number of its iteration, such as `spec#2`.
fn stage_of(value: &Value) -> String {
    let iteration = value["iteration"].as_u64().filter(|iteration| *iteration > 1);
    let again = iteration.map(|iteration| format!("#{iteration}")).unwrap_or_default();
    format!("{}{again}", word(value, "stage"))
}

/// What a seat has said, if the artifact is that: stage and round, the seat, and the text with its further lines indented. What
/// built-in stages hand on to each other is not.
pub(in crate::cli) fn speech(artifact: &Value) -> Option<String> {
    let about = artifact["metadata"].get(SESSION).filter(|about| about["from"].is_string())?;
    if about["does"].is_string() {
        return None;
    }
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
    let round = about["round"].as_u64().map(|round| format!(" {round}")).unwrap_or_default();
    Some(format!("[{}{round}] {}{to}: {text}", stage_of(about), word(about, "from")))
}

/// How each stage went and what was used, a line each.
pub(in crate::cli) fn summary(session: &Value) -> Vec<String> {
    let stages = session["stages"].as_array().into_iter().flatten().map(|stage| {
        let end = stage["label"].as_str().unwrap_or(word(stage, "state"));
        let why = stage["reason"].as_str().map(|why| format!(" ({why})")).unwrap_or_default();
        format!("stage {}: {end}{why}", stage_of(stage))
    });
    let lost = session["stages"].as_array().into_iter().flatten().flat_map(|stage| {
        let lost =
            unreachable(stage).map(|seat| format!("stage {}: {seat} is {UNREACHABLE}", stage_of(stage)));
        lost.collect::<Vec<_>>()
    });
    let stages = stages.chain(lost);
    let notes = session["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    stages.chain(notes.map(str::to_owned)).chain([format!("used: {}", used(session))]).collect()
}

/// Said of a seat at work whose agent the registry has lost.
const UNREACHABLE: &str = "not reachable";

/// The seats at work whose agents are not reachable.
fn unreachable(stage: &Value) -> impl Iterator<Item = &str> {
    let seats = stage["seats"].as_array().into_iter().flatten();
    seats.filter(|seat| seat["reachable"] == false).map(|seat| word(seat, "seat"))
}

/// What goes on: the stages that run, each with its round and the seats at work, and what was used.
pub(in crate::cli) fn now(session: &Value) -> String {
    let working = |stage: &Value| {
        let names = stage["working"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let shown = names.map(|name| match unreachable(stage).any(|lost| lost == name) {
            true => format!("{name} ({UNREACHABLE})"),
            false => name.to_owned(),
        });
        shown.collect::<Vec<_>>().join(", ")
    };
    let stages = session["stages"].as_array().into_iter().flatten().filter_map(|stage| {
        let name = stage_of(stage);
        match word(stage, "state") {
            "running" => Some(format!("{name} {}: {}", stage["round"], working(stage))),
            "gated" => Some(format!("{name} waits for you")),
            _ => None,
        }
    });
    stages.chain([used(session)]).collect::<Vec<_>>().join(" · ")
}

fn used(session: &Value) -> String {
    let budget = &session["budget"];
    let shares = ["turns", "tokens", "cost"].into_iter().filter(|name| budget.get(name).is_some());
    let shares = shares.map(|name| format!("{} of {} {name}", budget[name]["used"], budget[name]["limit"]));
    shares.collect::<Vec<_>>().join(", ")
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
        let again = speech(&json!({
            "artifactId": "spec.2.ann.1", "parts": [{ "text": "one" }],
            "metadata": { SESSION: { "stage": "spec", "iteration": 2, "round": 1, "from": "ann", "to": ["team"] } },
        }));
        assert_eq!(again.unwrap(), "[spec#2 1] ann: one");
        assert_eq!(speech(&json!({ "artifactId": "a.txt", "parts": [{ "text": "made" }] })), None);
        let record = json!({ "artifactId": "say.1", "metadata": { SESSION: { "say": { "to": ["a"] } } } });
        assert_eq!(speech(&record), None);
    }
    #[test]
    fn what_goes_on_names_the_stages_that_run_their_seats_and_the_budget() {
        let session = json!({
            "stages": [
                { "stage": "draft", "state": "done" },
                { "stage": "table", "state": "running", "iteration": 3, "round": 2, "working": ["ann", "bob"],
                  "seats": [{ "seat": "ann", "reachable": false }, { "seat": "bob" }] },
                { "stage": "rank", "state": "gated" },
            ],
            "budget": { "turns": { "used": 3, "limit": 40 }, "tokens": { "used": 7, "limit": 9 } },
        });
        let expected =
            "table#3 2: ann (not reachable), bob · rank waits for you · 3 of 40 turns, 7 of 9 tokens";
        assert_eq!(now(&session), expected);
        assert!(summary(&session).contains(&"stage table#3: ann is not reachable".to_owned()));
    }
}
