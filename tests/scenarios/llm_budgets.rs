//! What calls of models use when nobody counts it: the provider does not, or the call is cut.

use super::llm::{model, team};
use crate::harness::{
    Process, call, eventually, message,
    model_stub::{ModelStub, StubAnswer},
    state, text,
};
use reqwest::Method;
use serde_json::{Value, json};

fn used(task: &Value) -> &Value {
    &task["metadata"][protocol::task::EXTENSION]["usage"]
}

fn bounded(stub: &ModelStub, format: &str, bounds: &str) -> String {
    let llm = format!("{}, price: {{ input: 1000, output: 1000 }}", model(stub, format));
    format!("{}    bounds: {{ {bounds} }}\n", team(&llm))
}

#[tokio::test]
async fn a_bound_holds_for_a_provider_that_counts_no_tokens() {
    let stub = ModelStub::start(|_| StubAnswer::Uncounted("x".repeat(4_000)));
    for format in ["openai", "anthropic"] {
        for (bounds, expected) in
            [("tokens: 900", "bounds.tokens: 900 used up"), ("cost: 0.9", "bounds.cost: 0.9 used up")]
        {
            let node = Process::up(&bounded(&stub, format, bounds)).await;
            let task = node.agent("thinker-01").ask(json!({ "description": "talk" })).await;
            // Its only call has passed the bound, with a result.
            assert_eq!(state(&task), "completed", "{format}, {bounds}: {task:#}");
            let over = task["metadata"][protocol::task::EXTENSION]["overBudget"].as_str().unwrap_or_default();
            assert!(over.starts_with(expected), "{format}, {bounds}: {task:#}");
            let used = used(&task);
            assert_eq!(used["outputTokens"], 1_000, "{format}: {used:#}");
            let tokens = |name: &str| used[name].as_u64().unwrap();
            assert_eq!(tokens("estimatedTokens"), tokens("inputTokens") + 1_000, "{format}: {used:#}");
        }
    }
}

#[tokio::test]
async fn a_call_that_idle_cuts_is_charged_what_was_counted_and_what_arrived() {
    let stub = ModelStub::start(|_| StubAnswer::HangsAfter("y".repeat(400)));
    for (format, input) in [("openai", None), ("anthropic", Some(100))] {
        let node = Process::up(&bounded(&stub, format, "idle: 6s")).await;
        let task = node.agent("thinker-01").ask(json!({ "description": "talk" })).await;
        assert_eq!(state(&task), "failed", "{format}: {task:#}");
        assert!(message(&task).contains("bounds: idle"), "{format}: {task:#}");
        let used = used(&task);
        let tokens = |name: &str| used[name].as_u64().unwrap();
        assert!(tokens("outputTokens") == 100 && tokens("inputTokens") > 50, "{format}: {used:#}");
        assert!(input.is_none_or(|input| tokens("inputTokens") == input), "{format}: {used:#}");
        assert!(tokens("estimatedTokens") > 0 && used["cost"].as_f64().unwrap() > 0.1, "{format}: {used:#}");
    }
}

#[tokio::test]
async fn a_call_that_a_cancel_cuts_is_charged_and_in_the_metrics() {
    let stub = ModelStub::start(|_| StubAnswer::Hangs);
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let agent = node.agent("thinker-01");
    let id = agent.send(json!({ "description": "think" })).await;
    eventually("the request is open", async || (stub.open() == 1).then_some(())).await;
    call(Method::POST, &format!("{}/a2a/tasks/{id}/cancel", agent.url), Some(&json!({}))).await;
    let task = agent.task_in(&id, &["canceled"]).await;
    let used = used(&task);
    let tokens = used["estimatedTokens"].as_u64().unwrap_or_else(|| panic!("{task:#}"));
    assert!(tokens > 50 && used["unpricedTokens"] == tokens, "{used:#}");
    let page = eventually("the metrics count it", async || {
        let page = text(&format!("{}/metrics", node.url)).await;
        page.contains("error_type=\"cut\"").then_some(page)
    })
    .await;
    let counted = page.lines().find(|line| line.starts_with("mesh_model_unpriced_tokens_total{")).unwrap();
    assert!(counted.ends_with(&format!(" {tokens}")), "{counted}, {used:#}");
}
