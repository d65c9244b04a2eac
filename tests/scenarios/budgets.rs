//! A parent reserves a budget for what it delegates, and is charged what its children say, or all if they are silent.

use crate::harness::{Process, directory, eventually, file, message, state};
use serde_json::{Value, json};
use std::path::Path;

const PARENT: &str = r#"
import json, sys

line = json.loads(sys.stdin.readline())
print(json.dumps({"type": "usage", "model": "m", "inputTokens": 100, "outputTokens": 0, "cost": 0}))
if not line.get("answers"):
    ask = {"type": "delegate", "id": "d", "to": "capability:dig", "description": line["task"]["description"]}
    print(json.dumps({**ask, "budget": {"tokens": 400}}))
else:
    answer = line["answers"][0]
    left = f"left {line['remaining']['tokens']}, ok {answer['ok']}: {answer['text']}"
    print(json.dumps({"type": "done", "message": left}))
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

fn brain(program: &Path, cwd: &Path) -> String {
    let (program, cwd) = (program.display(), cwd.display());
    format!("brain: {{ exec: {{ command: [python3, '{program}'], cwd: '{cwd}' }} }}")
}

fn ours(task: &Value) -> &Value {
    &task["metadata"][protocol::task::EXTENSION]
}

#[tokio::test]
async fn a_child_works_within_its_budget_and_the_parent_gets_the_rest_back_after_a_kill() {
    let dir = directory();
    let (parent, child) = (file(dir.path(), "parent.py", PARENT), file(dir.path(), "child.py", CHILD));
    let brain = |path: &Path| brain(path, dir.path());
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
    assert_eq!(message(&task), "left 650, ok True: dug", "{task:#}");
    assert_eq!((&ours(&task)["usage"]["inputTokens"], &ours(&task)["reserved"]), (&json!(450), &Value::Null));
    // A child that uses more than it was given with its last call is done; its parent is charged all of it.
    let task = parent.ask(json!({ "description": "450" })).await;
    assert_eq!(message(&task), "left 450, ok True: dug", "{task:#}");
    // A user's own budget is smaller than the bound of the agent.
    let task = parent.ask(json!({ "description": "1", "budget": { "tokens": 100 } })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert_eq!(message(&task), "budget.tokens: 100 used up: 100 used", "{task:#}");
}

const COST_PARENT: &str = r#"
import json, sys

line = json.loads(sys.stdin.readline())
to = line["task"]["description"]
if line.get("answers"):
    print(json.dumps({"type": "done", "message": line["answers"][0]["text"]}))
elif to.startswith("ask "):
    print(json.dumps({"type": "help", "id": "d", "to": to[4:], "question": "how?"}))
else:
    print(json.dumps({"type": "delegate", "id": "d", "to": to, "capability": "dig", "description": "dig"}))
"#;

const UNPRICED: &str = r#"
import json, sys

sys.stdin.readline()
print(json.dumps({"type": "usage", "model": "m", "inputTokens": 250, "outputTokens": 0}))
print(json.dumps({"type": "done", "message": "dug"}))
"#;

#[tokio::test]
async fn a_task_with_a_bound_of_cost_fails_if_an_agent_that_works_for_it_has_no_price() {
    let dir = directory();
    let brain = |path: &Path| brain(path, dir.path());
    let (parent, child) =
        (file(dir.path(), "parent.py", COST_PARENT), file(dir.path(), "child.py", UNPRICED));
    let team = format!(
        "agents:
  - {{ agent: parent-01, open: true, bounds: {{ cost: 1.5 }}, {parent} }}
  - {{ agent: free-01, open: true, {parent} }}
  - {{ agent: child-01, skills: [dig], {child} }}
",
        parent = brain(&parent),
        child = brain(&child)
    );
    let mesh = Process::up(&team).await;
    for to in ["child-01", "capability:dig", "ask child-01", "ask capability:dig"] {
        let task = mesh.agent("parent-01").ask(json!({ "description": to })).await;
        assert_eq!(state(&task), "failed", "{to}: {task:#}");
        assert!(message(&task).starts_with("bounds.cost: 1.5 can't be kept: "), "{to}: {task:#}");
        assert_eq!(message(&task).matches("give its model a price").count(), 1, "{to}: {task:#}");
        assert!(
            message(&task).contains("child-01 is unknown (250 tokens without a price)"),
            "{to}: {task:#}"
        );
        assert_eq!(ours(&task)["usage"]["unpricedTokens"], 250, "{to}: {task:#}");
        // Without a bound of cost an unknown one is only counted.
        let task = mesh.agent("free-01").ask(json!({ "description": to })).await;
        assert_eq!(
            (state(&task), message(&task)),
            ("completed".to_owned(), "dug".to_owned()),
            "{to}: {task:#}"
        );
        assert_eq!(ours(&task)["usage"]["unpricedTokens"], 250, "{to}: {task:#}");
    }
}

#[tokio::test]
async fn the_answer_to_a_question_keeps_the_bounds_of_the_agent_that_gives_it() {
    let dir = directory();
    let brain = |path: &Path| brain(path, dir.path());
    let (parent, child) =
        (file(dir.path(), "parent.py", COST_PARENT), file(dir.path(), "child.py", UNPRICED));
    let team = format!(
        "agents:
  - {{ agent: parent-01, open: true, {parent} }}
  - {{ agent: ample-01, skills: [dig], bounds: {{ tokens: 300 }}, {child} }}
  - {{ agent: small-01, skills: [scratch], bounds: {{ tokens: 200 }}, {child} }}
  - {{ agent: cheap-01, skills: [scrape], bounds: {{ cost: 0.5 }}, {child} }}
",
        parent = brain(&parent),
        child = brain(&child)
    );
    let mesh = Process::up(&team).await;
    for (to, said) in [
        ("ask ample-01", "dug"),
        // An answer that is complete when the last call passes the bound counts.
        ("ask small-01", "dug"),
        ("ask capability:scratch", "dug"),
        ("ask cheap-01", "bounds.cost: 0.5 can't be kept: the cost of m at cheap-01 is unknown"),
    ] {
        let task = mesh.agent("parent-01").ask(json!({ "description": to })).await;
        assert!(state(&task) == "completed" && message(&task).contains(said), "{to}: {task:#}");
        assert_eq!(ours(&task)["usage"]["unpricedTokens"], 250, "{to}: what was used is charged: {task:#}");
    }
}
