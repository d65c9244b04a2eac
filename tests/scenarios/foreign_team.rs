//! Teams that are made for one request, with real HTTP agents (SEEDS §9, lines 54 to 68), and with peers of the mesh.

use super::foreign::{ask_in, contexts};
use crate::harness::{
    Agent, Process, artifact, directory,
    documentation::{blocks, shell, success, up},
    eventually,
    foreign::{ForeignAgent, ForeignBehavior, skill},
    message, refusal, refusal_text, state,
    written_answers::play_both,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

pub(super) const BOTH: &str = "Am I free tomorrow afternoon, and is the weather good for an outdoor meeting?";
const GUARDED: &str = r#"{
    "securitySchemes": { "key": { "apiKeySecurityScheme": { "location": "header", "name": "x-key" } } },
    "securityRequirements": [{ "schemes": { "key": { "list": [] } } }]
}"#;

pub(super) async fn calendar(more: &str, play: ForeignBehavior) -> ForeignAgent {
    let skill = skill(
        "check_availability",
        "Says when you are free",
        &["calendar", "availability"],
        &["Am I free on Friday afternoon?"],
    );
    ForeignAgent::start("Calendar Agent", skill, serde_json::from_str(more).unwrap(), play).await
}

pub(super) async fn weather(more: &str, play: ForeignBehavior) -> ForeignAgent {
    let skill = skill(
        "get_forecast",
        "The forecast for a place and a day",
        &["weather", "forecast"],
        &["Is the weather good for a picnic outdoors?"],
    );
    ForeignAgent::start("WeatherBot", skill, serde_json::from_str(more).unwrap(), play).await
}

/// A node with one agent that has none of the skills.
async fn desk() -> (Process, Agent) {
    let mesh = Process::up(
        "
mesh: { outside: { allow: [127.0.0.0/8] } }
agents: [{ agent: desk-01, skills: [desk], bid: { maxParallel: 8 }, brain: { echo: {} } }]
",
    )
    .await;
    let desk = mesh.agent("desk-01");
    (mesh, desk)
}

pub(super) fn terms(cards: &[&ForeignAgent], more: Value) -> Value {
    let urls: Vec<_> = cards.iter().map(|foreign| foreign.url.clone()).collect();
    let bounds = json!({ "pollMs": 10, "polls": 20, "attempts": 2 });
    crate::harness::with(json!({ "cards": urls, "bounds": bounds }), more)
}

fn asked(text: &str, input: Value) -> Value {
    let discovery = if input.is_null() { json!({}) } else { input };
    json!({ "description": text, "capability": "session", "input": { "preset": "foreign", "discovery": discovery } })
}

/// Why a request is refused.
async fn refused(desk: &Agent, payload: Value) -> String {
    let answer = desk.post(&desk.request(payload)).await;
    assert_eq!(refusal(&answer).0, 400, "{answer:?}");
    refusal_text(&answer)
}

