//! What an agent with a language model has done stays done: kills, pauses, decisions of people, budgets.

use super::llm::{model, team};
use crate::harness::{
    Agent, Process, artifact, call, client, eventually,
    mcp_stub::{McpAnswer, McpStub, tool},
    message,
    model_stub::{ModelStub, StubAnswer, StubRequest, calls, says},
    state,
};
use futures_util::{StreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The calls of the loop that is killed.
const CALLS: usize = 10;

/// Calls `step` with 0, 1, 2, … and then says how many results it has.
fn ten_steps(request: &StubRequest) -> StubAnswer {
    match request.results.len() {
        done @ 0..CALLS => calls(&[("step", json!({ "n": done }))]),
        done => says(&format!("{done} steps")),
    }
}

fn read_only() -> Value {
    json!({ "readOnlyHint": true })
}

/// How often each step was made.
fn made(tools: &McpStub) -> BTreeMap<u64, usize> {
    let mut made = BTreeMap::new();
    for (_, arguments) in tools.calls() {
        *made.entry(arguments["n"].as_u64().unwrap()).or_default() += 1;
    }
    made
}

fn with_tools(stub: &ModelStub, tools: &McpStub, more: &str) -> String {
    team(&format!("{}, tools: [{{ mcp: '{}'{more} }}]", model(stub, "anthropic"), tools.url))
}

/// Where the loop is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum KillPoint {
    /// While the model is asked with this many results.
    Model(usize),
    /// In this call of a tool that may be called again.
    ReadOnlyCall(usize),
    /// In this call of a tool without a hint; this is the person's decision on a second one.
    UnhintedCall(usize, &'static str),
}

/// Kills a loop of ten calls at `point`, which hangs the first time, and checks that nothing else is done twice.
async fn kill_at(point: KillPoint) {
    let hung = Arc::new(AtomicBool::new(false));
    let (model_hung, call_hung) = (hung.clone(), hung.clone());
    let stub = ModelStub::start(move |request| {
        let is_point = matches!(point, KillPoint::Model(at) if at == request.results.len());
        match is_point && !model_hung.swap(true, Ordering::SeqCst) {
            true => StubAnswer::Hangs,
            false => ten_steps(request),
        }
    });
    let hint = if matches!(point, KillPoint::ReadOnlyCall(_)) { read_only() } else { json!({}) };
    let tools = McpStub::start(json!([tool("step", hint)]), move |_, arguments| {
        let is_point = match point {
            KillPoint::Model(_) => false,
            KillPoint::ReadOnlyCall(at) | KillPoint::UnhintedCall(at, _) => arguments["n"] == at,
        };
        match is_point && !call_hung.swap(true, Ordering::SeqCst) {
            true => McpAnswer::Never,
            false => McpAnswer::Text(format!("done {}", arguments["n"])),
        }
    });
    let node = Process::up(&with_tools(&stub, &tools, "")).await;
    let id = node.agent("thinker-01").send(json!({ "description": "ten steps" })).await;
    eventually(&format!("{point:?} hangs"), async || hung.load(Ordering::SeqCst).then_some(())).await;
    let node = node.restart().await;
    let agent = node.agent("thinker-01");
    if let KillPoint::UnhintedCall(_, decision) = point {
        let asked = question(&agent, &id).await;
        decide(&node, &agent, &id, json!({ "questionId": asked["id"], "decision": decision })).await;
    }
    let task = agent.task_in(&id, &["completed", "failed"]).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("10 steps"), "{point:?}: {task:#}");
    let repeated = match point {
        KillPoint::ReadOnlyCall(at) | KillPoint::UnhintedCall(at, "approve") => Some(at as u64),
        KillPoint::UnhintedCall(..) | KillPoint::Model(_) => None,
    };
    let expected = (0..CALLS as u64).map(|n| (n, if Some(n) == repeated { 2 } else { 1 }));
    assert_eq!(made(&tools), expected.collect::<BTreeMap<_, _>>(), "{point:?}");
    let requests = CALLS + 1 + usize::from(matches!(point, KillPoint::Model(_)));
    assert_eq!(stub.requests().len(), requests, "{point:?}: no answer of the model is asked for twice");
}

#[tokio::test]
async fn a_kill_at_any_point_of_a_loop_repeats_at_most_what_was_under_way() {
    let decision = |at| if at % 2 == 0 { "approve" } else { "deny" };
    let points = (0..=CALLS).map(KillPoint::Model);
    let points = points.chain((0..CALLS).map(KillPoint::ReadOnlyCall));
    let points = points.chain((0..CALLS).map(|at| KillPoint::UnhintedCall(at, decision(at))));
    stream::iter(points).for_each_concurrent(4, kill_at).await;
}

