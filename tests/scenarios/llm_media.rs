//! Images and PDFs reach models that see (tests/cases/README.md, case 13), and models that don't are told.

use super::llm::{model, team};
use crate::harness::{
    Process, artifact, client, eventually,
    mcp_stub::{McpAnswer, McpStub, tool},
    model_stub::{ModelStub, StubAnswer, StubRequest, calls, says},
    state,
};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A PNG of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SEES: &str = ", sees: [image, pdf]";

/// Sends a message of A2A with these parts; returns the status and the answer.
async fn sent(node: &Process, parts: Value) -> (u16, Value) {
    let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": parts });
    let url = format!("{}/a2a/v1/message:send", node.agents["thinker-01"]);
    let request = client().post(url).header("a2a-version", "1.0").json(&json!({ "message": message }));
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn look() -> Value {
    json!([{ "text": "What is it?" }, { "raw": PIXEL, "mediaType": "image/png", "filename": "shot.png" }])
}

/// How often the image is in a request.
fn images(request: &StubRequest) -> usize {
    request.body.to_string().matches(PIXEL).count()
}

/// The texts of the user in a request.
fn told(request: &StubRequest) -> String {
    request.user.join("\n")
}

#[tokio::test]
async fn an_image_of_a_message_reaches_a_model_in_each_dialect() {
    let stub = ModelStub::start(|_| says("a pixel"));
    for (name, dialect, path) in [
        ("openai/m", "chat", "/messages/2/content/1/image_url/url"),
        ("openai/m", "responses", "/input/1/content/1/image_url"),
        ("anthropic/m", "messages", "/messages/0/content/2/source/data"),
    ] {
        let model = format!("model: {name}, url: '{}', key: k, dialect: {dialect}{SEES}", stub.url);
        let node = Process::up(&team(&model)).await;
        let (status, answer) = sent(&node, look()).await;
        assert_eq!(
            (status, &answer["task"]["status"]["state"]),
            (200, &json!("TASK_STATE_COMPLETED")),
            "{answer:#}"
        );
        let request = stub.requests().pop().unwrap();
        assert_eq!(images(&request), 1, "{:#}", request.body);
        let content = request
            .body
            .pointer(path)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("{:#}", request.body));
        assert!(content.ends_with(PIXEL), "{dialect}: {content}");
        assert!(told(&request).contains("file \"shot.png\", image/png, 70 bytes"), "{}", told(&request));
    }
}

#[tokio::test]
async fn an_image_of_a_tool_reaches_the_model_also_after_a_kill_and_once_more_when_it_is_read() {
    let tools = McpStub::start(json!([tool("screenshot", json!({}))]), |_, _| {
        McpAnswer::Image("image/png", PIXEL.to_owned())
    });
    let hung = Arc::new(AtomicBool::new(false));
    let has_hung = hung.clone();
    let stub = ModelStub::start(move |request| match request.results.len() {
        0 => calls(&[("screenshot", json!({}))]),
        1 if !has_hung.swap(true, Ordering::SeqCst) => StubAnswer::Hangs,
        1 => calls(&[("read_artifact", json!({ "artifact": "screenshot-c1_0-file-1" }))]),
        _ => says("a pixel"),
    });
    for format in ["openai", "anthropic"] {
        hung.store(false, Ordering::SeqCst);
        let llm = format!("{}{SEES}, tools: [{{ mcp: '{}' }}]", model(&stub, format), tools.url);
        let node = Process::up(&team(&llm)).await;
        let id = node.agent("thinker-01").send(json!({ "description": "Look." })).await;
        eventually("the model is asked with the result", async || hung.load(Ordering::SeqCst).then_some(()))
            .await;
        let before = tools.calls().len();
        let node = node.restart().await;
        let task = node.agent("thinker-01").task_in(&id, &["completed", "failed"]).await;
        assert_eq!(artifact(&task, "answer").as_deref(), Some("a pixel"), "{task:#}");
        let requests = stub.requests();
        let seen: Vec<_> = requests[requests.len() - 4..].iter().map(images).collect();
        assert_eq!(seen, [0, 1, 1, 2], "{format}");
        assert_eq!(tools.calls().len(), before, "the tool is not called again");
        assert!(requests.last().unwrap().results[0].contains("kept as an artifact"));
        assert!(artifact(&task, "screenshot-c1_0-file-1").is_some(), "{task:#}");
    }
}

#[tokio::test]
async fn an_image_of_a_peer_reaches_the_model() {
    let stub = ModelStub::start(|request| match request.results.len() {
        0 => calls(&[("delegate", json!({ "to": "painter-01", "description": "Paint." }))]),
        _ => says("a pixel"),
    });
    let painter = "#!/bin/sh\nread -r line\necho '{\"type\":\"artifact\",\"name\":\"shot.png\",\"mediaType\":\"image/png\",\"raw\":\"PIXEL\"}'\necho '{\"type\":\"done\"}'\n";
    let yaml = team(&format!("{}{SEES}", model(&stub, "openai")))
        + "  - { agent: painter-01, skills: [paint], brain: { exec: [sh, painter.sh] } }\n";
    let node = Process::up_beside(&yaml, &[("painter.sh", &painter.replace("PIXEL", PIXEL))]).await;
    let task = node.agent("thinker-01").ask(json!({ "description": "Have it painted." })).await;
    assert_eq!(artifact(&task, "answer").as_deref(), Some("a pixel"), "{task:#}");
    let requests = stub.requests();
    assert_eq!(requests.iter().map(images).collect::<Vec<_>>(), [0, 1], "{:#}", requests[1].body);
}

