//! Results that are checked before they count: by a schema, a command, or a reviewer.

use crate::harness::{
    Agent, Process, call, eventually, mesh, message,
    model_stub::{ModelStub, says},
    state,
};
use reqwest::Method;
use serde_json::{Value, json};

const EXTENSION: &str = protocol::task::EXTENSION;

/// Hands back `good` if it is told what was refused, or always; otherwise `bad`.
const BUILDER: &str = r#"read -r line
case "$line" in *"$WHEN"*) text=good;; *) text=bad;; esac
printf '{"type":"artifact","name":"a.txt","text":"%s"}\n{"type":"done"}\n' "$text"
"#;

/// Accepts a result with the artifact `good`.
const CHECK: &str = r#"grep -q '"text":"good"' || { echo "it is not good"; exit 1; }"#;

fn builder(id: &str, when: &str, cost: f64) -> String {
    format!(
        "  - agent: {id}\n    skills: [build]\n    env: {{ WHEN: '{when}' }}\n    bid: {{ cost: {cost} }}\n    brain: {{ exec: [sh, ./builder.sh] }}\n"
    )
}

/// A manager with these demands, and these other agents.
async fn up(accept: &str, others: &[String]) -> Process {
    let yaml = format!(
        "agents:\n  - agent: manager-01\n    skills: [manage]\n    brain: {{ echo: {{}} }}\n    accept: {accept}\n{}mesh: {{ auction: {{ strategy: cheapest }} }}\n",
        others.concat()
    );
    Process::up_beside(&yaml, &[("builder.sh", BUILDER), ("check.sh", CHECK)]).await
}

async fn build(node: &Process) -> Value {
    let manager = node.agent("manager-01");
    peers_are_known(node, "build").await;
    manager.ask(json!({ "description": "build it", "capability": "build" })).await
}

/// Waits until the manager knows who has the capability.
async fn peers_are_known(node: &Process, capability: &str) {
    eventually("the peers are known", async || {
        let known = node.signals("agent.joined").await;
        known.iter().any(|signal| signal.to_string().contains(capability)).then_some(())
    })
    .await;
}

/// The verdicts on the results of a task, with who checked and whose result it was.
fn checks(task: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = task["metadata"][EXTENSION]["checks"].as_array().cloned().unwrap_or_default();
    checks.iter().map(|check| (text(&check["verdict"]), text(&check["by"]), text(&check["doer"]))).collect()
}

fn check(verdict: &str, by: &str, doer: &str) -> (String, String, String) {
    (verdict.to_owned(), by.to_owned(), doer.to_owned())
}

#[tokio::test]
async fn a_refused_result_goes_back_to_its_doer_once_with_the_findings() {
    let node =
        up("{ for: [build], exec: [sh, ./check.sh] }", &[builder("builder-01", "it is not good", 1.0)]).await;
    let task = build(&node).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(
        checks(&task),
        [check("refused", "node", "builder-01"), check("accepted", "node", "builder-01")],
        "{task:#}"
    );
    let recorded = &task["metadata"][EXTENSION]["checks"];
    assert!(
        recorded[0]["findings"].as_str().unwrap().ends_with("(exit code 1): it is not good"),
        "{recorded:#}"
    );
    assert_ne!(recorded[0]["sha256"], recorded[1]["sha256"]);
    let id = task["id"].as_str().unwrap();
    for verb in [["award", "explain", id], ["tasks", "show", id]] {
        let (_, out, errors) = mesh(&verb, &[("MESH_URL", node.url.as_str())]);
        let said = format!("{out}{errors}");
        assert!(said.contains("refused by node") && said.contains("it is not good"), "{said}");
    }
}

#[tokio::test]
async fn after_two_refusals_the_runner_up_gets_the_task_and_with_nobody_left_it_fails_with_the_findings() {
    let accept = "{ exec: [sh, ./check.sh] }";
    let (stubborn, able) = (builder("builder-01", "never", 1.0), builder("builder-02", "build it", 2.0));
    let node = up(accept, &[stubborn.clone(), able]).await;
    eventually("both are known", async || (node.signals("agent.joined").await.len() >= 3).then_some(()))
        .await;
    let task = build(&node).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let refused = || check("refused", "node", "builder-01");
    assert_eq!(checks(&task), [refused(), refused(), check("accepted", "node", "builder-02")]);
    let (_, trace, errors) = mesh(&["trace", task["id"].as_str().unwrap(), "--url", &node.url], &[]);
    let shown = trace.split_once("checks of results:").map(|(_, checks)| checks.lines().count());
    assert!(shown == Some(4) && trace.contains("of builder-02 accepted by node"), "{trace} {errors}");
    let tail = ["board", "tail", "--no-follow", "--after", "now", "--url", &node.url];
    assert_eq!(mesh(&tail, &[]), (0, String::new(), String::new()));

    let node = up(accept, &[stubborn]).await;
    let task = build(&node).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(
        message(&task).contains("refused twice") && message(&task).contains("it is not good"),
        "{task:#}"
    );
}

