//! Bids of agents with a language model: `bid: { ask: brain }` asks the model for terms.

use crate::harness::{
    Process, eventually, message,
    model_stub::{ModelStub, StubAnswer, says},
    state,
};
use serde_json::{Value, json};

const MANAGER: &str = "{ agent: manager-01, brain: { echo: {} } }";

fn bidder(id: &str, stub: &ModelStub, bid: &str) -> String {
    let llm = format!("model: openai/stub-1, url: '{}', instructions: ./bidder.md", stub.url);
    format!("{{ agent: {id}, skills: [dig], bid: {{ {bid} }}, brain: {{ llm: {{ {llm} }} }} }}")
}

async fn up(agents: &[String]) -> Process {
    let auction = "mesh: { auction: { bidWindowMs: 600000 } }";
    let yaml = format!("{auction}\nagents: [{MANAGER}, {}]", agents.join(", "));
    Process::up_beside(&yaml, &[("bidder.md", "You dig holes.")]).await
}

/// The bid of an agent in the award of a task, or why there is none.
async fn candidate(mesh: &Process, task: &str, agent: &str) -> Value {
    let award = mesh.agent("manager-01").award(task).await;
    let candidates = award["rounds"][0]["candidates"].as_array().unwrap().clone();
    candidates.into_iter().find(|candidate| candidate["agent"] == agent).unwrap()
}

async fn ask(mesh: &Process, id: &str) -> Value {
    let request = json!({ "taskId": id, "capability": "dig", "description": format!("Dig a hole: {id}") });
    mesh.agent("manager-01").ask(request).await
}

#[tokio::test]
async fn a_model_bids_with_its_own_terms_or_declines_and_its_tokens_are_counted() {
    let is_call = |user: &str| user.contains("asks for your terms");
    let stub = ModelStub::start(move |request| match request.user[0].as_str() {
        call if is_call(call) && call.contains("sand") => {
            says(r#"{"bid":true,"cost":3,"etaSeconds":90,"match":0.5}"#)
        }
        call if is_call(call) => says(r#"{"bid":false,"reason":"I dig in sand only"}"#),
        _ => says("dug by a model"),
    });
    let computed = ModelStub::start(|_| says("dug by the other"));
    let mesh = up(&[
        bidder("asked-01", &stub, "cost: 1, eta: 1s, ask: brain, within: 3s"),
        bidder("computed-01", &computed, "cost: 5, eta: 1s"),
    ])
    .await;
    ask(&mesh, "sand").await;
    let bid = candidate(&mesh, "sand", "asked-01").await["bid"].clone();
    assert_eq!(
        (&bid["cost"], &bid["eta"], &bid["capabilityMatch"]),
        (&json!(3.0), &json!(90_000), &json!(0.5)),
        "{bid:#}"
    );
    let task = ask(&mesh, "rock").await;
    assert_eq!((state(&task).as_str(), message(&task).contains("other")), ("completed", false), "{task:#}");
    let passed = candidate(&mesh, "rock", "asked-01").await;
    assert_eq!((&passed["bid"], &passed["why"]), (&Value::Null, &json!("I dig in sand only")), "{passed:#}");

    let calls: Vec<_> = stub.requests().into_iter().filter(|request| is_call(&request.user[0])).collect();
    assert_eq!(calls.len(), 2);
    let schema = &calls[0].body["response_format"]["json_schema"]["schema"];
    assert!(
        schema["properties"]["etaSeconds"].is_object() && calls[0].tools.is_empty(),
        "{:#}",
        calls[0].body
    );
    assert!(calls[0].system.contains("You dig holes.") && !calls[0].system.contains("sand"));
    let (_, data) = calls[0].user[0].split_once("BEGIN DATA").unwrap();
    assert!(data.contains("Dig a hole: sand") && data.contains("\"cost\": 1.0"), "{data}");
    assert_eq!(computed.requests().iter().filter(|request| is_call(&request.user[0])).count(), 0);
    let state = mesh.agent("asked-01").state().await;
    assert!(state["counts"]["bidUsage"]["inputTokens"].as_u64().unwrap() > 0, "{state:#}");
}

#[tokio::test]
async fn a_model_that_gives_no_valid_bid_in_time_is_stood_in_for_by_the_next_or_by_the_computed_bid() {
    let broken = ModelStub::start(|_| says("gladly, for 5"));
    let refusing = ModelStub::start(|_| {
        StubAnswer::Refuses(401, Vec::new(), ["authentication_error", "invalid_api_key", "no such key"])
    });
    let hanging = ModelStub::start(|_| StubAnswer::Hangs);
    let second = ModelStub::start(|_| says(r#"{"bid":true,"cost":7}"#));
    let fallback = format!(
        "{{ agent: falls-01, skills: [dig], bid: {{ cost: 1, ask: brain, within: 20s }}, brain: {{ llm: {{ model: openai/stub-1, url: '{}', fallback: [{{ model: openai/stub-2, url: '{}' }}] }} }} }}",
        refusing.url, second.url
    );
    let mesh = up(&[
        bidder("broken-01", &broken, "cost: 1, ask: brain, within: 20s"),
        bidder("hanging-01", &hanging, "cost: 1, ask: brain, within: 300ms"),
        fallback,
    ])
    .await;
    mesh.agent("manager-01")
        .send(json!({ "taskId": "t-1", "capability": "dig", "description": "Dig" }))
        .await;
    eventually("all have bid", async || {
        let award = mesh.agent("manager-01").award("t-1").await;
        let candidates = award["rounds"][0]["candidates"].as_array()?;
        let bids = candidates.iter().filter(|candidate| candidate["bid"].is_object());
        (bids.count() == 3).then_some(())
    })
    .await;
    for (agent, cost) in [("broken-01", 1.0), ("hanging-01", 1.0), ("falls-01", 7.0)] {
        let candidate = candidate(&mesh, "t-1", agent).await;
        assert_eq!(candidate["bid"]["cost"], cost, "{candidate:#}");
    }
    let log = mesh.log();
    for part in ["the answer is not valid", "did not answer within 300 ms"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    eventually("the request is closed", async || (hanging.open() == 0).then_some(())).await;
    let state = mesh.agent("hanging-01").state().await;
    let used = &state["counts"]["bidUsage"];
    assert!(used["estimatedTokens"].as_u64().unwrap() > 50, "the call that was cut is counted: {used:#}");
}
