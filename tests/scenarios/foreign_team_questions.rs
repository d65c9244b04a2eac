//! A team while one of its agents asks a question: the session waits for the person and shows its partial answer.

use crate::harness::{Agent, Process, message};
use reqwest::Method;
use serde_json::{Value, json};

const BOTH: &str = "Am I free tomorrow afternoon, and is the weather good for an outdoor meeting?";

const CALENDAR: &str = "
turns:
  - { when: { turn: 1 }, say: [{ type: question, id: q, text: Which calendar? }] }
  - { say: [{ type: artifact, name: slots, text: from 13:00 }], end: { done: free } }
";

fn team(weather: &str) -> String {
    format!(
        "
mesh: {{ outside: {{ allow: [127.0.0.0/8] }} }}
agents:
  - {{ agent: desk-01, skills: [desk], brain: {{ echo: {{}} }} }}
  - agent: calendar-01
    skills: [{{ id: check-availability, description: Says when you are free, tags: [calendar, afternoon] }}]
    brain: {{ scripted: calendar.yaml }}
  - agent: weather-01
    skills: [{{ id: get-forecast, description: The weather outdoors, tags: [weather, forecast] }}]
    brain: {{ {weather} }}
"
    )
}

fn data(task: &Value, name: &str) -> Value {
    let artifacts = task["artifacts"].as_array().unwrap_or_else(|| panic!("no artifacts: {task:#}"));
    let found = artifacts.iter().find(|artifact| artifact["artifactId"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {task:#}"))["parts"][0]["data"].clone()
}

fn used(output: &Value, agent: &str) -> Value {
    let all = output["agents_used"].as_array().unwrap();
    all.iter().find(|used| used["name"] == agent).unwrap_or_else(|| panic!("{agent}: {output:#}")).clone()
}

async fn answer(desk: &Agent, task: &str, text: &str) -> Value {
    let answer = desk.call_on_task(Method::POST, task, "/answer", Some(&json!({ "text": text }))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    desk.task_in(task, &["completed", "failed"]).await
}

/// Waits until the partial output shows `agent` in this state; returns the task.
async fn once(desk: &Agent, task: &str, agent: &str, status: &str) -> Value {
    crate::harness::eventually("its output to say so", async || {
        let task = desk.task_in(task, &["input_required"]).await;
        (used(&data(&task, "final_output"), agent)["status"] == status).then_some(task)
    })
    .await
}

#[actix::test]
async fn a_question_of_a_peer_is_shown_with_the_partial_output() {
    let clear = "turns: [{ say: [{ type: artifact, name: sky, text: clear }], end: { done: clear } }]";
    let files = [("calendar.yaml", CALENDAR), ("clear.yaml", clear)];
    let mesh_process = Process::up_beside(&team("scripted: clear.yaml"), &files).await;
    let desk = mesh_process.agent("desk-01");
    let id = desk
        .send(json!({ "description": BOTH, "capability": "session", "input": { "preset": "foreign" } }))
        .await;
    let task = once(&desk, &id, "weather-01", "completed").await;
    assert_eq!(message(&task), "task-calendar-01-001 in stage ask asks: Which calendar?");
    let output = data(&task, "final_output");
    assert_eq!(output["status"], "input_required", "{output:#}");
    assert_eq!(output["pending_user_questions"], json!(["Which calendar?"]));
    assert_eq!(output["artifact_summary"], json!({ "weather-01": "clear" }));
    let asking = used(&output, "calendar-01");
    assert_eq!(
        (&asking["status"], &asking["mode"]),
        (&json!("input-required"), &json!("mesh")),
        "{output:#}"
    );
    assert!(asking["task_id"].as_str().unwrap().starts_with("sub-"), "{asking}");
    let record = data(&task, "delegation_record");
    assert_eq!(record["final_output"], output);
    assert_eq!(record["pending_user_questions"], json!(["Which calendar?"]));

    let task = answer(&desk, &id, "the blue one").await;
    let output = data(&task, "final_output");
    assert_eq!(output["status"], "ok", "{output:#}");
    assert_eq!(output["pending_user_questions"], json!([]));
    assert_eq!(output["errors"], json!([]));
    assert_eq!(output["artifact_summary"], json!({ "calendar-01": "from 13:00", "weather-01": "clear" }));
    assert_eq!(used(&output, "calendar-01")["task_id"], asking["task_id"]);
}

#[actix::test]
async fn the_command_line_shows_the_question_and_the_partial_output() {
    let files = [("calendar.yaml", CALENDAR), ("fail.yaml", "turns: [{ end: { failed: no satellite } }]")];
    let mesh_process = Process::up_beside(&team("scripted: fail.yaml"), &files).await;
    let desk = &mesh_process.agents["desk-01"];
    let args = ["--json", "ask", "--plan", "--at", desk, "--task-id", "t-plan", BOTH];
    let (code, said, error) = mesh_process.as_person(&args).await;
    assert_eq!(code, 7, "{error}");
    assert!(error.contains("Which calendar?") && error.contains("mesh answer"), "{error}");
    let output: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(output["pending_user_questions"], json!(["Which calendar?"]), "{output:#}");

    let task = answer(&mesh_process.agent("desk-01"), "t-plan", "the blue one").await;
    let output = data(&task, "final_output");
    assert_eq!(output["status"], "partial", "{output:#}");
    assert_eq!(output["errors"].as_array().unwrap().len(), 1, "a failure counts once: {output:#}");
}
