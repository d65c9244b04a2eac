//! Servers of models as people have met them, each by a public report (tests/cases/README.md). The server is played by the test as the
//! report says.

use super::llm::{model, team};
use crate::harness::{
    Process, artifact, eventually, message,
    model_stub::{ModelStub, StubAnswer, StubRequest, calls, says},
    state,
};
use serde_json::{Value, json};

async fn ask(node: &Process, description: &str) -> Value {
    node.agent("thinker-01").ask(json!({ "description": description })).await
}

/// Asks an agent whose model is `name` behind the stub; returns its task and the events of it as text.
async fn asked(stub: &ModelStub, name: &str) -> (Value, String) {
    asked_with(stub, name, "").await
}

async fn asked_with(stub: &ModelStub, name: &str, more: &str) -> (Value, String) {
    let node = Process::up(&team(&format!("model: {name}, url: '{}', key: k{more}", stub.url))).await;
    let task = ask(&node, "Do it.").await;
    let agent = node.agent("thinker-01");
    let id = task["id"].as_str().unwrap();
    let events = crate::harness::text(&format!("{}/a2a/tasks/{id}/events?limit=200", agent.url)).await;
    (task, events)
}

fn answer_of(task: &Value) -> String {
    assert_eq!(state(task), "completed", "{task:#}");
    artifact(task, "answer").unwrap_or_else(|| panic!("{task:#}"))
}

fn refuses(status: u16, message: &str) -> StubAnswer {
    StubAnswer::Returns(
        status,
        json!({ "error": { "message": message, "type": "invalid_request_error", "param": null } }),
    )
}

/// A chunk of Chat Completions with this delta.
fn chunk(delta: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn done() -> Value {
    json!("[DONE]")
}

/// The assistant's messages of a request.
fn assistants(request: &StubRequest) -> Vec<Value> {
    let messages = request.body["messages"].as_array().unwrap();
    messages.iter().filter(|message| message["role"] == "assistant").cloned().collect()
}

#[tokio::test]
async fn a_model_that_takes_tools_in_responses_only_is_asked_there() {
    let stub = ModelStub::start(|request| match (request.is_response, request.results.len()) {
        (false, _) => refuses(
            400,
            "Function tools with reasoning_effort are not supported for gpt-5.6-sol in /v1/chat/completions. Please use /v1/responses instead.",
        ),
        (true, 0) => calls(&[("read_signals", json!({}))]),
        (true, _) => says("by responses"),
    });
    let (task, events) = asked(&stub, "openai/gpt-5.6-sol").await;
    assert_eq!(answer_of(&task), "by responses");
    assert!(events.contains("asks by the Responses API"), "{events}");
    let requests = stub.requests();
    let of_responses: Vec<_> = requests.iter().filter(|request| request.is_response).collect();
    assert_eq!((requests.len(), of_responses.len()), (3, 2), "it is refused once, and remembered");
    let input = of_responses[1].body["input"].to_string();
    assert!(
        input.contains("\"encrypted_content\":\"sealed\"") && input.contains("\"call_id\":\"call_0\""),
        "{input}"
    );
    assert_eq!(of_responses[1].body["store"], false);
    // A dialect that somebody has set is not changed.
    let (task, _) = asked_with(&stub, "openai/gpt-5.6-luna", ", dialect: chat").await;
    assert!(message(&task).contains("use /v1/responses instead"), "{task:#}");
}

#[tokio::test]
async fn reasoning_goes_back_to_a_server_that_wants_it_also_after_a_kill() {
    let stub = ModelStub::start(|request| {
        let lacks = assistants(request).iter().any(|message| message["reasoning_content"] != "I should ask.");
        match request.results.len() {
            _ if lacks => {
                refuses(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
            }
            0 => StubAnswer::Sends(vec![
                chunk(json!({ "role": "assistant", "reasoning_content": "I should " })),
                chunk(json!({ "reasoning_content": "ask." })),
                chunk(json!({ "tool_calls": [{ "index": 0, "id": "call_00_abc", "function": {
                    "name": "ask_person", "arguments": "{\"question\":\"Red or blue?\"}",
                } }] })),
                json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] }),
                done(),
            ]),
            _ => says("blue it is"),
        }
    });
    for name in ["deepseek/deepseek-v4-pro", "openai/deepseek-v4-pro", "some-new-thinker"] {
        let node = Process::up(&team(&format!("model: {name}, url: '{}', key: k", stub.url))).await;
        let id = node.agent("thinker-01").send(json!({ "description": "Paint." })).await;
        node.agent("thinker-01").task_in(&id, &["input_required"]).await;
        let mut node = node;
        node.kill();
        let node = node.restart().await;
        let agent = node.agent("thinker-01");
        let answered =
            agent.call_on_task(reqwest::Method::POST, &id, "/answer", Some(&json!({ "text": "blue" }))).await;
        assert_eq!(answered.status, 200, "{answered:?}");
        let task = agent.task_in(&id, &["completed", "failed"]).await;
        assert_eq!(answer_of(&task), "blue it is", "{name}");
    }
    let last = stub.requests().pop().unwrap();
    assert_eq!(assistants(&last)[0]["tool_calls"][0]["id"], "call_00_abc", "the id as it was given");
}

