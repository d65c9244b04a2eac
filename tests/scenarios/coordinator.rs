//! The delegation coordinator with real HTTP agents: the fifteen test ideas of seed 004, and peers of the mesh.

use crate::harness::{
    Agent, Process, artifact, call, eventually,
    foreign::{ForeignAgent, ForeignBehavior, skill},
    mesh, message, state,
};
use reqwest::Method;
use serde_json::{Value, json};

const BOTH: &str = "Am I free tomorrow afternoon, and is the weather good for an outdoor meeting?";
const GUARDED: &str = r#"{
    "securitySchemes": { "key": { "apiKeySecurityScheme": { "location": "header", "name": "x-key" } } },
    "securityRequirements": [{ "schemes": { "key": { "list": [] } } }]
}"#;

async fn calendar(more: &str, play: ForeignBehavior) -> ForeignAgent {
    let skill = skill(
        "check_availability",
        "Says when you are free",
        &["calendar", "availability"],
        &["Am I free on Friday afternoon?"],
    );
    ForeignAgent::start("Calendar Agent", skill, serde_json::from_str(more).unwrap(), play).await
}

async fn weather(more: &str, play: ForeignBehavior) -> ForeignAgent {
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

fn terms(cards: &[&ForeignAgent], more: Value) -> Value {
    let urls: Vec<_> = cards.iter().map(|foreign| foreign.url.clone()).collect();
    let bounds = json!({ "pollMs": 10, "polls": 20, "attempts": 2 });
    crate::harness::with(json!({ "cards": urls, "bounds": bounds }), more)
}

fn asked(text: &str, input: Value) -> Value {
    json!({ "description": text, "capability": "coordinate", "input": input })
}

fn data(task: &Value, name: &str) -> Value {
    let artifacts = task["artifacts"].as_array().unwrap_or_else(|| panic!("no artifacts: {task:#}"));
    let found = artifacts.iter().find(|artifact| artifact["artifactId"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {task:#}"))["parts"][0]["data"].clone()
}

/// The output, the record and the task of a finished request.
async fn coordinated(desk: &Agent, text: &str, input: Value) -> (Value, Value, Value) {
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
async fn two_agents_work_in_parallel_and_give_one_answer() {
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
    let polls = record["poll_attempts"].as_object().unwrap().values().next().unwrap().as_u64().unwrap();
    assert!((1..=20).contains(&polls), "within its limit: {polls}");
}

#[actix::test]
async fn each_part_is_sent_as_a_complete_a2a_request() {
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
    assert_eq!(sent["message"]["parts"][0]["text"], "Am I free tomorrow afternoon");
    let ours = &sent["message"]["metadata"]["urn:agent-mesh:ext:task:v1"];
    assert_eq!(ours["skillId"], "check_availability");
    assert_eq!(ours["sessionId"], record["session_id"]);
    let kept = record["a2a_tasks"].as_object().unwrap().values().next().unwrap();
    assert_eq!(kept["message"]["messageId"], sent["message"]["messageId"]);
    assert_eq!(kept["skill"], "check_availability");
}

#[actix::test]
async fn streaming_and_polling_return_the_same_artifacts() {
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
        assert_eq!(used(&output, "WeatherBot")["mode"], mode);
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
async fn a_question_of_an_agent_goes_to_the_user_and_no_answer_is_invented() {
    let (_mesh, desk) = desk().await;
    let (calendar, weather) = (
        calendar("{}", ForeignBehavior::Asks("Which date should I check?")).await,
        weather("{}", ForeignBehavior::Answers("clear")).await,
    );
    let id = desk.send(asked(BOTH, terms(&[&calendar, &weather], json!({})))).await;
    let task = desk.task_in(&id, &["input_required"]).await;
    assert_eq!(message(&task), "Which date should I check?");
    let output = data(&task, "final_output");
    assert_eq!(output["status"], "input_required");
    assert_eq!(output["pending_user_questions"], json!(["Which date should I check?"]));
    assert_eq!(used(&output, "Calendar Agent")["status"], "input-required");
    assert_eq!(output["artifact_summary"], json!({ "WeatherBot": "clear" }));
    assert_eq!(calendar.received("SendMessage").len(), 1);

    let answer = json!({ "text": "2026-11-22" });
    assert_eq!(
        call(Method::POST, &format!("{}/a2a/tasks/{id}/answer", desk.url), Some(&answer)).await.status,
        200
    );
    let task = desk.task_in(&id, &["completed", "failed"]).await;
    let output = data(&task, "final_output");
    assert_eq!(output["status"], "ok", "{output:#}");
    assert_eq!(output["artifact_summary"]["Calendar Agent"], "so it is 2026-11-22");
    let follow_up = calendar.received("SendMessage").remove(1).params;
    assert_eq!(follow_up["message"]["taskId"], used(&output, "Calendar Agent")["task_id"]);
    assert_eq!(weather.received("SendMessage").len(), 1, "what was done is not asked again");
}

#[actix::test]
async fn a_malformed_card_is_rejected_before_anything_is_sent() {
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
    let (output, ..) = coordinated(&desk, BOTH, away).await;
    assert_eq!(output["status"], "no_agents_available");
}

#[actix::test]
async fn without_a_matching_skill_no_agent_is_asked() {
    let (_mesh, desk) = desk().await;
    let weather = weather("{}", ForeignBehavior::Answers("clear")).await;
    let (output, record, _) =
        coordinated(&desk, "Draft a poem about the weather", terms(&[&weather], json!({}))).await;
    assert_eq!(output["status"], "no_matching_skill", "{output:#}");
    assert!(output["answer"].as_str().unwrap().contains("No suitable agent"));
    assert_eq!(record["candidate_skills"][0]["is_match"], false);
    assert_eq!(weather.calls(), 0);
    let blank = desk.ask(asked("   ", terms(&[&weather], json!({})))).await;
    assert_eq!((state(&blank).as_str(), message(&blank).as_str()), ("failed", "the request is blank"));
    let odd = desk.ask(asked(BOTH, json!({ "mode": "by pigeon" }))).await;
    for (task, why) in [(&blank, "the request is blank"), (&odd, "by pigeon")] {
        let output = data(task, "final_output");
        assert_eq!(output["status"], "failed", "{task:#}");
        assert!(output["errors"][0].as_str().unwrap().contains(why), "{output:#}");
    }
}

#[actix::test]
async fn an_agent_without_its_credential_is_not_called_and_the_rest_continues() {
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
async fn a_part_that_fails_is_named_with_its_task_and_marks_the_answer_as_partial() {
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
async fn polling_has_a_limit() {
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
async fn a_mode_that_an_agent_lacks_prevents_the_task() {
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
async fn malformed_artifacts_and_answers_are_refused_and_not_aggregated() {
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
async fn the_audit_log_has_every_step_and_no_secret() {
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

    let (url, text) = (mesh.url.clone(), BOTH);
    let (code, said, error) = tokio::task::spawn_blocking(move || {
        crate::harness::mesh(&["--url", &url, "ask", "--plan", text], &[])
    })
    .await
    .unwrap();
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
    let (url, host) = (mesh_process.url.clone(), weather.url.clone());
    let run = move || {
        mesh(
            &[
                "--url",
                &url,
                "--json",
                "ask",
                "--plan",
                "--host",
                &host,
                "Is the weather good for an outdoor meeting?",
            ],
            &[],
        )
    };
    let (code, said, error) = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(code, 0, "{error}");
    let output: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (output["status"].as_str(), output["artifact_summary"]["WeatherBot"].as_str()),
        (Some("ok"), Some("clear, 22 C"))
    );
    assert_eq!(artifact(&json!({}), "none"), None);
}