/// A model that reads the end of a large result, after a kill in the request that follows the result. With `pauses` the
/// provider is then busy for a while.
fn reads_large_result(hung: &Arc<AtomicBool>, pauses: &Arc<AtomicBool>, request: &StubRequest) -> StubAnswer {
    match request.results.as_slice() {
        [] => calls(&[("log", json!({}))]),
        [_] if !hung.swap(true, Ordering::SeqCst) => StubAnswer::Hangs,
        [_] if pauses.swap(false, Ordering::SeqCst) => StubAnswer::Refuses(
            429,
            vec![("retry-after", "0".to_owned())],
            ["rate_limit_error", "rate_limit_exceeded", "slow down"],
        ),
        [_] => calls(&[("read_artifact", json!({ "artifact": "log-c1_0", "offset": 40_000 }))]),
        [_, piece, ..] => says(if piece.contains("the end") { "read to the end" } else { piece }),
    }
}

#[tokio::test]
async fn a_large_result_is_read_after_a_kill_and_after_a_pause() {
    let (hung, pauses) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let (model_hung, model_pauses) = (hung.clone(), pauses.clone());
    let tools = McpStub::start(json!([tool("log", json!({}))]), |_, _| {
        McpAnswer::Text(format!("{} the end", "z".repeat(50_000)))
    });
    let stub = ModelStub::start(move |request| {
        let asks = request.user[0].contains("ask the reader");
        match (asks, request.results.as_slice()) {
            (true, []) => {
                calls(&[("ask_help", json!({ "to": "reader-01", "question": "what is in the log?" }))])
            }
            (true, [answer, ..]) => says(answer),
            (false, _) => reads_large_result(&model_hung, &model_pauses, request),
        }
    });
    let llm = format!("{}, tools: [{{ mcp: '{}' }}]", model(&stub, "anthropic"), tools.url);
    let reader = format!("  - {{ agent: reader-01, skills: [read], brain: {{ llm: {{ {llm} }} }} }}\n");
    let mut node = Process::up(&format!("{}{reader}", team(&llm))).await;
    // The answer to a question of another agent keeps what it has read, too.
    for description in ["read the log", "ask the reader"] {
        let made = tools.calls().len();
        hung.store(false, Ordering::SeqCst);
        pauses.store(true, Ordering::SeqCst);
        let id = node.agent("thinker-01").send(json!({ "description": description })).await;
        eventually("the model hangs", async || hung.load(Ordering::SeqCst).then_some(())).await;
        node = node.restart().await;
        let task = node.agent("thinker-01").task_in(&id, &["completed", "failed"]).await;
        let answer = artifact(&task, "answer").unwrap_or_else(|| panic!("{task:#}"));
        assert!(answer.contains("read to the end"), "{description}: {answer}");
        assert!(!pauses.load(Ordering::SeqCst), "{description}: it has paused");
        assert_eq!(tools.calls().len(), made + 1, "{description}");
    }
}

/// The id of the question that a task waits for, with its call.
async fn question(agent: &Agent, id: &str) -> Value {
    let task = agent.task_in(id, &["input_required", "failed", "completed"]).await;
    assert_eq!(state(&task), "input_required", "{task:#}");
    let questions = &task["metadata"]["urn:agent-mesh:ext:task:v1"]["questions"];
    assert_eq!(questions.as_array().map(Vec::len), Some(1), "{task:#}");
    questions[0].clone()
}