#[tokio::test]
async fn ids_of_calls_have_the_form_that_the_server_takes() {
    let stub = ModelStub::start(|request| {
        let ids: Vec<_> = assistants(request)
            .iter()
            .flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default())
            .map(|call| call["id"].as_str().unwrap().to_owned())
            .collect();
        let is_right = |id: &String| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match request.results.len() {
            _ if !ids.iter().all(is_right) => StubAnswer::Returns(
                400,
                json!({
                    "object": "error", "code": 3280, "type": "invalid_request_error",
                    "message": format!("Tool call id was {ids:?} but must be a-z, A-Z, 0-9, with a length of 9."),
                }),
            ),
            _ if request.body.get("stream_options").is_some() => {
                refuses(422, "Extra inputs are not permitted: stream_options")
            }
            // The stub gives all calls the same id.
            0 | 1 => calls(&[("read_signals", json!({ "limit": request.results.len() + 1 }))]),
            _ => says("nine"),
        }
    });
    for name in ["mistral/mistral-large-latest", "mistralai/devstral-small"] {
        assert_eq!(answer_of(&asked(&stub, name).await.0), "nine", "{name}");
    }
}

#[tokio::test]
async fn a_tool_whose_schema_is_refused_is_left_out_and_named() {
    let stub = ModelStub::start(|request| {
        let at = request.tools.iter().position(|name| name == "read_signals");
        match at {
            Some(at) => refuses(400, &format!("tools.{at}.custom.input_schema: JSON schema is invalid")),
            None => says("without it"),
        }
    });
    for format in ["openai/m", "anthropic/m"] {
        let (task, events) = asked(&stub, format).await;
        assert_eq!(answer_of(&task), "without it", "{format}");
        assert!(events.contains("does not offer the tool read_signals"), "{events}");
    }
}

#[tokio::test]
async fn a_member_that_is_refused_is_left_out_unless_a_person_has_set_it() {
    let detail = json!({ "detail": [{ "type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted" }] });
    let stub = ModelStub::start(move |request| match request.body.get("stream_options").is_some() {
        true => StubAnswer::Returns(422, detail.clone()),
        false => says("fine"),
    });
    let (task, events) = asked(&stub, "some-model").await;
    assert_eq!(answer_of(&task), "fine");
    assert!(events.contains("leaves out `stream_options`"), "{events}");
    assert_eq!(stub.requests().len(), 2);
    let (task, _) =
        asked_with(&stub, "some-model", ", body: { stream_options: { include_usage: false } }").await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("stream_options"), "{task:#}");
}