fn data(task: &Value, name: &str) -> Value {
    let artifacts = task["artifacts"].as_array().unwrap_or_else(|| panic!("no artifacts: {task:#}"));
    let found = artifacts.iter().find(|artifact| artifact["artifactId"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {task:#}"))["parts"][0]["data"].clone()
}

/// The output, the record and the task of a finished request.
pub(super) async fn coordinated(desk: &Agent, text: &str, input: Value) -> (Value, Value, Value) {
    let task = desk.ask(asked(text, input)).await;
    let (output, record) = (data(&task, "final_output"), data(&task, "delegation_record"));
    for member in [
        "agent_cards",
        "delegation_plan",
        "task_statuses",
        "remote_artifacts",
        "errors",
        "final_output",
        "audit_log",
    ] {
        assert!(record.get(member).is_some(), "{member}: {record:#}");
    }
    assert_eq!(record["final_output"], output);
    (output, record, task)
}

fn used(output: &Value, agent: &str) -> Value {
    let all = output["agents_used"].as_array().unwrap();
    all.iter().find(|used| used["name"] == agent).unwrap_or_else(|| panic!("{agent}: {output:#}")).clone()
}

#[actix::test]
async fn line_54_two_agents_work_in_parallel_and_give_one_answer() {
    let (_mesh, desk) = desk().await;
    let (calendar, weather) = (
        calendar("{}", ForeignBehavior::Answers("free from 13:00 to 17:00")).await,
        weather("{}", ForeignBehavior::Works(3, "clear, 22 C")).await,
    );
    let (output, record, task) =
        coordinated(&desk, BOTH, terms(&[&calendar, &weather], json!({ "items": [
            { "text": "Am I free tomorrow afternoon", "mode": "sync" }, { "text": "is the weather good for an outdoor meeting", "mode": "polling" }] }))).await;
    assert_eq!(output["status"], "ok", "{output:#}");
    assert_eq!(state(&task), "completed");
    assert_eq!(
        output["artifact_summary"],
        json!({ "Calendar Agent": "free from 13:00 to 17:00", "WeatherBot": "clear, 22 C" })
    );
    for (agent, skill, mode) in
        [("Calendar Agent", "check_availability", "sync"), ("WeatherBot", "get_forecast", "polling")]
    {
        let used = used(&output, agent);
        assert_eq!(
            (&used["skill"], &used["mode"], &used["status"]),
            (&json!(skill), &json!(mode), &json!("completed"))
        );
        assert!(used["task_id"].as_str().unwrap().starts_with("foreign-"), "{used}");
        assert!(!used["reason"].as_str().unwrap().is_empty());
    }
    assert_eq!(output["errors"], json!([]));
    assert_eq!(record["discovery_mode"], "direct_config");
}

#[actix::test]
async fn line_56_a_part_is_looked_at_until_it_is_completed() {
    let (_mesh, desk) = desk().await;
    let weather = weather("{}", ForeignBehavior::Works(3, "clear, 22 C")).await;
    let (output, record, _) =
        coordinated(&desk, "Is the weather good?", terms(&[&weather], json!({ "mode": "polling" }))).await;
    assert_eq!(used(&output, "WeatherBot")["status"], "completed", "{output:#}");
    let polls = record["poll_attempts"].as_object().unwrap().values().next().unwrap().as_u64().unwrap();
    assert!((3..=20).contains(&polls), "within its limit: {polls}");
    assert_eq!(weather.received("GetTask").len() as u64, polls);
}

#[actix::test]
async fn line_68_the_record_is_complete_however_it_ends() {
    let (_mesh, desk) = desk().await;
    let good = weather("{}", ForeignBehavior::Answers("clear")).await;
    let bad = weather("{}", ForeignBehavior::Fails("no satellite")).await;
    let odd = weather(r#"{ "skills": [] }"#, ForeignBehavior::Never).await;
    for (text, agent, expected) in [
        ("Is the weather good?", &good, "ok"),
        ("Is the weather good?", &bad, "failed"),
        ("Is the weather good?", &odd, "no_agents_available"),
        ("Buy a house", &good, "no_matching_skill"),
        ("  ", &good, "failed"),
    ] {
        // `coordinated` looks for every member.
        let (output, ..) = coordinated(&desk, text, terms(&[agent], json!({}))).await;
        assert_eq!(output["status"], expected, "{text}: {output:#}");
    }
}

#[actix::test]
async fn the_words_of_a_request_reach_each_agent_unharmed() {
    let (_mesh, desk) = desk().await;
    let skill = skill("implement_api", "Implements REST endpoints", &["rest", "endpoint"], &[]);
    let builder = ForeignAgent::start("Builder", skill, json!({}), ForeignBehavior::Answers("built")).await;
    let weather = weather("{}", ForeignBehavior::Answers("clear")).await;
    let text = "Implement a REST endpoint for items (name, price:float), and check the weather forecast \
                (is it good, is it bad?) at https://a.b/c?d=e.f. \"now, is it?\"";
    let (output, ..) = coordinated(&desk, text, terms(&[&builder, &weather], json!({}))).await;
    assert_eq!(output["status"], "ok", "{output:#}");
    for agent in [&builder, &weather] {
        let sent = agent.received("SendMessage").remove(0).params;
        assert_eq!(sent["message"]["parts"], json!([{ "text": text }]));
    }
}

#[actix::test]
async fn the_stages_of_a_team_stand_in_a_session_with_others_and_may_ask_in_order() {
    let (_mesh, desk) = desk().await;
    let (calendar, weather) = (
        calendar("{}", ForeignBehavior::Answers("free")).await,
        weather("{}", ForeignBehavior::Works(2, "clear")).await,
    );
    let stages = json!([
        { "id": "match", "does": "match", "discovery": terms(&[&calendar, &weather], json!({})) },
        { "id": "ask", "after": ["match"], "does": "dispatch", "order": "turns", "needs": "settled" },
        { "id": "answer", "after": ["ask"], "does": "aggregate" },
        { "id": "end", "after": ["answer"], "seats": ["desk-01"] },
    ]);
    let task = desk
        .ask(json!({ "description": BOTH, "capability": "session", "input": { "stages": stages } }))
        .await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(data(&task, "final_output")["status"], "ok");
    let when = |agent: &ForeignAgent, method| agent.received(method).last().unwrap().at;
    assert!(when(&weather, "GetTask") < when(&calendar, "SendMessage"), "one after the other");
    let wrong = json!({ "stages": [{ "id": "ask", "does": "dispatch" }] });
    let refused =
        refused(&desk, json!({ "description": BOTH, "capability": "session", "input": wrong })).await;
    assert!(refused.contains("`does: dispatch` comes `after` one stage that does match"), "{refused}");
}

#[actix::test]
async fn after_a_kill_the_parts_go_on_and_nothing_is_sent_twice() {
    let (mesh, desk) = desk().await;
    let (calendar, weather) =
        (calendar("{}", ForeignBehavior::Answers("free")).await, weather("{}", ForeignBehavior::Never).await);
    let bounds = json!({ "bounds": { "polls": 100000, "pollMs": 10 } });
    let id = desk.send(asked(BOTH, terms(&[&calendar, &weather], bounds))).await;
    crate::harness::eventually("both are asked, and one is looked at", async || {
        let is_asked =
            !calendar.received("SendMessage").is_empty() && !weather.received("GetTask").is_empty();
        is_asked.then_some(())
    })
    .await;
    // What the part that is done has answered is recorded by then.
    let looks = weather.received("GetTask").len();
    crate::harness::eventually("more looks at it", async || {
        (weather.received("GetTask").len() > looks + 30).then_some(())
    })
    .await;
    let mesh = mesh.restart().await;
    weather.set_behavior(ForeignBehavior::Answers("clear"));
    let task = mesh.agent("desk-01").task_in(&id, &["completed", "failed"]).await;
    assert_eq!(data(&task, "final_output")["status"], "ok", "{task:#}");
    assert_eq!((calendar.received("SendMessage").len(), weather.received("SendMessage").len()), (1, 1));
}

#[actix::test]
async fn line_55_each_part_is_sent_as_a_complete_a2a_request() {
    let (_mesh, desk) = desk().await;
    let calendar = calendar("{}", ForeignBehavior::Answers("free")).await;
    let (_, record, _) = coordinated(
        &desk,
        "Am I free tomorrow afternoon?",
        terms(&[&calendar], json!({ "mode": "sync", "acceptedModes": ["text/plain"] })),
    )
    .await;
    let sent = calendar.received("SendMessage").remove(0).params;
    assert_eq!(sent["configuration"]["acceptedOutputModes"], json!(["text/plain"]));
    assert_eq!(sent["message"]["parts"][0]["text"], "Am I free tomorrow afternoon?");
    let ours = &sent["message"]["metadata"]["urn:agent-mesh:ext:task:v1"];
    assert_eq!(ours["skillId"], "check_availability");
    assert_eq!(ours["sessionId"], record["session_id"]);
    let kept = record["a2a_tasks"].as_object().unwrap().values().next().unwrap();
    assert_eq!(kept["message"]["messageId"], sent["message"]["messageId"]);
    assert_eq!(kept["skill"], "check_availability");
}

#[actix::test]
async fn line_57_streaming_and_polling_return_the_same_artifacts() {
    let (_mesh, desk) = desk().await;
    let weather = weather(
        r#"{ "capabilities": { "streaming": true } }"#,
        ForeignBehavior::Streams(&["clear, ", "22 C"], None),
    )
    .await;
    let mut shapes = Vec::new();
    for mode in ["streaming", "polling"] {
        let (output, record, _) = coordinated(
            &desk,
            "Is the weather good for an outdoor meeting?",
            terms(&[&weather], json!({ "mode": mode })),
        )
        .await;
        // What comes at once needs no second look.
        let used_mode = if mode == "polling" { "sync" } else { mode };
        assert_eq!(used(&output, "WeatherBot")["mode"], used_mode);
        shapes.push(record["remote_artifacts"].as_object().unwrap().values().next().unwrap().clone());
        if mode == "streaming" {
            let events = record["stream_events"].as_object().unwrap().values().next().unwrap().clone();
            assert!(events.as_array().unwrap().len() >= 4, "{events:#}");
        }
    }
    assert_eq!(shapes[0], shapes[1]);
    assert_eq!(shapes[0][0]["parts"][0]["text"], "clear, 22 C");
}

#[actix::test]
async fn line_58_a_question_of_an_agent_goes_to_the_user_and_no_answer_is_invented() {
    let (_mesh, desk) = desk().await;
    let (calendar, weather) = (
        calendar("{}", ForeignBehavior::Asks("Which date should I check?")).await,
        weather("{}", ForeignBehavior::Answers("clear")).await,
    );
    let id = desk.send(asked(BOTH, terms(&[&calendar, &weather], json!({})))).await;
    let task = desk.task_in(&id, &["input_required"]).await;
    let expected = "Calendar Agent asks: Which date should I check?";
    assert_eq!(message(&task), expected);
    let output = data(&task, "final_output");
    assert_eq!(output["status"], "input_required");
    assert_eq!(output["pending_user_questions"], json!(["Which date should I check?"]));
    let asking = used(&output, "Calendar Agent");
    assert_eq!((&asking["status"], &asking["mode"]), (&json!("input-required"), &json!("sync")), "{asking}");
    assert_eq!(output["artifact_summary"], json!({ "WeatherBot": "clear" }));
    assert_eq!(calendar.received("SendMessage").len(), 1);

    let answer = json!({ "text": "2026-11-22" });
    assert_eq!(desk.call_on_task(Method::POST, &id, "/answer", Some(&answer)).await.status, 200);
    let task = desk.task_in(&id, &["completed", "failed"]).await;
    let output = data(&task, "final_output");
    assert_eq!(output["status"], "ok", "{output:#}");
    assert_eq!(output["artifact_summary"]["Calendar Agent"], "so it is 2026-11-22");
    let follow_up = calendar.received("SendMessage").remove(1).params;
    assert_eq!(follow_up["message"]["taskId"], used(&output, "Calendar Agent")["task_id"]);
    assert_eq!(follow_up["message"]["taskId"], asking["task_id"], "it is that of the foreign agent");
    assert_eq!(weather.received("SendMessage").len(), 1, "what was done is not asked again");
}

#[actix::test]
async fn line_59_a_malformed_card_is_rejected_before_anything_is_sent() {
    let (_mesh, desk) = desk().await;
    let odd = calendar(r#"{ "skills": [], "version": "" }"#, ForeignBehavior::Answers("free")).await;
    let (output, record, task) = coordinated(&desk, BOTH, terms(&[&odd], json!({}))).await;
    assert_eq!((output["status"].as_str(), state(&task).as_str()), (Some("no_agents_available"), "failed"));
    let why = output["errors"][0].as_str().unwrap();
    assert!(why.contains("version is empty") && why.contains("skills is empty"), "{output:#}");
    assert!(
        record["agent_cards"].get("Calendar Agent").is_some() && record["validated_agent_cards"] == json!({})
    );
    assert_eq!(odd.calls(), 0);
    let away = json!({ "cards": ["http://127.0.0.1:9/card.json"], "hosts": [] });
    let (output, _, task) = coordinated(&desk, BOTH, away).await;
    assert_eq!(output["status"], "no_agents_available");
    let note = data(&task, "session")["notes"][0].as_str().unwrap().to_owned();
    let expected = "the card of http://127.0.0.1:9/card.json is rejected: ";
    assert!(note.starts_with(expected) && note.len() > expected.len(), "{note}");
}

#[actix::test]
async fn a_mesh_without_skills_is_named_as_the_reason_that_no_agent_is_asked() {
    let mesh = Process::up("agents: [{ agent: desk-01, open: true, brain: { echo: {} } }]").await;
    let (output, record, task) = coordinated(&mesh.agent("desk-01"), BOTH, json!(null)).await;
    let why = "no agent of the mesh names a skill; the registry has told of 0 other agents";
    assert_eq!((&output["status"], &record["errors"][0]), (&json!("no_agents_available"), &json!(why)));
    assert_eq!(data(&task, "session")["notes"][0], why, "{task:#}");
}

#[actix::test]
async fn line_60_without_a_matching_skill_no_agent_is_asked() {
    let (_mesh, desk) = desk().await;
    let weather = weather("{}", ForeignBehavior::Answers("clear")).await;
    let (output, record, _) = coordinated(&desk, "Buy a house for me", terms(&[&weather], json!({}))).await;
    assert_eq!(output["status"], "no_matching_skill", "{output:#}");
    assert!(output["answer"].as_str().unwrap().contains("No suitable agent"));
    assert_eq!(record["candidate_skills"], json!([]));
    assert_eq!(weather.calls(), 0);
    let blank = desk.ask(asked("   ", terms(&[&weather], json!({})))).await;
    assert_eq!((state(&blank).as_str(), message(&blank).as_str()), ("failed", "the request is blank"));
    let output = data(&blank, "final_output");
    assert_eq!(output["status"], "failed", "{output:#}");
    assert!(output["errors"][0].as_str().unwrap().contains("the request is blank"), "{output:#}");
    let refused = refused(&desk, asked(BOTH, json!({ "mode": "by pigeon" }))).await;
    assert!(refused.contains("by pigeon"), "{refused}");
}

#[actix::test]
async fn line_61_an_agent_without_its_credential_is_not_called_and_the_rest_continues() {
    let (_mesh, desk) = desk().await;
    let (calendar, weather) = (
        calendar("{}", ForeignBehavior::Answers("free")).await,
        weather(GUARDED, ForeignBehavior::Answers("clear")).await,
    );
    let (output, record, _) = coordinated(&desk, BOTH, terms(&[&calendar, &weather], json!({}))).await;
    assert_eq!(output["status"], "partial", "{output:#}");
    assert_eq!(used(&output, "WeatherBot")["status"], "auth_failed");
    assert!(output["errors"][0].as_str().unwrap().contains("no credential for key"), "{output:#}");
    assert_eq!(
        record["credential_status"],
        json!({ "Calendar Agent": "not_required", "WeatherBot": "missing" })
    );
    assert_eq!(weather.calls(), 0);
    let (output, ..) =
        coordinated(&desk, "Is the weather good for an outdoor meeting?", terms(&[&weather], json!({})))
            .await;
    assert_eq!(output["status"], "auth_failed");
}

#[actix::test]
async fn lines_62_and_66_a_part_that_fails_is_named_with_its_task_and_marks_the_answer_as_partial() {
    let (_mesh, desk) = desk().await;
    let (calendar, weather) = (
        calendar("{}", ForeignBehavior::Answers("free from 13:00")).await,
        weather("{}", ForeignBehavior::Fails("no satellite in sight")).await,
    );
    let (output, _, task) = coordinated(&desk, BOTH, terms(&[&calendar, &weather], json!({}))).await;
    assert_eq!((output["status"].as_str(), state(&task).as_str()), (Some("partial"), "completed"));
    let id = used(&output, "WeatherBot")["task_id"].as_str().unwrap().to_owned();
    let error = output["errors"][0].as_str().unwrap();
    assert!(
        error.contains(&id) && error.contains("get_forecast") && error.contains("no satellite in sight"),
        "{error}"
    );
    let answer = output["answer"].as_str().unwrap();
    assert!(answer.contains("free from 13:00") && answer.contains("only a part"), "{answer}");
    assert!(output["artifact_summary"].get("WeatherBot").is_none());
    let (output, _, task) =
        coordinated(&desk, BOTH, terms(&[&calendar, &weather], json!({ "allOrNothing": true }))).await;
    assert_eq!((output["status"].as_str(), state(&task).as_str()), (Some("failed"), "failed"));
}

#[actix::test]
async fn line_63_polling_has_a_limit() {
    let (_mesh, desk) = desk().await;
    let weather = weather("{}", ForeignBehavior::Never).await;
    let bounds = json!({ "bounds": { "polls": 3, "pollMs": 5 } });
    let (output, record, _) =
        coordinated(&desk, "Is the weather good for an outdoor meeting?", terms(&[&weather], bounds)).await;
    assert_eq!(used(&output, "WeatherBot")["status"], "timeout");
    assert_eq!(output["status"], "failed");
    assert_eq!(record["poll_attempts"].as_object().unwrap().values().next(), Some(&json!(3)));
    assert_eq!(weather.received("GetTask").len(), 3);
    eventually("its task to be given up over there", async || {
        weather.received("CancelTask").first().cloned()
    })
    .await;
}

#[actix::test]
async fn line_64_a_mode_that_an_agent_lacks_prevents_the_task() {
    let (_mesh, desk) = desk().await;
    let weather = weather("{}", ForeignBehavior::Answers("clear")).await;
    for (more, why) in [
        (json!({ "acceptedModes": ["image/png"] }), "image/png is wanted"),
        (json!({ "mode": "streaming" }), "capabilities.streaming"),
        (json!({ "mode": "webhook" }), "capabilities.pushNotifications"),
    ] {
        let (output, ..) =
            coordinated(&desk, "Is the weather good for an outdoor meeting?", terms(&[&weather], more)).await;
        assert_eq!(output["status"], "unsupported", "{output:#}");
        assert!(output["errors"][0].as_str().unwrap().contains(why), "{output:#}");
    }
    assert_eq!(weather.calls(), 0);
}

#[actix::test]
async fn line_65_malformed_artifacts_and_answers_are_refused_and_not_aggregated() {
    let (_mesh, desk) = desk().await;
    let calendar = calendar("{}", ForeignBehavior::Answers("free")).await;
    let too_long = json!([{ "artifactId": "a", "parts": [{ "text": "x".repeat(5_001) }] }]);
    let bytes = json!([{ "artifactId": "a", "parts": [{ "raw": "AAAA" }] }]);
    for (play, part) in [
        (ForeignBehavior::Makes(too_long), "5001 characters"),
        (ForeignBehavior::Makes(bytes), "bytes are not taken"),
        (ForeignBehavior::Makes(json!([])), "nothing in it"),
        (
            ForeignBehavior::Makes(json!([{ "artifactId": "a", "parts": [{ "text": "x", "raw": "AA" }] }])),
            "only one of",
        ),
        (ForeignBehavior::Returns(json!({ "nonsense": true })), "needs one of"),
    ] {
        let weather = weather("{}", play.clone()).await;
        let (output, ..) = coordinated(&desk, BOTH, terms(&[&calendar, &weather], json!({}))).await;
        assert_eq!(used(&output, "WeatherBot")["status"], "malformed", "{play:?}: {output:#}");
        assert_eq!(output["status"], "partial");
        assert!(output["errors"][0].as_str().unwrap().contains(part), "{output:#}");
        assert_eq!(output["artifact_summary"], json!({ "Calendar Agent": "free" }));
    }
}

#[actix::test]
async fn line_67_the_audit_log_has_every_step_and_no_secret() {
    let weather = weather(GUARDED, ForeignBehavior::Fails("I know your s3cret-w0rd")).await;
    let host = weather.url.trim_start_matches("http://").to_owned();
    let mesh = Process::up(&format!(
        "
mesh: {{ outside: {{ allow: [127.0.0.0/8], credentials: {{ '{host}': {{ key: s3cret-w0rd }} }} }} }}
agents: [{{ agent: desk-01, skills: [desk], brain: {{ echo: {{}} }} }}]
"
    ))
    .await;
    let (output, record, task) = coordinated(
        &mesh.agent("desk-01"),
        "Is the weather good for an outdoor meeting?",
        terms(&[&weather], json!({})),
    )
    .await;
    assert_eq!(output["status"], "failed", "{output:#}");
    assert_eq!(record["credential_status"], json!({ "WeatherBot": "available" }));
    let steps: Vec<_> =
        record["audit_log"].as_array().unwrap().iter().map(|audit| audit["step"].as_str().unwrap()).collect();
    for step in [
        "preprocess_request",
        "discover_agent_cards",
        "plan_remote_delegation",
        "build_a2a_tasks",
        "handle_task_failure",
        "finalize_response",
    ] {
        assert!(steps.contains(&step), "{step}: {steps:?}");
    }
    assert!(!task.to_string().contains("s3cret"), "{task:#}");
    assert!(!mesh.log().contains("s3cret"));
    assert!(output["errors"][0].as_str().unwrap().contains("I know your"));
}

#[actix::test]
async fn peers_of_the_mesh_are_found_by_the_registry() {
    let mesh = Process::up_beside(
        "
mesh: { outside: { allow: [127.0.0.0/8] } }
agents:
  - { agent: desk-01, skills: [desk], brain: { echo: {} } }
  - agent: calendar-01
    skills: [{ id: check-availability, description: Says when you are free, tags: [calendar, afternoon] }]
    brain: { scripted: free.yaml }
  - agent: weather-01
    skills: [{ id: get-forecast, description: The weather outdoors, tags: [weather, forecast] }]
    brain: { scripted: fail.yaml }
",
        &[
            (
                "free.yaml",
                "turns: [{ say: [{ type: artifact, name: slots, text: from 13:00 }], end: { done: free } }]",
            ),
            ("fail.yaml", "turns: [{ end: { failed: no satellite } }]"),
        ],
    )
    .await;
    let desk = mesh.agent("desk-01");
    let (output, record, _) = coordinated(&desk, BOTH, json!(null)).await;
    assert_eq!(output["status"], "partial", "{output:#}");
    assert_eq!(record["discovery_mode"], "registry");
    for used in output["agents_used"].as_array().unwrap() {
        assert!(used["task_id"].as_str().is_some_and(|task| task.starts_with("sub-")), "{used}");
    }
    assert_eq!(output["artifact_summary"], json!({ "calendar-01": "from 13:00" }));
    assert!(output["errors"][0].as_str().unwrap().contains("no satellite"), "{output:#}");

    let (code, said, error) = mesh.as_person(&["ask", "--plan", BOTH]).await;
    assert_eq!(code, 8, "{error}");
    assert!(
        error.contains("answered in part: weather-01 for") && error.contains("is missing: failed"),
        "{error}"
    );
    assert!(
        said.contains("from 13:00") && said.contains("only a part") && said.contains("check-availability"),
        "{said}"
    );
}

#[actix::test]
async fn hosts_serve_their_well_known_cards_and_one_command_is_enough() {
    let (mesh_process, _) = desk().await;
    let weather = weather("{}", ForeignBehavior::Answers("clear, 22 C")).await;
    let text = "Is the weather good for an outdoor meeting?";
    let args = ["--json", "ask", "--plan", "--host", &weather.url, text];
    let (code, said, error) = mesh_process.as_person(&args).await;
    assert_eq!(code, 0, "{error}");
    let output: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (output["status"].as_str(), output["artifact_summary"]["WeatherBot"].as_str()),
        (Some("ok"), Some("clear, 22 C"))
    );
    assert_eq!(artifact(&json!({}), "none"), None);
}

/// A process that is ended with the test.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn the_commands_of_the_page_of_foreign_agents_run_as_shown() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let example = root.join("deploy/examples/foreign-team");
    let agents = Command::new("python3").arg(example.join("agents.py")).stdout(Stdio::piped()).spawn();
    let mut agents = Child(agents.unwrap());
    let mut ready = String::new();
    BufReader::new(agents.0.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    let dir = directory();
    let mesh = up(dir.path(), &[&example.join("team.yaml")]).await;
    let page = include_str!("../../docs/foreign-agents.md");
    let commands: Vec<_> = blocks(page, "sh").into_iter().flat_map(str::lines).collect();
    let person = mesh.person();
    let person = person.each_ref().map(|(name, value)| (*name, value.as_str()));
    let outputs: Vec<_> = commands.iter().map(|command| success(root, command, &person)).collect();
    assert_eq!(outputs.len(), 2, "{commands:?}");
    for line in ["Calendar Agent: You are free from 13:00 to 17:00.", "WeatherBot: Clear, 22 C."] {
        assert!(page.contains(line));
        assert!(outputs.iter().all(|output| output.contains(line)), "{line}: {outputs:#?}");
    }
    assert!(outputs[1].contains("[answer 1] aggregate: Calendar Agent: You are free"), "{outputs:#?}");
    assert!(!outputs[1].contains("delegation_plan"), "the record is not shown: {outputs:#?}");
    // The same host with a model, which finds what words don't.
    let odd = "mesh convene deploy/examples/foreign-team/meeting.yaml 'Could I meet Ana on Sunday, and do without an umbrella?'";
    assert!(page.contains(odd));
    let by_words = shell(root, odd, &person);
    assert!(!by_words.status.success(), "{by_words:?}");
    let answers = include_str!("../providers/answers/foreign-team.md");
    let team = example.join("models.yaml");
    play_both(answers, &example.join("models.cassette.jsonl"), &[&team.to_string_lossy()], async |mesh| {
        let person = mesh.person();
        let person = person.each_ref().map(|(name, value)| (*name, value.as_str()));
        let output = success(root, odd, &person);
        for part in
            ["2 parts, matched by written-answers", "Calendar Agent: You are free", "WeatherBot: Clear"]
        {
            assert!(output.contains(part), "{part}: {output}");
        }
    })
    .await;
}

#[actix::test]
async fn a_second_request_of_a_context_goes_on_in_those_of_the_foreign_agents() {
    let (_mesh, desk) = desk().await;
    let weather = weather("{}", ForeignBehavior::Answers("sunny")).await;
    let discovery = terms(&[&weather], json!({}));
    let ask = async |context: &str, text: &str| {
        let input = json!({ "preset": "foreign", "discovery": discovery });
        ask_in(&desk, context, text, "session", input).await
    };
    ask("trip", "Is the weather good for a picnic?").await;
    let second = ask("trip", "And is the weather good on Sunday?").await;
    ask("other", "Is the weather good for a walk?").await;
    assert_eq!(contexts(&weather), [Value::Null, json!("context-foreign-1"), Value::Null]);
    let used = used(&data(&second, "final_output"), "WeatherBot");
    assert_eq!(used["mode"], "sync", "its tasks are quick: {used}");
}
