//! `--record` and `--replay` (docs/models-and-tools.md): a team of models runs again without a provider and without a key.

use crate::harness::{
    Process, artifact, directory, eventually,
    mcp_stub::{McpAnswer, McpStub, tool},
    mesh, message,
    model_stub::{ModelStub, calls, says},
    state,
};
use serde_json::{Value, json};

/// Two agents: one delegates to the other, which calls a tool.
fn team(models: &str, tools: &str) -> String {
    format!(
        "
agents:
  - agent: lead-01
    open: true
    skills: [lead]
    brain: {{ llm: {{ model: anthropic/stub-1, url: '{models}', key: '${{PROVIDER_KEY}}' }} }}
  - agent: counter-01
    skills: [count]
    brain:
      llm:
        model: openai/stub-2
        url: '{models}'
        key: '${{PROVIDER_KEY}}'
        fallback: [{{ model: openai/stub-3, url: '{models}', key: '${{PROVIDER_KEY}}' }}]
        tools: [{{ mcp: '{tools}' }}]
"
    )
}

async fn ask(node: &Process, description: &str) -> Value {
    node.agent("lead-01").ask(json!({ "taskId": "t-1", "description": description })).await
}

#[tokio::test]
async fn a_team_is_recorded_once_and_runs_again_without_a_key_and_a_provider() {
    let stub = ModelStub::start(|request| match (request.is_anthropic, request.results.len()) {
        (true, 0) => {
            calls(&[("delegate", json!({ "to": "capability:count", "description": "Count the words" }))])
        }
        (true, _) => says(&format!("It says: {}", request.results[0].matches("seven words").count())),
        (false, 0) => calls(&[("read", json!({ "file": "notes" }))]),
        (false, _) => says("seven words"),
    });
    let tools = McpStub::start(json!([tool("read", json!({}))]), |_, _| McpAnswer::Text("the notes".into()));
    let (yaml, dir) = (team(&stub.url, &tools.url), directory());
    let cassette = dir.path().join("team.jsonl").to_string_lossy().into_owned();
    let key = "PROVIDER_KEY=canary-of-the-provider";
    let node = Process::up_with(&[key], &["--record", &cassette], Some(&yaml)).await;
    let recorded = ask(&node, "How many words are in the notes?").await;
    assert_eq!(artifact(&recorded, "answer").as_deref(), Some("It says: 1"), "{recorded:#}");
    // It is killed: what was recorded is in the file.
    drop(node);
    drop(stub);

    let text = std::fs::read_to_string(&cassette).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.starts_with("{\"cassette\":1}\n") && !text.contains("canary-of-the-provider"), "{text}");

    let node = Process::up_with(&[], &["--replay", &cassette], Some(&yaml)).await;
    let replayed = ask(&node, "How many words are in the notes?").await;
    assert_eq!(artifact(&replayed, "answer").as_deref(), Some("It says: 1"), "{replayed:#}");
    let usage = |task: &Value| task["metadata"].to_string().matches("\"inputTokens\":").count();
    assert_eq!(usage(&replayed), usage(&recorded), "{replayed:#}");
    assert_eq!(tools.calls().len(), 2, "tools run in a replay, too");
    assert!(node.log().contains("answers instead of models"), "{}", node.log());
    drop(node);

    let node = Process::up_with(&[], &["--replay", &cassette], Some(&yaml)).await;
    let missed = ask(&node, "How many letters are in the notes?").await;
    assert_eq!(state(&missed), "failed", "{missed:#}");
    let why = message(&missed);
    for part in
        ["team.jsonl has no answer", "line 2, differs at messages[0].user", "words are in", "letters are in"]
    {
        assert!(why.contains(part), "{part} in {why}");
    }
    let url = [("MESH_URL", node.url.as_str())];
    eventually("the failed call in the trace", async || {
        let (_, shown, _) = mesh(&["trace", "t-1", "--calls"], &url);
        shown.lines().any(|line| line.contains("chat") && line.contains(" cassette")).then_some(())
    })
    .await;
}

#[test]
fn a_cassette_that_cannot_be_used_is_refused_at_the_start() {
    let dir = directory();
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    crate::harness::file(dir.path(), "other.jsonl", "{\"cassette\":2}\n");
    let data = path("data");
    let start = |more: &[&str]| {
        let args = [&["up", "--port", "0", "--data", data.as_str()], more].concat();
        mesh(&args, &[])
    };
    for (args, code, part) in [
        (vec!["--replay".to_owned(), path("none.jsonl")], 78, "--record"),
        (vec!["--replay".to_owned(), path("other.jsonl")], 78, "line 1: has version 2"),
        (vec!["--record".to_owned(), path("no/such/dir.jsonl")], 78, "can't be written"),
        (vec!["--record".to_owned(), path("a"), "--replay".to_owned(), path("b")], 2, "cannot be used with"),
    ] {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let (found, _, errors) = start(&args);
        assert!(found == code && errors.contains(part), "{args:?}: {found} {errors}");
    }
}
