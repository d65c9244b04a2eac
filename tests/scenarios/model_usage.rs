//! Calls of models and tools in traces, metrics and `mesh trace` (deploy/config/TELEMETRY.md).

use crate::harness::{
    Process,
    collector::{Collector, ReceivedSpan, assert_one_tree},
    eventually, file,
    mcp_stub::{McpAnswer, McpStub, tool},
    mesh,
    model_stub::{ModelStub, StubAnswer, calls, says},
    state, text,
};
use serde_json::{Value, json};

/// An agent that reports a call of a model without a price, and one of a tool that failed.
const COUNTER: &str = r#"#!/bin/sh
read -r line
echo '{"type":"tool","id":"t1","name":"wc","error":"tool_error"}'
echo '{"type":"usage","model":"local-1","inputTokens":11,"outputTokens":4}'
echo '{"type":"done","message":"seven"}'
"#;

fn of<'a>(spans: &'a [ReceivedSpan], name: &str) -> Vec<&'a ReceivedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[tokio::test]
async fn calls_of_models_and_tools_are_in_traces_metrics_and_mesh_trace() {
    let tools =
        McpStub::start(json!([tool("read", json!({}))]), |_, _| McpAnswer::Text("canary-result".into()));
    let refusing = ModelStub::start(|_| {
        StubAnswer::Refuses(401, Vec::new(), ["authentication_error", "invalid_api_key", "no such key"])
    });
    let stub = ModelStub::start(|request| match request.results.len() {
        0 => calls(&[("read", json!({})), ("none_such", json!({ "a": "canary-argument" }))]),
        2 => calls(&[("delegate", json!({ "to": "capability:count", "description": "count" }))]),
        _ => says("canary-answer"),
    });
    let dir = crate::harness::directory();
    let counter = file(dir.path(), "counter.sh", COUNTER);
    let yaml = format!(
        "
agents:
  - agent: thinker-01
    skills: [research]
    brain:
      llm:
        model: openai/first
        url: '{}'
        key: k
        fallback: [{{ model: anthropic/second, url: '{}', key: k, price: {{ input: 10, output: 100 }} }}]
        tools: [{{ mcp: '{}' }}]
  - {{ agent: counter-01, skills: [count], brain: {{ exec: [sh, '{}'] }} }}
",
        refusing.url,
        stub.url,
        tools.url,
        counter.display()
    );
    let collector = Collector::start();
    let node = Process::up_in(&collector.environment(), &yaml).await;
    let request = json!({ "taskId": "t-1", "description": "canary-task", "capability": "research" });
    let task = node.agent("thinker-01").ask(request).await;
    assert_eq!(state(&task), "completed", "{task:#}");

    let is_whole = |spans: &[ReceivedSpan]| {
        let is_there = |id: &str| id.is_empty() || spans.iter().any(|span| span.id == id);
        spans.iter().all(|span| is_there(&span.parent))
            && of(spans, "chat second").len() == 3
            && !of(spans, "chat local-1").is_empty()
    };
    let spans = collector.spans_where("the whole trace", is_whole).await;
    assert_one_tree(&spans, None);
    let (failed, answered) = (of(&spans, "chat first"), of(&spans, "chat second"));
    assert_eq!((failed.len(), answered.len()), (3, 3), "{spans:#?}");
    assert!(failed.iter().all(|span| span.has_failed && span.attribute("error.type") == "401"));
    assert!(failed.iter().all(|span| span.attribute("gen_ai.usage.input_tokens").is_empty()));
    let first = answered[0];
    for (name, value) in [
        ("mesh.span", "chat"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "anthropic"),
        ("gen_ai.request.model", "second"),
        ("gen_ai.agent.id", "thinker-01"),
        ("gen_ai.usage.input_tokens", "100"),
        ("mesh.skill", "research"),
        ("mesh.task.id", "t-1"),
        ("langfuse.observation.type", "generation"),
    ] {
        assert_eq!(first.attribute(name), value, "{name} of {first:#?}");
    }
    let reasons: Vec<_> =
        answered.iter().map(|span| span.attribute("gen_ai.response.finish_reasons").to_owned()).collect();
    assert!(reasons[0].contains("tool_call") && reasons[2].contains("stop"), "{reasons:?}");
    let think: Vec<_> = spans.iter().filter(|span| span.attribute("mesh.span") == "think").collect();
    let tool_names =
        ["execute_tool read", "execute_tool unknown", "execute_tool delegate", "execute_tool wc"];
    for name in tool_names {
        let [span] = of(&spans, name)[..] else { panic!("{name}: {spans:#?}") };
        assert!(think.iter().any(|think| think.id == span.parent), "{name} is no child of a turn");
        assert_eq!(span.has_failed, name.ends_with("unknown") || name.ends_with("wc"), "{span:#?}");
    }
    assert!(answered.iter().all(|span| think.iter().any(|think| think.id == span.parent)));
    assert!(!collector.raw().contains("canary-"), "content is in a span");

    let metrics = eventually("the metrics", async || {
        let page = text(&format!("{}/metrics", node.url)).await;
        page.contains("agent=\"counter-01\"").then_some(page)
    })
    .await;
    let who = "agent=\"thinker-01\",capability=\"research\"";
    let model = "gen_ai_provider_name=\"anthropic\",gen_ai_request_model=\"second\"";
    for line in [
        format!("gen_ai_client_token_usage_sum{{gen_ai_operation_name=\"chat\",{model},gen_ai_token_type=\"input\",{who}}} 300.0"),
        format!("gen_ai_client_operation_duration_seconds_count{{gen_ai_operation_name=\"chat\",{model},error_type=\"\",{who}}} 3"),
        "mesh_model_unpriced_tokens_total{gen_ai_request_model=\"local-1\",agent=\"counter-01\",capability=\"count\"} 15".into(),
    ] {
        assert!(metrics.lines().any(|known| known == line), "no {line} in\n{metrics}");
    }
    assert!(
        metrics.contains("error_type=\"401\"") && metrics.contains("mesh_model_cost_total{"),
        "{metrics}"
    );
    assert!(!metrics.contains("canary") && !metrics.contains("t-1\""), "{metrics}");

    let url = [("MESH_URL", node.url.as_str())];
    let (code, shown, errors) = mesh(&["trace", "t-1"], &url);
    assert_eq!(code, 0, "{errors}");
    assert!(
        !shown.contains("chat second") && shown.contains("turn 1, 4 calls of first, second (2 failed)"),
        "{shown}"
    );
    let row = |agent: &str| {
        shown
            .lines()
            .rfind(|line| line.contains(agent) && line.contains("local-1") | line.contains("second"))
            .unwrap_or_else(|| panic!("{shown}"))
    };
    let thinker = row("thinker-01");
    assert!(
        thinker.contains("6 (3 failed)") && thinker.contains("delegate, read, unknown (1 failed)"),
        "{shown}"
    );
    assert!(row("counter-01").contains("unknown") && row("counter-01").contains("wc (1 failed)"), "{shown}");
    let (_, whole, _) = mesh(&["trace", "t-1", "--calls"], &url);
    assert!(whole.contains("chat second") && whole.contains("execute_tool read"), "{whole}");
    let (_, json, _) = mesh(&["trace", "t-1", "--json"], &url);
    let json: Value = serde_json::from_str(&json).unwrap();
    let usage = json["usage"].as_array().unwrap();
    let used = usage.iter().find(|usage| usage["agent"] == "thinker-01").unwrap();
    assert_eq!(
        (&used["inputTokens"], &used["failedModelCalls"], &used["taskId"]),
        (&json!(300), &json!(3), &json!("t-1"))
    );
    let output = used["outputTokens"].as_f64().unwrap();
    let cost = used["cost"].as_f64().unwrap();
    assert!((cost - (300.0 * 10.0 + output * 100.0) / 1e6).abs() < 1e-9, "{used}");
    let counter = usage.iter().find(|usage| usage["agent"] == "counter-01").unwrap();
    assert_eq!((&counter["cost"], &counter["unpricedTokens"]), (&Value::Null, &json!(15)), "{counter}");
}