#[tokio::test]
async fn a_reviewer_is_found_by_contract_net_and_the_doer_does_not_review_itself() {
    let reviewer = |id: &str, verdict: &str| {
        format!(
            "  - agent: {id}\n    skills: [code-review]\n    brain: {{ exec: [sh, -c, 'echo ''{{\"type\":\"done\",\"message\":\"{verdict}\"}}'''] }}\n"
        )
    };
    let accepts = reviewer("reviewer-01", r#"{\"accepted\":true}"#);
    // The doer has the skill, too; it would refuse.
    let doer = builder("builder-01", "build it", 1.0).replace("[build]", "[build, code-review]");
    let node = up("{ for: [build], reviewer: code-review }", &[doer, accepts]).await;
    eventually("all are known", async || (node.signals("agent.joined").await.len() >= 3).then_some(())).await;
    let task = build(&node).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(checks(&task), [check("accepted", "capability:code-review", "builder-01")]);
    let review = task["metadata"][EXTENSION]["checks"][0]["review"].as_str().unwrap().to_owned();
    let review = node.agent("manager-01").task(&review).await;
    assert_eq!(review["metadata"][EXTENSION]["doer"], "reviewer-01", "{review:#}");
    assert!(review.to_string().contains("Review the result"), "{review:#}");

    // Words are no verdict.
    let chats = reviewer("reviewer-01", "looks good");
    let node =
        up("{ for: [build], reviewer: code-review }", &[builder("builder-01", "build it", 1.0), chats]).await;
    eventually("all are known", async || (node.signals("agent.joined").await.len() >= 3).then_some(())).await;
    let task = build(&node).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("has no verdict"), "{task:#}");
}

#[tokio::test]
async fn an_output_schema_and_the_demand_of_a_request_hold_for_any_brain() {
    let yaml = r#"
agents:
  - agent: counter-01
    skills: [{ id: count, outputSchema: { type: object, required: [n] } }]
    brain: { exec: [sh, -c, 'read -r line; case "$line" in *revision*) n=n;; *) n=m;; esac; printf "{\"type\":\"artifact\",\"name\":\"n\",\"data\":{\"%s\":1}}\n{\"type\":\"done\"}\n" $n'] }
"#;
    let node = Process::up(yaml).await;
    let agent = node.agent("counter-01");
    let task = agent.ask(json!({ "description": "count", "capability": "count" })).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let own = |verdict| check(verdict, "node", "counter-01");
    assert_eq!(checks(&task), [own("refused"), own("accepted")], "it is told and tries again");
    let demand = json!({ "schema": { "type": "object", "required": ["x"] } });
    let task = agent.ask(json!({ "description": "count", "capability": "count", "accept": demand })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("refused twice") && message(&task).contains("\"x\""), "{task:#}");
    // A request runs no command, and its schema is read before it is accepted.
    for (accept, part) in [
        (json!({ "exec": ["rm", "-rf", "/"] }), "unknown field `exec`"),
        (json!({ "schema": { "type": "nothing" } }), "payload.accept.schema"),
    ] {
        let envelope = json!({
            "fromAgentId": "me", "toAgentId": "counter-01", "type": "task-request",
            "payload": { "description": "count", "capability": "count", "accept": accept },
        });
        let refused = call(Method::POST, &format!("{}/a2a/messages", agent.url), Some(&envelope)).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body.to_string().contains(part), "{refused:?}");
    }
}

/// Leaves a line in the file `runs` and hangs the first time.
const HANGS_ONCE: &str = r#"cat > /dev/null
echo run >> "$RUNS"
[ "$(wc -l < "$RUNS")" -gt 1 ] || sleep 600
"#;