/// Decides as the person of this mesh; nobody else approves.
async fn decide(node: &Process, agent: &Agent, id: &str, body: Value) {
    let url = format!("{}/a2a/tasks/{id}/answer", agent.url);
    if body["decision"] == "approve" {
        let refused = call(Method::POST, &url, Some(&body)).await;
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    let token = std::fs::read_to_string(node.data.join("token")).unwrap();
    let by_person = async || {
        let request = client().post(&url).bearer_auth(token.trim()).json(&body);
        request.send().await.unwrap().status().is_success().then_some(())
    };
    eventually("the decision is taken", by_person).await;
}

#[tokio::test]
async fn a_call_without_a_hint_that_a_kill_interrupted_is_made_again_only_if_a_person_says_so() {
    for (decision, times) in [("approve", 2), ("deny", 1)] {
        let tools = McpStub::start(json!([tool("send_mail", json!({}))]), {
            let is_first = AtomicBool::new(true);
            move |_, _| match is_first.swap(false, Ordering::SeqCst) {
                true => McpAnswer::Never,
                false => McpAnswer::Text("sent".to_owned()),
            }
        });
        let stub = ModelStub::start(|request| match request.results.first() {
            None => calls(&[("send_mail", json!({ "to": "anna" }))]),
            Some(result) => says(result),
        });
        let node = Process::up(&with_tools(&stub, &tools, "")).await;
        let id = node.agent("thinker-01").send(json!({ "description": "mail anna" })).await;
        eventually("the call is made", async || (tools.calls().len() == 1).then_some(())).await;
        let node = node.restart().await;
        let agent = node.agent("thinker-01");
        let asked = question(&agent, &id).await;
        assert!(asked["text"].as_str().unwrap().contains("nobody knows whether it took effect"), "{asked:#}");
        assert_eq!(asked["call"]["args"]["to"], "anna", "{asked:#}");
        decide(
            &node,
            &agent,
            &id,
            json!({ "questionId": asked["id"], "decision": decision, "reason": "as agreed" }),
        )
        .await;
        let task = agent.task_in(&id, &["completed", "failed"]).await;
        let text = artifact(&task, "answer").unwrap_or_else(|| panic!("{task:#}"));
        assert!(text == "sent" || (decision == "deny" && text.contains("as agreed")), "{text}");
        assert_eq!(tools.calls().len(), times, "{decision}");
    }
}

#[tokio::test]
async fn a_tool_that_needs_approval_waits_for_a_decision_and_words_are_none() {
    for (decision, times) in [("approve", 1), ("deny", 0)] {
        let tools = McpStub::start(json!([tool("deploy", read_only())]), |_, _| {
            McpAnswer::Text("deployed".to_owned())
        });
        let stub = ModelStub::start(|request| match request.results.first() {
            None => calls(&[("deploy", json!({ "to": "production" }))]),
            Some(result) => says(result),
        });
        let node = Process::up(&with_tools(&stub, &tools, ", approve: [deploy]")).await;
        let id = node.agent("thinker-01").send(json!({ "description": "deploy it" })).await;
        question(&node.agent("thinker-01"), &id).await;
        assert!(tools.calls().is_empty());
        let node = node.restart().await;
        let agent = node.agent("thinker-01");
        let asked = question(&agent, &id).await;
        let url = format!("{}/a2a/tasks/{id}/answer", agent.url);
        let refused = call(Method::POST, &url, Some(&json!({ "text": "approve" }))).await;
        assert!(refused.status >= 400, "{refused:?}");
        decide(&node, &agent, &id, json!({ "questionId": asked["id"], "decision": decision })).await;
        let task = agent.task_in(&id, &["completed", "failed"]).await;
        assert_eq!(state(&task), "completed", "{task:#}");
        assert_eq!(tools.calls().len(), times, "{decision}");
        assert_eq!(stub.requests().len(), 2, "the model is not asked again for the call");
    }
}

#[tokio::test]
async fn a_provider_that_is_busy_or_breaks_off_is_asked_again_after_a_pause_that_survives_a_kill() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let stub = ModelStub::start(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => StubAnswer::Refuses(
            429,
            vec![("retry-after", "1".to_owned())],
            ["rate_limit_error", "rate_limit_exceeded", "slow down"],
        ),
        1 => StubAnswer::BreaksOff,
        2 => StubAnswer::Refuses(
            529,
            vec![("retry-after", "0".to_owned())],
            ["overloaded_error", "overloaded", "later"],
        ),
        _ => says("at last"),
    });
    let node = Process::up(&team(&model(&stub, "anthropic"))).await;
    let id = node.agent("thinker-01").send(json!({ "description": "x" })).await;
    let agent = node.agent("thinker-01");
    eventually("the status says why it waits", async || {
        message(&agent.task(&id).await).contains("slow down").then_some(())
    })
    .await;
    let node = node.restart().await;
    let task = node.agent("thinker-01").task_in(&id, &["completed", "failed"]).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("at last"), "{task:#}");
    assert_eq!(asked.load(Ordering::SeqCst), 4);
}

/// A team whose agent has `bounds`.
fn bounded(llm: &str, bounds: &str) -> String {
    format!("{}    bounds: {{ {bounds} }}\n", team(llm))
}

