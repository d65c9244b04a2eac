//! What the owner of a task says while it is worked on is read before the task ends, and a later task is told what an earlier one of
//! its context has answered.

use super::llm::{model, team};
use crate::harness::{
    Agent, Process, artifact, call, directory, eventually, file, message,
    model_stub::{ModelStub, StubAnswer, says},
    state,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Sends a message of an A2A client; returns the id of its task.
async fn say(agent: &Agent, text: &str, more: Value) -> String {
    let said = json!({ "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": [{ "text": text }] });
    let message = crate::harness::with(said, more);
    let body = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let url = format!("{}/a2a/v1/message:send?A2A-Version=1.0", agent.url);
    let answer = call(Method::POST, &url, Some(&body)).await;
    answer.body["task"]["id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

async fn begin(agent: &Agent) -> String {
    say(agent, "build it", json!({})).await
}

async fn say_to(agent: &Agent, task: &str, text: &str) {
    say(agent, text, json!({ "taskId": task })).await;
}

/// A model that answers `first` until it has read something about blue.
fn until_blue(first: impl Fn() -> StubAnswer + Send + Sync + 'static) -> ModelStub {
    ModelStub::start(move |request| match request.user.iter().any(|text| text.contains("in blue")) {
        true => says("built in blue"),
        false => first(),
    })
}

/// Checks that a task has ended with what the model said after it had read the message, and that it read the request once.
async fn is_built_in_blue(agent: &Agent, task: &str, stub: &ModelStub) {
    let task = agent.task_in(task, &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(artifact(&task, "answer").as_deref(), Some("built in blue"), "{task:#}");
    let last = stub.requests().pop().unwrap();
    let about = |text: &str| last.user.iter().filter(|said| said.contains(text)).count();
    assert_eq!((about("build it"), about("in blue")), (1, 1), "{:?}", last.user);
}

#[tokio::test]
async fn what_is_said_while_a_model_pauses_is_in_the_next_request() {
    let was_asked = AtomicBool::new(false);
    let stub = until_blue(move || match was_asked.swap(true, Ordering::SeqCst) {
        false => StubAnswer::Refuses(
            429,
            vec![("retry-after", "6".to_owned())],
            ["rate_limit_error", "rate_limit_exceeded", "slow down"],
        ),
        true => says("built"),
    });
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let agent = node.agent("thinker-01");
    let task = begin(&agent).await;
    eventually("a pause", async || message(&agent.task(&task).await).contains("slow down").then_some(()))
        .await;
    say_to(&agent, &task, "in blue").await;
    is_built_in_blue(&agent, &task, &stub).await;
    assert_eq!(stub.requests().len(), 2, "the request after the pause has the message");
}

#[tokio::test]
async fn what_is_said_while_a_model_answers_is_read_before_the_task_ends() {
    for format in ["openai", "anthropic"] {
        let stub = until_blue(|| StubAnswer::Slowly(Duration::from_millis(150), "built in red ".repeat(20)));
        let node = Process::up(&team(&model(&stub, format))).await;
        let agent = node.agent("thinker-01");
        let task = begin(&agent).await;
        eventually("the model answers", async || (stub.open() == 1).then_some(())).await;
        say_to(&agent, &task, "in blue").await;
        is_built_in_blue(&agent, &task, &stub).await;
        assert_eq!(stub.requests().len(), 2, "one more turn");
    }
}

#[tokio::test]
async fn what_is_said_before_a_kill_is_read_after_it() {
    let is_hung = AtomicBool::new(false);
    let stub = until_blue(move || match is_hung.swap(true, Ordering::SeqCst) {
        false => StubAnswer::Hangs,
        true => says("built"),
    });
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let agent = node.agent("thinker-01");
    let task = begin(&agent).await;
    eventually("the model hangs", async || (stub.open() == 1).then_some(())).await;
    say_to(&agent, &task, "in blue").await;
    let node = node.restart().await;
    is_built_in_blue(&node.agent("thinker-01"), &task, &stub).await;
}

#[tokio::test]
async fn what_is_said_to_a_task_that_waits_for_a_place_is_read() {
    let is_hung = AtomicBool::new(false);
    let stub = until_blue(move || match is_hung.swap(true, Ordering::SeqCst) {
        false => StubAnswer::Hangs,
        true => says("built"),
    });
    let node =
        Process::up(&format!("{}    bid: {{ maxParallel: 1 }}\n", team(&model(&stub, "openai")))).await;
    let agent = node.agent("thinker-01");
    let first = begin(&agent).await;
    eventually("the model hangs", async || (stub.open() == 1).then_some(())).await;
    let second = begin(&agent).await;
    assert_eq!(state(&agent.task(&second).await), "submitted");
    say_to(&agent, &second, "in blue").await;
    call(Method::POST, &format!("{}/a2a/tasks/{first}/cancel", agent.url), Some(&json!({}))).await;
    is_built_in_blue(&agent, &second, &stub).await;
}

#[tokio::test]
async fn a_brain_of_any_kind_has_a_turn_for_what_is_said_while_it_works() {
    let script = "
turns:
  - { when: { turn: 1 }, holdMs: 10000, end: { done: built } }
  - { when: { messageId: blue }, end: { done: built in blue } }
";
    let team = "agents: [{ agent: solo-01, open: true, brain: { scripted: s.yaml } }]";
    let node = Process::up_beside(team, &[("s.yaml", script)]).await;
    let agent = node.agent("solo-01");
    let task = begin(&agent).await;
    say(&agent, "in blue", json!({ "messageId": "blue-1", "taskId": task })).await;
    let task = agent.task_in(&task, &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "built in blue"), "{task:#}");
}

#[tokio::test]
async fn a_model_is_told_all_that_it_has_answered_before_as_its_own_words() {
    let answer = format!("Use port 7411. {}", "And mind the gap. ".repeat(500));
    let said = answer.clone();
    let stub = ModelStub::start(move |_| says(&said));
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let agent = node.agent("thinker-01");
    let in_context = json!({ "contextId": "c-1" });
    let first = say(&agent, "which port?", in_context.clone()).await;
    let task = agent.task_in(&first, &["completed", "failed"]).await;
    assert_eq!(artifact(&task, "answer").as_deref().map(str::trim), Some(answer.trim()));
    assert_eq!(message(&task), "", "the answer is told once");
    let second = say(&agent, "and why?", in_context).await;
    agent.task_in(&second, &["completed", "failed"]).await;
    let request = stub.requests().pop().unwrap();
    let told = &request.body["messages"][2];
    assert_eq!(
        (&told["role"], told["content"].as_str().map(str::trim)),
        (&json!("assistant"), Some(answer.trim()))
    );
    assert!(request.user[1].starts_with("and why?"), "{:?}", request.user);
}

/// Writes two artifacts by turns, and what it is told of earlier tasks into a file.
const BRAIN: &str = r#"
import json, os, sys
turn = json.loads(sys.stdin.readline())
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "history"), "w") as history:
    json.dump(turn.get("history", []), history)
for line in [
    {"type": "artifact", "name": "answer", "text": "old"},
    {"type": "artifact", "name": "answer", "text": "eight "},
    {"type": "artifact", "name": "log", "text": "noise"},
    {"type": "artifact", "name": "answer", "text": "bits", "append": True},
    {"type": "done"},
]:
    print(json.dumps(line), flush=True)
"#;

#[tokio::test]
async fn history_has_the_artifact_that_was_written_last() {
    let dir = directory();
    let brain = file(dir.path(), "brain.py", BRAIN);
    let team = format!(
        "agents: [{{ agent: solo-01, open: true, brain: {{ exec: [python3, '{}'] }} }}]",
        brain.display()
    );
    let node = Process::up(&team).await;
    let agent = node.agent("solo-01");
    for text in ["how many?", "sure?"] {
        let task = say(&agent, text, json!({ "contextId": "c-1" })).await;
        let task = agent.task_in(&task, &["completed", "failed"]).await;
        assert_eq!(state(&task), "completed", "{task:#}");
    }
    let history = std::fs::read_to_string(dir.path().join("history")).unwrap();
    let history: Value = serde_json::from_str(&history).unwrap();
    assert_eq!(
        (&history[0]["description"], &history[0]["message"]),
        (&json!("how many?"), &json!("eight bits"))
    );
}