#[tokio::test]
async fn a_check_that_a_kill_interrupted_runs_again_and_nothing_else_does() {
    let dir = crate::harness::directory();
    let runs = dir.path().join("runs");
    let yaml = format!(
        "agents:\n  - agent: manager-01\n    skills: [manage]\n    brain: {{ echo: {{}} }}\n    env: {{ RUNS: '{}' }}\n    accept: {{ exec: [sh, ./check.sh] }}\n{}",
        runs.display(),
        builder("builder-01", "build it", 1.0)
    );
    let node = Process::up_beside(&yaml, &[("builder.sh", BUILDER), ("check.sh", HANGS_ONCE)]).await;
    peers_are_known(&node, "build").await;
    let agent = node.agent("manager-01");
    let id = agent.send(json!({ "description": "build it", "capability": "build" })).await;
    let lines = || std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
    eventually("the check runs", async || (lines() == 1).then_some(())).await;
    let task = agent.task(&id).await;
    assert_eq!(state(&task), "working", "{task:#}");
    let node = node.restart().await;
    let agent: Agent = node.agent("manager-01");
    let task = agent.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(lines(), 2);
    assert_eq!(checks(&task), [check("accepted", "node", "builder-01")]);
}

/// Each of `levels` definitions refers to the next one twice.
fn doubling(levels: usize) -> Value {
    let mut schema = json!({ "$ref": "#/$defs/a0", "$defs": { format!("a{levels}"): { "type": "object" } } });
    for level in 0..levels {
        let next = json!({ "$ref": format!("#/$defs/a{}", level + 1) });
        schema["$defs"][format!("a{level}")] = json!({ "allOf": [next, next] });
    }
    schema
}

#[tokio::test]
async fn a_schema_of_a_request_does_not_hold_up_the_agent() {
    let yaml = r#"
agents:
  - agent: dump-01
    open: true
    brain: { exec: [sh, -c, 'read -r line; printf "{\"type\":\"artifact\",\"name\":\"n\",\"data\":{\"n\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}}\n{\"type\":\"done\"}\n"'] }
"#;
    let node = Process::up(yaml).await;
    let agent = node.agent("dump-01");
    let request =
        |schema: Value| agent.request(json!({ "description": "dump", "accept": { "schema": schema } }));
    for (schema, part) in [
        (doubling(24), "at most 2000 are allowed"),
        (doubling(60), "nested deeper"),
        (json!({ "properties": { "n": { "pattern": "^(?=(a+)+1)x" } } }), "look-around"),
        (json!({ "properties": { "n": { "pattern": "(a|aa)+\\1" } } }), "back references"),
        (json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] }), "refers to itself"),
        (json!({ "$ref": "http://127.0.0.1:1/schema.json" }), "no JSON pointer"),
    ] {
        let refused = agent.post(&request(schema.clone())).await;
        assert_eq!(refused.status, 400, "{schema}: {refused:?}");
        let said = refused.body.to_string();
        assert!(said.contains(part) && said.contains("payload.accept.schema"), "{schema}: {said}");
    }
    let node_of = json!({ "type": "object", "properties": { "n": { "$ref": "#/$defs/text" } }, "$defs": { "text": { "type": "string", "pattern": "^(a|aa)+$" } } });
    let task = agent.ask(json!({ "description": "dump", "accept": { "schema": node_of } })).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(checks(&task), [check("accepted", "node", "dump-01")]);
}

#[tokio::test]
async fn a_reviewer_with_a_model_is_held_to_the_schema_of_a_verdict() {
    let stub = ModelStub::start(|request| match request.user.iter().any(|text| text.contains("not valid")) {
        true => says(r#"{"accepted": true}"#),
        false => says(r#"I have looked at it, and here is my verdict: {"accepted": true}"#),
    });
    let reviewer = format!(
        "  - agent: reviewer-01\n    skills: [code-review]\n    brain: {{ llm: {} }}\n",
        format_args!("{{ model: openai/stub-1, url: '{}', key: secret }}", stub.url)
    );
    let doer = builder("builder-01", "", 1.0);
    let node = up("{ for: [build], reviewer: code-review }", &[doer, reviewer]).await;
    eventually("all are known", async || (node.signals("agent.joined").await.len() >= 3).then_some(())).await;
    let task = build(&node).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(checks(&task), [check("accepted", "capability:code-review", "builder-01")]);
    let requests = stub.requests();
    assert_eq!(requests.len(), 2, "the first answer goes back to the model");
    assert!(requests[0].body["response_format"].to_string().contains("accepted"), "{}", requests[0].body);
}