#[tokio::test]
async fn a_task_stops_at_its_budget_and_its_cost_is_told() {
    let tools = McpStub::start(json!([tool("step", read_only())]), |_, _| McpAnswer::Text("done".to_owned()));
    let stub = ModelStub::start(ten_steps);
    let llm = format!(
        "{}, price: {{ input: 1000, output: 5000 }}, tools: [{{ mcp: '{}' }}]",
        model(&stub, "openai"),
        tools.url
    );
    let node = Process::up(&bounded(&llm, "cost: 0.5")).await;
    let task = node.agent("thinker-01").ask(json!({ "description": "ten steps" })).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).starts_with("bounds.cost: 0.5 used up: 0."), "{}", message(&task));
    let requests = stub.requests().len();
    assert!((3..=6).contains(&requests), "{requests} requests of 0.1 each");
    assert!(
        stub.requests().iter().any(|request| request.user.iter().any(|text| text.contains("Only a cost of")))
    );
}

#[tokio::test]
async fn a_hung_model_is_cut_by_idle_and_a_slow_one_is_not() {
    let stub = ModelStub::start(|request| match request.user[0].contains("hang") {
        true if request.user[0].contains("silent") => StubAnswer::Silent,
        true => StubAnswer::Hangs,
        false => StubAnswer::Slowly(
            Duration::from_millis(300),
            "one two three four five six seven eight ".repeat(2),
        ),
    });
    let tools = McpStub::start(json!([tool("step", read_only())]), |_, _| McpAnswer::Text("done".to_owned()));
    for format in ["openai", "anthropic"] {
        let llm = format!("{}, tools: [{{ mcp: '{}' }}]", model(&stub, format), tools.url);
        let node = Process::up(&bounded(&llm, "idle: 4s")).await;
        let agent = node.agent("thinker-01");
        let task = agent.ask(json!({ "description": "slow" })).await;
        assert!(artifact(&task, "answer").unwrap_or_default().trim_end().ends_with("eight"), "{task:#}");
        let task = agent.ask(json!({ "description": "hang" })).await;
        assert_eq!(state(&task), "failed", "{task:#}");
        assert!(message(&task).contains("bounds: idle"), "{}", message(&task));
        eventually("the request is closed", async || (stub.open() == 0).then_some(())).await;
        // A provider that does not even begin to answer.
        let task = agent.ask(json!({ "description": "hang, silent" })).await;
        assert!(state(&task) == "failed" && message(&task).contains("bounds: idle"), "{task:#}");
    }
}

#[tokio::test]
async fn a_silent_model_is_a_failure_while_another_one_is_left() {
    let first = ModelStub::start(|request| match &request.user[0] {
        text if text.contains("silent") => StubAnswer::Silent,
        text if text.contains("hang") => StubAnswer::Hangs,
        _ => StubAnswer::Slowly(Duration::from_millis(400), "one two three four ".repeat(4)),
    });
    let second = ModelStub::start(|_| says("from the second"));
    for format in ["openai", "anthropic"] {
        let fallback = format!("fallback: [{{ model: openai/stub-2, url: '{}', key: other }}]", second.url);
        let llm = format!("{}, {fallback}", model(&first, format));
        let node = Process::up(&bounded(&llm, "idle: 5s")).await;
        for description in ["silent", "hang"] {
            let task = node.agent("thinker-01").ask(json!({ "description": description })).await;
            let text = artifact(&task, "answer");
            assert_eq!(text.as_deref(), Some("from the second"), "{format}, {description}: {task:#}");
        }
        let task = node.agent("thinker-01").ask(json!({ "description": "slow" })).await;
        assert!(artifact(&task, "answer").unwrap_or_default().trim_end().ends_with("four"), "{task:#}");
    }
}

#[tokio::test]
async fn a_tool_that_takes_longer_than_idle_is_waited_for() {
    let late = Duration::from_millis(1_500);
    let tools = McpStub::start(json!([tool("step", read_only())]), move |_, _| {
        McpAnswer::Late(late, "late".to_owned())
    });
    let stub = ModelStub::start(|request| match request.results.first() {
        None => calls(&[("step", json!({}))]),
        Some(result) => says(result),
    });
    let llm = format!("{}, tools: [{{ mcp: '{}', timeout: 10s }}]", model(&stub, "openai"), tools.url);
    let node = Process::up(&bounded(&llm, "idle: 500ms")).await;
    let task = node.agent("thinker-01").ask(json!({ "description": "wait" })).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("late"), "{task:#}");
}