#[tokio::test]
async fn a_model_that_can_not_see_is_told_and_its_agent_offers_no_images() {
    let stub = ModelStub::start(|_| says("no idea"));
    let node = Process::up(&team(&model(&stub, "openai"))).await;
    let card: Value = client()
        .get(format!("{}/.well-known/agent-card.json", node.agents["thinker-01"]))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    let modes = card["defaultInputModes"].to_string();
    assert!(!modes.contains("image") && !modes.contains("pdf") && modes.contains("text/plain"), "{modes}");
    let (status, refused) = sent(&node, look()).await;
    assert!(
        status == 400 && refused.to_string().contains("CONTENT_TYPE_NOT_SUPPORTED"),
        "{status} {refused:#}"
    );
    assert!(stub.requests().is_empty());

    let modes = team(&model(&stub, "openai"))
        .replace("    brain:", "    a2a: { inputModes: [text/plain, image/png] }\n    brain:");
    let node = Process::up(&modes).await;
    let (status, answer) = sent(&node, look()).await;
    assert_eq!(status, 200, "{answer:#}");
    let request = stub.requests().pop().unwrap();
    assert_eq!(images(&request), 0);
    assert!(told(&request).contains("image/png, 70 bytes: this model can't see it]"), "{}", told(&request));
}

#[tokio::test]
async fn an_image_that_is_too_large_or_that_the_server_does_not_take_is_named() {
    let stub = ModelStub::start(|request| match images(request) {
        0 => says("no idea"),
        _ => StubAnswer::Returns(
            400,
            json!({ "error": { "message": "this model does not support image input" } }),
        ),
    });
    for (most, told_of) in
        [(9, "larger than the 9 bytes that its provider takes"), (99, "its provider does not take it")]
    {
        let rules = format!(
            "providers: {{ eye: {{ url: '{}', models: {{ '*': {{ sees: [image], maxImage: {most} }} }} }} }}\n",
            stub.url
        );
        let node = Process::up(&(team("model: eye/m, key: k") + &rules)).await;
        let (status, answer) = sent(&node, look()).await;
        assert_eq!(
            (status, &answer["task"]["status"]["state"]),
            (200, &json!("TASK_STATE_COMPLETED")),
            "{answer:#}"
        );
        let request = stub.requests().pop().unwrap();
        assert!(told(&request).contains(told_of), "{}", told(&request));
    }
    assert_eq!(stub.requests().iter().map(images).collect::<Vec<_>>(), [0, 1, 0]);
}

#[tokio::test]
async fn an_image_that_is_sent_later_is_shown_beside_its_message() {
    let stub = ModelStub::start(|request| match request.results.len() {
        0 => calls(&[("ask_person", json!({ "question": "Which?" }))]),
        _ => says("that one"),
    });
    let node = Process::up(&team(&format!("{}{SEES}", model(&stub, "anthropic")))).await;
    let (_, begun) = sent(&node, json!([{ "text": "Choose." }])).await;
    let id = begun["task"]["id"].as_str().unwrap().to_owned();
    let parts =
        json!([{ "text": "This one." }, { "raw": PIXEL, "mediaType": "image/png", "filename": "shot.png" }]);
    let message = json!({ "messageId": "reply", "taskId": id, "role": "ROLE_USER", "parts": parts });
    let url = format!("{}/a2a/v1/message:send", node.agents["thinker-01"]);
    let answer = client()
        .post(url)
        .header("a2a-version", "1.0")
        .json(&json!({ "message": message }))
        .send()
        .await
        .unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    let task = node.agent("thinker-01").task_in(&id, &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let request = stub.requests().pop().unwrap();
    assert_eq!(images(&request), 1, "{:#}", request.body);
}

#[tokio::test]
async fn large_images_and_texts_are_read_from_their_files() {
    let encode = |content: &[u8]| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, content);
    let pixel = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, PIXEL).unwrap();
    let noise: Vec<u8> = (0..90_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (image, untyped) =
        (encode(&[&pixel[..], &noise].concat()), encode(&[&pixel[..], &noise[1..]].concat()));
    let table = format!("first,second\n{}", "1,2\n".repeat(20_000));
    let stub = ModelStub::start(|request| match request.results.len() {
        0 => calls(&[("read_signals", json!({}))]),
        _ => says("large"),
    });
    let node = Process::up(&team(&format!("{}{SEES}", model(&stub, "openai")))).await;
    let parts = json!([
        { "text": "What is it?" }, { "raw": image, "mediaType": "image/png" }, { "raw": untyped },
        { "raw": encode(table.as_bytes()), "mediaType": "text/csv", "filename": "table.csv" },
    ]);
    let (status, answer) = sent(&node, parts).await;
    assert_eq!(
        (status, &answer["task"]["status"]["state"]),
        (200, &json!("TASK_STATE_COMPLETED")),
        "{answer:#}"
    );
    for request in stub.requests() {
        let body = request.body.to_string();
        assert!(body.contains(&image) && body.contains(&untyped), "{}", told(&request));
        assert!(
            told(&request).contains("first,second\n1,2\n") && !body.contains("mesh-blob:"),
            "{}",
            told(&request)
        );
    }
    assert_eq!(stub.requests().len(), 2);
}