#[tokio::test]
async fn an_answer_in_any_form_is_read_once() {
    let call = |call: Value| chunk(json!({ "tool_calls": [call] }));
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("no reason for the end", vec![chunk(json!({ "content": "fine" })), done()]),
        (
            "content as a list",
            vec![
                chunk(
                    json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] }] }),
                ),
                chunk(json!({ "content": [{ "type": "text", "text": "fine" }] })),
                done(),
            ],
        ),
        (
            "reasoning in the text",
            vec![
                chunk(json!({ "content": "<think>hm</think>\n\nfi" })),
                chunk(json!({ "content": "ne" })),
                done(),
            ],
        ),
        (
            "null members",
            vec![
                json!({ "choices": [{ "delta": { "content": null, "tool_calls": null, "role": null } }], "usage": null, "error": null }),
                chunk(json!({ "content": "fine" })),
                done(),
            ],
        ),
        (
            "usage alone first",
            vec![
                json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 0 } }),
                chunk(json!({ "content": "fine" })),
                done(),
            ],
        ),
    ];
    for (name, events) in cases {
        let stub = ModelStub::start(move |_| StubAnswer::Sends(events.clone()));
        assert_eq!(answer_of(&asked(&stub, "some-model").await.0), "fine", "{name}");
        assert_eq!(stub.requests().len(), 1, "{name}: an answer that was paid for is not asked for again");
    }
    for (name, events) in [
        (
            "a name in pieces",
            vec![
                call(json!({ "index": 0, "id": "a", "function": { "name": "read_" } })),
                call(json!({ "index": 0, "function": { "name": "signals", "arguments": "{}" } })),
                done(),
            ],
        ),
        (
            "arguments that are null",
            vec![
                call(
                    json!({ "index": 0, "id": "a", "function": { "name": "read_signals", "arguments": null } }),
                ),
                done(),
            ],
        ),
        (
            "no index and no id",
            vec![call(json!({ "function": { "name": "read_signals", "arguments": "{}" } })), done()],
        ),
        (
            "a message in place of a delta",
            vec![
                json!({ "choices": [{ "message": { "content": "", "tool_calls": [
            { "id": "a", "function": { "name": "read_signals", "arguments": {} } },
        ] }, "finish_reason": "stop" }] }),
                done(),
            ],
        ),
    ] {
        let stub = ModelStub::start(move |request| match request.results.len() {
            0 => StubAnswer::Sends(events.clone()),
            _ => says("fine"),
        });
        assert_eq!(answer_of(&asked(&stub, "some-model").await.0), "fine", "{name}");
        assert_eq!(stub.requests().len(), 2, "{name}");
    }
    let whole = json!({ "choices": [{ "message": { "role": "assistant", "content": "fine" }, "finish_reason": "stop" }] });
    let stub = ModelStub::start(move |_| StubAnswer::Returns(200, whole.clone()));
    assert_eq!(answer_of(&asked(&stub, "some-model").await.0), "fine", "no stream at all");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_three_times_and_no_more() {
    for (name, events) in [
        ("no end", vec![chunk(json!({ "content": "I will " }))]),
        (
            "an error as text",
            vec![chunk(json!({ "content": "I " })), json!({ "error": "upstream overloaded" })],
        ),
        (
            "an error of another shape",
            vec![json!({ "object": "error", "message": "upstream overloaded", "code": 50_000 })],
        ),
    ] {
        let shows = if name == "no end" { "broke off" } else { "upstream overloaded" };
        let stub = ModelStub::start(move |_| StubAnswer::Sends(events.clone()));
        let (task, events) = asked(&stub, "some-model").await;
        assert_eq!(state(&task), "failed", "{name}: {task:#}");
        assert!(message(&task).contains(shows), "{name}: {task:#}");
        assert!(events.contains(shows), "{name}: the status says so");
        assert!(stub.requests().len() >= 3, "{name}");
    }
}

#[tokio::test]
async fn calls_that_turn_in_a_circle_end_the_task() {
    let stub = ModelStub::start(|_| calls(&[("read_signals", json!({ "types": ["acme.none"] }))]));
    let (task, _) = asked(&stub, "some-model").await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("loop: the model has called read_signals 5 times in a row"), "{task:#}");
    let told =
        stub.requests().iter().filter(|request| request.user.last().unwrap().contains("in a row")).count();
    assert_eq!((told, stub.requests().len()), (2, 5), "it is not awarded to the agent again");
    assert!(message(&task).starts_with("loop: "), "{task:#}");
}

