//! `mesh up` without a file: a team that does real work on the text it is sent.

use crate::harness::{Process, artifact, mesh as program, message, state};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The names of all structs and functions in a Rust file; it must be one.
fn items(code: &str) -> BTreeSet<String> {
    let file = syn::parse_file(code).unwrap_or_else(|error| panic!("no Rust: {error}\n{code}"));
    let name = |item: &syn::Item| {
        if let syn::Item::Struct(item) = item {
            return Some(item.ident.to_string());
        }
        if let syn::Item::Fn(item) = item { Some(item.sig.ident.to_string()) } else { None }
    };
    file.items.iter().filter_map(name).collect()
}

fn handler(task: &Value) -> String {
    artifact(task, "handler.rs").unwrap_or_else(|| panic!("no handler.rs in {task:#}"))
}

const GARDEN: &str = "A REST API for a community garden: plots with number:int and sunny:bool, and gardeners with name and email";
const CINEMA: &str =
    "cinema: movies (title, year:int), screenings (room, startsAt:date) and tickets with seat and price";

#[tokio::test]
async fn the_first_curl_of_the_readme_is_answered_with_the_work_done() {
    let mesh = Process::demo().await;
    let planner = mesh.agent("planner-01");
    let request = json!({ "taskId": "t-1", "description": GARDEN, "capability": "implement-api" });
    let task = planner.ask(request).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let code = handler(&task);
    let items = items(&code);
    for resource in ["Plot", "Gardener"] {
        assert!(items.iter().any(|item| item.contains(resource)), "{resource} in {items:?}");
    }
    for word in ["sunny", "email", "/plots", "/gardeners"] {
        assert!(code.contains(word), "{word} in\n{code}");
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
async fn an_open_request_is_planned_given_away_reviewed_and_brought_back() {
    let mesh = Process::demo().await;
    for (agent, text, resources, foreign) in [
        ("planner-01", GARDEN, ["Plot", "Gardener"], "Movie"),
        ("orchestrator-01", CINEMA, ["Movie", "Screening"], "Plot"),
    ] {
        let task = mesh.agent(agent).ask(json!({ "description": text })).await;
        assert_eq!(state(&task), "completed", "{agent}: {task:#}");
        let code = handler(&task);
        let items = items(&code);
        for resource in resources {
            assert!(items.iter().any(|item| item.contains(resource)), "{agent}: {resource} in {items:?}");
        }
        assert!(!code.contains(foreign), "nothing canned: {code}");
        let plan: Value = artifact_data(&task, "plan.json");
        assert_eq!(plan["resources"].as_array().map(|found| found.len() >= 2), Some(true), "{plan:#}");
        let review = artifact(&task, "review.md").unwrap_or_default();
        assert!(review.lines().count() > 3, "real findings: {review}");
    }
    let claimed = mesh.signals("task.claimed").await;
    assert!(
        claimed
            .iter()
            .any(|signal| signal["subject"].as_str().is_some_and(|who| who.starts_with("builder-"))),
        "{claimed:#?}"
    );
}

/// The data of an artifact.
fn artifact_data(task: &Value, name: &str) -> Value {
    let mut all = task["artifacts"].as_array().into_iter().flatten();
    let found = all.rfind(|artifact| artifact["artifactId"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {task:#}"))["parts"][0]["data"].clone()
}

#[tokio::test]
async fn the_reviewer_finds_what_is_wrong_and_praises_nothing_that_is_not_there() {
    let mesh = Process::demo().await;
    let bad = "//! Doc.\n/// Doc.\npub fn key() -> String {\n    let password = \"hunter2hunter2\";\n    std::fs::read_to_string(password).unwrap()\n}\n";
    let good = "//! Adds.\n\n/// The sum of two numbers.\npub fn sum(a: u32, b: u32) -> u32 {\n    a.saturating_add(b)\n}\n";
    let review = async |name: &str, code: &str| {
        let request = json!({ "description": format!("Review {name}:\n```rust\n{code}```"), "capability": "code-review" });
        let task = mesh.agent("planner-01").ask(request).await;
        assert_eq!(state(&task), "completed", "{task:#}");
        serde_json::to_string(&task["artifacts"]).unwrap()
    };
    let found = review("bad.rs", bad).await;
    assert!(found.contains("unwrap"), "{found}");
    assert!(found.contains("password") || found.contains("secret"), "{found}");
    let fine = review("good.rs", good).await;
    assert!(!fine.contains("unwrap") && !fine.contains("password"), "{fine}");
}

#[tokio::test]
async fn a_text_that_asks_for_nothing_buildable_fails_with_a_word_of_advice() {
    let mesh = Process::demo().await;
    let task = mesh.agent("planner-01").ask(json!({ "description": "hm" })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("for example"), "{}", message(&task));
}

#[tokio::test]
async fn ask_prints_the_artifacts_of_whichever_agent_is_asked() {
    let mesh = Process::demo().await;
    let env = [("MESH_URL", mesh.url.as_str())];
    let url = mesh.agent("reviewer-01").url;
    let (code, output, errors) =
        program(&["ask", CINEMA, "--at", &url, "--capability", "implement-api", "--task-id", "t-1"], &env);
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains("handler.rs") && output.contains("Screening"), "{output}");
    let out = crate::harness::directory();
    let dir = out.path().to_string_lossy();
    let (code, _, errors) = program(&["ask", GARDEN, "--out", &dir], &env);
    assert_eq!(code, 0, "{errors}");
    let written = std::fs::read_to_string(out.path().join("handler.rs")).unwrap();
    assert!(items(&written).iter().any(|item| item.contains("Gardener")), "{written}");
    let (code, output, errors) = program(&["tasks", "show", "t-1"], &env);
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains("completed"), "{output}");
    let (code, output, errors) = program(&["ls"], &env);
    assert_eq!(code, 0, "{errors}");
    for agent in ["planner-01", "builder-01", "builder-02", "reviewer-01", "orchestrator-01"] {
        assert!(output.contains(agent), "{output}");
    }
}
