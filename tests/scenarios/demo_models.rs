//! `mesh up --demo models`: the demo team with models, live or from the cassette in the program. Its answers are written ones
//! (`tests/providers/answers`); this file serves them through the stub provider, and records the cassette from that:
//! `UPDATE_CASSETTE=1 cargo test -p agent-node --test scenarios demo_models`.

use crate::harness::{
    Process, artifact, directory, message,
    model_stub::{ModelStub, StubAnswer, StubRequest, calls, says},
    state, written_answers,
};
use serde_json::{Value, json};
use std::path::Path;

const TASK: &str = "A REST API for a greenhouse: plants (name, species) and sensors (kind, reading:float)";
const PLAN: &str = include_str!("../providers/answers/plan.md");
const DRAFT: &str = include_str!("../providers/answers/draft.rs");
const REVIEW: &str = include_str!("../providers/answers/review.md");
const FINAL: &str = include_str!("../providers/answers/final.rs");
const FIXES: &str = include_str!("../providers/answers/fixes.md");
const CASSETTE: &str = "agent-node/src/demo/models/cassette.jsonl";

/// No provider's key, whatever the environment of the test has.
const NO_KEYS: [&str; 4] = ["ANTHROPIC_API_KEY=", "OPENAI_API_KEY=", "GEMINI_API_KEY=", "MESH_MODEL="];

/// What the stand-in for a model says.
fn written(request: &StubRequest) -> StubAnswer {
    let result = format!("```rust\n{FINAL}```\n\n{FIXES}");
    let agent = request.system.split(['-', ' ']).nth(2).unwrap_or_default();
    let delegate = |to: &str, what: &str| calls(&[("delegate", json!({ "to": to, "description": what }))]);
    match (agent, request.results.len()) {
        ("planner", 0) => delegate("capability:implement-api", PLAN),
        ("orchestrator", 0) => delegate("capability:plan", TASK),
        ("builder", 0) => {
            let question = format!("What is wrong with this file?\n\n```rust\n{DRAFT}```");
            calls(&[("ask_help", json!({ "to": "capability:code-review", "question": question }))])
        }
        ("planner" | "orchestrator" | "builder", _) => says(&result),
        ("reviewer", _) => says(REVIEW),
        _ => panic!("no answer is written for {}", request.system),
    }
}

/// All of it; the first lines say what answers.
fn log(node: &Process) -> String {
    std::fs::read_to_string(node.data.join("log")).unwrap()
}

fn answer(task: &Value) -> String {
    assert_eq!(state(task), "completed", "{task:#}");
    artifact(task, "answer").unwrap_or_default()
}

/// The tasks that a person may give the team: to whom, what, for which capability. The builders get the plan, too: either may
/// win it.
fn tasks() -> Vec<(&'static str, &'static str, Option<&'static str>)> {
    let api = Some("implement-api");
    let to_builders =
        ["builder-01", "builder-02"].map(|builder| [(builder, TASK, api), (builder, PLAN, api)]);
    let mut tasks = to_builders.concat();
    tasks.extend([("planner-01", TASK, None), ("planner-01", TASK, api), ("orchestrator-01", TASK, None)]);
    tasks
}

async fn ask_all(node: &Process) {
    for (agent, description, capability) in tasks() {
        let mut task = json!({ "description": description });
        if let Some(capability) = capability {
            task["capability"] = json!(capability);
        }
        let answer = answer(&node.agent(agent).ask(task).await);
        assert!(answer.contains("struct Greenhouse") && answer.contains("The review"), "{agent}: {answer}");
    }
}

#[tokio::test]
async fn the_included_cassette_is_what_the_written_answers_give() {
    let stub = ModelStub::start(written);
    let dir = directory();
    let recorded = dir.path().join("demo.jsonl");
    let model = ["MESH_MODEL=written-answers".to_owned(), format!("MESH_MODEL_URL={}", stub.url)];
    let environment = model.each_ref().map(String::as_str);
    let more = ["--demo", "models", "--record", &recorded.to_string_lossy()];
    let node = Process::up_with(&environment, &more, None).await;
    ask_all(&node).await;
    assert!(log(&node).contains("asks written-answers, up to"));
    drop(node);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(CASSETTE);
    written_answers::check(&path, &std::fs::read_to_string(recorded).unwrap());
}

#[tokio::test]
async fn the_team_of_models_runs_without_a_key_and_says_that_no_model_answers() {
    let node = Process::up_with(&NO_KEYS, &["--demo", "models"], None).await;
    ask_all(&node).await;
    assert!(log(&node).contains("has no model: answers that people wrote are replayed"));
    let other = node.agent("planner-01").ask(json!({ "description": "A poem about plants" })).await;
    assert_eq!(state(&other), "failed", "{other:#}");
    let why = message(&other);
    assert!(
        why.contains("written answers, no model") && why.contains("now \"") && why.contains("poem"),
        "{why}"
    );
}