#[tokio::test]
async fn a_call_that_is_left_in_the_text_is_no_result() {
    let text = r#"<tool_call>{"name":"read_signals","arguments":{}}</tool_call>"#;
    let stub = ModelStub::start(move |request| match request.results.len() {
        0 => says(text),
        _ => says("fine"),
    });
    let (task, _) = asked(&stub, "some-model").await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("its server lacks a parser"), "{task:#}");
    // A team's own provider says that such text is a call.
    let team = team("model: gpu/qwen-next, key: k")
        + &format!(
            "providers: {{ gpu: {{ url: '{}', models: {{ 'qwen-*': {{ textCalls: true }} }} }} }}\n",
            stub.url
        );
    let node = Process::up(&team).await;
    assert_eq!(answer_of(&ask(&node, "Do it.").await), "fine");
}

#[tokio::test]
async fn what_is_kept_and_not_taken_any_more_is_left_out_once() {
    let stub = ModelStub::start(|request| {
        let input = request.body["input"].to_string();
        match request.results.len() {
            0 => calls(&[("read_signals", json!({}))]),
            _ if input.contains("encrypted_content") => {
                refuses(400, "The encrypted content for item rs_1 could not be verified.")
            }
            _ => says("fine"),
        }
    });
    let (task, events) = asked_with(&stub, "openai/m", ", dialect: responses").await;
    assert_eq!(answer_of(&task), "fine");
    assert!(events.contains("leaves its earlier reasoning out"), "{events}");
}

#[tokio::test]
async fn settings_are_sent_and_the_conversation_is_marked_for_the_cache() {
    let stub = ModelStub::start(|request| match request.results.len() {
        0 => calls(&[("read_signals", json!({}))]),
        _ => says("fine"),
    });
    let more = ", effort: low, temperature: 0.5, topP: 0.9, stop: [END], seed: 7, maxTokens: 99, headers: { X-Team: a }, body: { user: u }, instructions: 'Be very brief.'";
    assert_eq!(answer_of(&asked_with(&stub, "openai/m", more).await.0), "fine");
    let request = stub.requests().pop().unwrap();
    let expected = json!({
        "reasoning_effort": "low", "temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 7,
        "max_completion_tokens": 99, "user": "u",
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&request.body[name], value, "{name}");
    }
    assert_eq!(request.headers["x-team"], "a");
    assert!(request.system.contains("Be very brief."), "{}", request.system);
    assert_eq!(answer_of(&asked(&stub, "anthropic/m").await.0), "fine");
    let request = stub.requests().pop().unwrap();
    let last = request.body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert!(last.as_array().unwrap().last().unwrap()["cache_control"].is_object(), "{last:#}");
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_shortened_whatever_the_error_looks_like() {
    let is_long = |request: &StubRequest| request.body.to_string().len() > 60_000;
    let stub = ModelStub::start(move |request| match request.results.len() {
        _ if is_long(request) => StubAnswer::Returns(
            400,
            json!({
                "object": "error", "code": 400, "type": "BadRequestError",
                "message": "This model's maximum context length is 2048 tokens. However, you requested 9000 tokens.",
            }),
        ),
        // The results of these are errors, each with what was asked for.
        count if count < 12 => {
            calls(&[("read_artifact", json!({ "artifact": format!("{count}{}", "x".repeat(6_000)) }))])
        }
        _ => says("fine"),
    });
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let id = node.agent("thinker-01").send(json!({ "description": "Read all." })).await;
    let events = eventually("the conversation to be shortened", async || {
        let url = format!("{}/a2a/tasks/{id}/events?limit=500", node.agent("thinker-01").url);
        let events = crate::harness::text(&url).await;
        events.contains("the conversation is too long; dropped").then_some(events)
    })
    .await;
    assert!(!events.contains("status 400"), "{events}");
}
