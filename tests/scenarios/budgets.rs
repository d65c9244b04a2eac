//! A parent reserves a budget for what it delegates, and is charged what its children say, or all if they are silent.

use crate::harness::{Process, directory, eventually, file, message, state};
use serde_json::{Value, json};

const PARENT: &str = r#"
import json, sys

line = json.loads(sys.stdin.readline())
print(json.dumps({"type": "usage", "model": "m", "inputTokens": 100, "outputTokens": 0, "cost": 0}))
if not line.get("answers"):
    ask = {"type": "delegate", "id": "d", "to": "capability:dig", "description": line["task"]["description"]}
    print(json.dumps({**ask, "budget": {"tokens": 400}}))
else:
    print(json.dumps({"type": "done", "message": f"left {line['remaining']['tokens']}, ok {line['answers'][0]['ok']}"}))
"#;

const CHILD: &str = r#"
import json, os, sys, time

line = json.loads(sys.stdin.readline())
print(json.dumps({"type": "status", "message": f"may use {line['remaining']['tokens']}"}), flush=True)
while not os.path.exists("open"):
    time.sleep(0.02)
used = int(line["task"]["description"])
print(json.dumps({"type": "usage", "model": "m", "inputTokens": used, "outputTokens": 0, "cost": 0}))
print(json.dumps({"type": "done", "message": "dug"}))
"#;

fn ours(task: &Value) -> &Value {
    &task["metadata"][protocol::task::EXTENSION]
}

#[tokio::test]
async fn a_child_works_within_its_budget_and_the_parent_gets_the_rest_back_after_a_kill() {
    let dir = directory();
    let (parent, child) = (file(dir.path(), "parent.py", PARENT), file(dir.path(), "child.py", CHILD));
    let brain = |path: &std::path::Path| {
        format!(
            "brain: {{ exec: {{ command: [python3, '{}'], cwd: '{}' }} }}",
            path.display(),
            dir.path().display()
        )
    };
    let team = format!(
        "agents:
  - {{ agent: parent-01, open: true, bounds: {{ tokens: 1000 }}, {} }}
  - {{ agent: child-01, skills: [dig], {} }}
",
        brain(&parent),
        brain(&child)
    );
    let mut mesh = Process::up(&team).await;
    let id = mesh.agent("parent-01").send(json!({ "description": "250" })).await;
    let reserved =
        |task: &Value| ours(task)["reserved"]["tokens"] == 400 && ours(task)["usage"]["inputTokens"] == 100;
    let parent = mesh.agent("parent-01");
    eventually("the budget is reserved", async || reserved(&parent.task(&id).await).then_some(())).await;
    mesh.kill();
    let mesh = mesh.restart().await;
    let parent = mesh.agent("parent-01");
    assert!(reserved(&parent.task(&id).await), "a reservation survives a kill");
    file(dir.path(), "open", "");
    let task = parent.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(message(&task), "left 650, ok True", "{task:#}");
    assert_eq!((&ours(&task)["usage"]["inputTokens"], &ours(&task)["reserved"]), (&json!(450), &Value::Null));
    // A child that uses more than it was given is stopped; what it said counts.
    let task = parent.ask(json!({ "description": "450" })).await;
    assert_eq!(message(&task), "left 450, ok False", "{task:#}");
    // A user's own budget is smaller than the bound of the agent.
    let task = parent.ask(json!({ "description": "1", "budget": { "tokens": 100 } })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("100 of 100 (tokens)"), "{task:#}");
}
