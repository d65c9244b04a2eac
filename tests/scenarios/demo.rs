//! `mesh up` without a file: the demo team works on the text of the request.

use crate::harness::{Process, artifact, directory, mesh as program, message, state};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const GARDEN: &str =
    "A REST API for a community garden: plots (number:int, sunny:bool) and gardeners (name, email)";
const CINEMA: &str =
    "Cinema: movies (title, year:int), screenings (room, starts_on:date) and tickets (seat, price:number)";

/// The code artifact of a finished task.
fn code(task: &Value) -> String {
    assert_eq!(state(task), "completed", "{task:#}");
    artifact(task, "src/main.rs").unwrap_or_else(|| panic!("no src/main.rs in {task:#}"))
}

#[tokio::test]
async fn the_first_curl_of_the_readme_returns_the_finished_task() {
    let mesh = Process::demo().await;
    let planner = mesh.agent("planner-01");
    let request = json!({ "taskId": "t-1", "description": GARDEN, "capability": "implement-api" });
    let code = code(&planner.ask(request).await);
    for part in ["struct PlotsRecord", "struct GardenersRecord", "sunny: bool", "email: String", "/plots"] {
        assert!(code.contains(part), "{part} in\n{code}");
    }
    let award = planner.award("t-1").await;
    let candidates = award["rounds"][0]["candidates"].as_array().unwrap();
    let names: BTreeSet<_> =
        candidates.iter().map(|candidate| candidate["agent"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["builder-01", "builder-02"]));
    assert_eq!(candidates[0]["agent"], "builder-02", "dearer, but faster: {award:#}");
    let (code, explained, errors) = program(&["award", "explain", "t-1"], &[("MESH_URL", &mesh.url)]);
    assert_eq!(code, 0, "{errors}");
    for part in ["builder-01", "builder-02", "weighted", "completed", "outbid"] {
        assert!(explained.contains(part), "{part} in\n{explained}");
    }
    mesh.signal_where("help.needed", |signal| signal["taskId"] == "t-1").await;
}

#[tokio::test]
async fn an_open_request_is_planned_awarded_reviewed_and_returned() {
    let mesh = Process::demo().await;
    for (agent, text, resources, foreign) in [
        ("planner-01", GARDEN, ["PlotsRecord", "GardenersRecord"], "MoviesRecord"),
        ("orchestrator-01", CINEMA, ["MoviesRecord", "ScreeningsRecord"], "PlotsRecord"),
    ] {
        let task = mesh.agent(agent).ask(json!({ "description": text })).await;
        let code = code(&task);
        assert!(resources.iter().all(|resource| code.contains(resource)), "{agent}: {code}");
        assert!(!code.contains(foreign), "nothing canned: {code}");
        let review = artifact(&task, "review.md").unwrap_or_default();
        assert!(review.contains("reviewer-01") && review.contains("| fixed |"), "{review}");
        assert!(code.contains("fn check(&self)") && code.contains("#[test]"), "{code}");
    }
    let claimed = mesh.signals("task.claimed").await;
    let is_builder =
        |signal: &Value| signal["subject"].as_str().is_some_and(|who| who.starts_with("builder-"));
    assert!(claimed.iter().any(is_builder), "{claimed:#?}");
}

#[tokio::test]
async fn the_reviewer_finds_every_fault_and_invents_none() {
    let mesh = Process::demo().await;
    let bad = "/// Doc.\npub fn key() -> String {\n    let password = \"hunter2hunter2\";\n    std::fs::read_to_string(password).unwrap()\n}\n";
    let good =
        "/// The sum of two numbers.\npub fn sum(a: u32, b: u32) -> u32 {\n    a.saturating_add(b)\n}\n";
    let review = async |code: &str| {
        let request = json!({ "description": format!("Review this:\n```rust\n{code}```"), "capability": "code-review" });
        let task = mesh.agent("planner-01").ask(request).await;
        assert_eq!(state(&task), "completed", "{task:#}");
        serde_json::to_string(&task["artifacts"]).unwrap()
    };
    let found = review(bad).await;
    assert!(found.contains("unwrap") && found.contains("password"), "{found}");
    let fine = review(good).await;
    assert!(!fine.contains("unwrap") && !fine.contains("password"), "{fine}");
}

#[tokio::test]
async fn a_request_without_resources_gets_a_question_and_an_invalid_type_gets_the_valid_ones() {
    let mesh = Process::demo().await;
    for (id, agent, capability) in [
        ("t-1", "planner-01", None),
        ("t-2", "planner-01", Some("implement-api")),
        ("t-3", "orchestrator-01", None),
    ] {
        let agent = mesh.agent(agent);
        let mut request = json!({ "taskId": id, "description": "hm" });
        if let Some(name) = capability {
            request["capability"] = json!(name);
        }
        agent.send(request).await;
        let asked = agent.task_in(id, &["input_required"]).await;
        assert!(message(&asked).contains("A library: books (title"), "{}", message(&asked));
        let (exit, _, errors) = program(&["tasks", "answer", id, GARDEN, "--at", &agent.url], &[]);
        assert_eq!(exit, 0, "{errors}");
        let task = agent.task_in(id, &["completed", "failed"]).await;
        assert!(code(&task).contains("struct PlotsRecord"), "{task:#}");
    }
    let wrong = json!({ "description": "A shop: items (price:money)" });
    let task = mesh.agent("planner-01").ask(wrong).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("text, int, float, number, bool, date"), "{}", message(&task));
}

#[tokio::test]
async fn ask_prints_the_artifacts_of_any_agent() {
    let mesh = Process::demo().await;
    let env = [("MESH_URL", mesh.url.as_str())];
    let url = mesh.agent("reviewer-01").url;
    let (code, output, errors) =
        program(&["ask", CINEMA, "--at", &url, "--capability", "implement-api", "--task-id", "t-1"], &env);
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains("src/main.rs") && output.contains("ScreeningsRecord"), "{output}");
    let out = directory();
    let (code, _, errors) = program(&["ask", GARDEN, "--out", &out.path().to_string_lossy()], &env);
    assert_eq!(code, 0, "{errors}");
    for (file, part) in
        [("Cargo.toml", "serde_json"), ("src/main.rs", "GardenersRecord"), ("src/server.rs", "TcpListener")]
    {
        let written = std::fs::read_to_string(out.path().join(file)).unwrap();
        assert!(written.contains(part), "{written}");
    }
    let (code, output, errors) = program(&["tasks", "show", "t-1"], &env);
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains("completed"), "{output}");
    let (code, output, errors) = program(&["ls"], &env);
    assert_eq!(code, 0, "{errors}");
    for agent in ["planner-01", "builder-01", "builder-02", "reviewer-01", "orchestrator-01"] {
        assert!(output.contains(agent), "{output}");
    }
}
