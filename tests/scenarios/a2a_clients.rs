//! A2A clients that know nothing of the mesh: no skill, repeated messages, wrong keys, unusual JSON.

use crate::harness::{Process, client};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

const OURS: &str = "urn:agent-mesh:ext:task:v1";

const TEAM: &str = "
agents:
  - { agent: one-01, skills: [forge], brain: { exec: [/bin/sh, tell.sh] } }
  - { agent: two-01, skills: [weld, paint], brain: { exec: [/bin/sh, tell.sh] } }
  - { agent: none-01, open: true, brain: { scripted: script.yaml } }
mesh:
  callers: [{ user: alice, apiKey: alices-own-key-0001 }]
";

/// A brain that returns its input line.
const TELL: &str = r#"
read -r ask
text=$(printf '%s' "$ask" | sed 's/\\/\\\\/g; s/"/\\"/g')
printf '{"type":"artifact","name":"asked","text":"%s"}\n' "$text"
echo '{"type":"done"}'
"#;

const SCRIPT: &str = "
turns:
  - { when: { messageId: answer }, end: { done: thanks } }
  - { when: { contains: ask me }, say: [{ type: question, id: q, text: which? }] }
  - { say: [{ type: artifact, name: a.txt, text: made }], end: { done: done } }
";

async fn up() -> Process {
    Process::up_beside(TEAM, &[("tell.sh", TELL), ("script.yaml", SCRIPT)]).await
}

fn called(mesh: &Process, agent: &str, path: &str, body: &Value) -> RequestBuilder {
    client().post(format!("{}{path}", mesh.agents[agent])).header("a2a-version", "1.0").json(body)
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

fn said(id: &str, text: &str) -> Value {
    json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] })
}

async fn sent(mesh: &Process, agent: &str, body: Value) -> (u16, Value) {
    answer(called(mesh, agent, "/a2a/v1/message:send", &body)).await
}

/// The capability and the accepted modes that the brain got.
fn asked(answer: &Value) -> (Value, Value) {
    let text = answer["task"]["artifacts"][0]["parts"][0]["text"].as_str();
    let ask: Value = serde_json::from_str(text.unwrap_or_else(|| panic!("{answer:#}"))).unwrap();
    (ask["task"]["capability"].clone(), ask["task"]["acceptedModes"].clone())
}

#[tokio::test]
async fn a_message_without_a_skill_is_for_its_recipient() {
    let mesh = up().await;
    let modes =
        json!({ "message": said("m", "hello"), "configuration": { "acceptedOutputModes": ["image/png"] } });
    let (_, one) = sent(&mesh, "one-01", modes).await;
    assert_eq!(asked(&one), (json!("forge"), json!(["image/png"])));
    let (_, two) = sent(&mesh, "two-01", json!({ "message": said("m", "hello") })).await;
    assert_eq!(asked(&two), (Value::Null, Value::Null));
    let any = json!({ "message": said("m", "hello"), "metadata": { "skill": "any" } });
    let (_, none) = sent(&mesh, "none-01", any).await;
    assert_eq!(none["task"]["status"]["state"], "TASK_STATE_COMPLETED", "its card offers it: {none}");
}

#[tokio::test]
async fn an_invalid_metadata_member_is_named() {
    let mesh = up().await;
    for (wish, field) in [
        (json!({ "skill": 5 }), "metadata.skill".to_owned()),
        (json!({ OURS: "x" }), format!("metadata.{OURS}")),
        (json!({ OURS: { "capability": ["a"] } }), format!("metadata.{OURS}.capability")),
        (json!({ OURS: { "deadline": 1 } }), format!("metadata.{OURS}.deadline")),
    ] {
        let (status, told) =
            sent(&mesh, "none-01", json!({ "message": said("m", "x"), "metadata": wish })).await;
        let violation = &told["error"]["details"][1]["fieldViolations"][0];
        assert_eq!((status, violation["field"].as_str()), (400, Some(field.as_str())), "{told}");
    }
}

#[tokio::test]
async fn a_repeated_answer_returns_its_task_even_after_the_end() {
    let mesh = up().await;
    let (_, begun) = sent(&mesh, "none-01", json!({ "message": said("q", "ask me") })).await;
    let task = &begun["task"]["id"];
    let mut reply = said("answer", "that one");
    reply["taskId"] = task.clone();
    let body = json!({ "message": reply });
    let send = || called(&mesh, "none-01", "/a2a/v1/message:send", &body).header("a2a-extensions", OURS);
    for _ in 0..2 {
        let (status, told) = answer(send()).await;
        assert_eq!((status, &told["task"]["id"]), (200, task), "{told}");
        assert_eq!(told["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    }
    let (status, _) = answer(called(&mesh, "none-01", "/a2a/v1/message:send", &body)).await;
    assert_eq!(status, 400, "others may use an id twice and mean two things");
}

#[tokio::test]
async fn a_refusal_at_the_edge_has_the_shape_of_the_binding() {
    let mesh = up().await;
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "ListTasks" });
    let forged = |request: RequestBuilder| answer(request.header("x-api-key", "not-one-of-the-keys"));
    let (status, told) = forged(called(&mesh, "one-01", "/a2a/rpc", &body)).await;
    assert_eq!(
        (status, &told["jsonrpc"], &told["error"]["code"]),
        (401, &json!("2.0"), &json!(-32010)),
        "{told}"
    );
    assert!(told["id"].is_null() && told["error"]["data"][0]["domain"] == "a2a-protocol.org");
    let (status, told) = forged(called(&mesh, "one-01", "/a2a/v1/message:send", &body)).await;
    assert_eq!((status, &told["error"]["details"][0]["reason"]), (401, &json!("UNAUTHENTICATED")), "{told}");
    let (status, told) = forged(called(&mesh, "one-01", "/a2a/messages", &body)).await;
    assert_eq!((status, &told["reasonCode"]), (401, &json!("unauthenticated")), "{told}");

    let large = json!({ "message": said("m", &"x".repeat(400 * 1024)) });
    let (status, told) = answer(called(&mesh, "one-01", "/a2a/rpc", &large)).await;
    assert_eq!((status, &told["error"]["code"]), (413, &json!(-32014)), "{told}");
    let packed = called(&mesh, "one-01", "/a2a/v1/message:send", &body).header("content-encoding", "gzip");
    let (status, told) = answer(packed).await;
    assert_eq!((status, &told["error"]["code"]), (400, &json!(400)), "the status is the one it says: {told}");

    let card = format!("{}/.well-known/agent-card.json", mesh.agents["one-01"]);
    let (status, card) = forged(client().get(card)).await;
    assert_eq!((status, &card["name"]), (200, &json!("one-01")), "what is public asks for no credential");
}

#[tokio::test]
async fn invalid_params_and_malformed_json_have_different_codes() {
    let mesh = up().await;
    for (body, code, id) in [
        (r#"{"jsonrpc":"2.0","id":"a","method":"GetTask","params":{"id":"\u0000"}}"#, -32602, json!("a")),
        (r#"{"jsonrpc":"2.0","id":8,"method":"GetTask","params":{"id":"a","id":"b"}}"#, -32602, json!(8)),
        (r#"{"jsonrpc":"2.0","id":8,"method""#, -32700, Value::Null),
    ] {
        let request =
            client().post(format!("{}/a2a/rpc", mesh.agents["one-01"])).header("a2a-version", "1.0");
        let request = request.header("content-type", "application/json").body(body);
        let (_, told) = answer(request).await;
        assert_eq!((&told["error"]["code"], &told["id"]), (&json!(code), &id), "{told}");
    }
}

#[tokio::test]
async fn an_id_is_returned_unchanged_and_a_request_without_one_is_refused() {
    let mesh = up().await;
    let call = async |body: String| {
        let request =
            client().post(format!("{}/a2a/rpc", mesh.agents["one-01"])).header("a2a-version", "1.0");
        request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    };
    for id in ["9007199254740993", "123456789012345678901234567890", "1.10", "-0", "\"1\"", "null"] {
        for method in ["ListTasks", "NoSuchMethod"] {
            let told = call(format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":{id}}}"#)).await;
            assert!(told.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)), "{told}");
            serde_json::from_str::<Value>(&told).unwrap();
        }
    }
    let message = said("m", "hello");
    let told = call(
        json!({ "jsonrpc": "2.0", "method": "SendMessage", "params": { "message": message } }).to_string(),
    )
    .await;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["id"], &told["error"]["code"]), (&Value::Null, &json!(-32600)), "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("id is missing"), "{told}");
    let listed: Value =
        serde_json::from_str(&call(r#"{"jsonrpc":"2.0","method":"ListTasks","id":1}"#.to_owned()).await)
            .unwrap();
    assert_eq!(listed["result"]["totalSize"], 0, "nothing has begun");
}

#[tokio::test]
async fn a_wrong_method_is_answered_with_the_valid_ones() {
    let mesh = up().await;
    for (method, path, allow) in [
        ("PUT", "tasks", "GET, HEAD"),
        ("DELETE", "tasks/t-1", "GET, HEAD"),
        ("GET", "message:send", "POST"),
        ("PATCH", "acme/tasks/t-1/pushNotificationConfigs/c", "GET, HEAD, DELETE"),
    ] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let url = format!("{}/a2a/v1/{path}", mesh.agents["one-01"]);
        let answer = client().request(method, url).header("a2a-version", "1.0").send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.headers()["allow"].to_str().unwrap()),
            (405, allow),
            "{path}"
        );
        let told: Value = answer.json().await.unwrap();
        assert_eq!(
            (&told["error"]["code"], &told["error"]["status"]),
            (&json!(405), &json!("UNIMPLEMENTED")),
            "{told}"
        );
    }
}

#[tokio::test]
async fn a_webhook_at_a_blocked_address_is_refused_with_the_name_of_the_setting() {
    let mesh = up().await;
    let (_, done) = sent(&mesh, "none-01", json!({ "message": said("m", "hello") })).await;
    let path = format!("/a2a/v1/tasks/{}/pushNotificationConfigs", done["task"]["id"].as_str().unwrap());
    for (url, why) in [
        ("http://localhost:9/hook", "localhost leads to"),
        ("https://localhost:9/hook", "localhost leads to"),
        ("http://127.0.0.1:9/hook", "127.0.0.1 is loopback"),
        ("https://192.168.1.1/hook", "192.168.1.1 is private"),
    ] {
        let (status, told) = answer(called(&mesh, "none-01", &path, &json!({ "url": url }))).await;
        let violation = &told["error"]["details"][1]["fieldViolations"][0];
        let said = violation["description"].as_str().unwrap_or_default();
        assert_eq!((status, violation["field"].as_str()), (400, Some("url")), "{told}");
        assert!(said.contains(why) && said.contains("mesh: { outside: { allow:"), "{said}");
    }
}

#[tokio::test]
async fn webhook_credentials_are_encrypted_in_files_that_only_the_owner_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let allowed = TEAM.replace("mesh:\n", "mesh:\n  outside: { allow: [127.0.0.0/8] }\n");
    let mesh = Process::up_beside(&allowed, &[("tell.sh", TELL), ("script.yaml", SCRIPT)]).await;
    let (_, begun) = sent(&mesh, "none-01", json!({ "message": said("m", "ask me") })).await;
    let path = format!("/a2a/v1/tasks/{}/pushNotificationConfigs", begun["task"]["id"].as_str().unwrap());
    let webhook = json!({
        "id": "w-1", "url": "http://127.0.0.1:9/canary-path", "token": "canary-token",
        "authentication": { "scheme": "Bearer", "credentials": "canary-credential" },
    });
    let (status, told) = answer(called(&mesh, "none-01", &path, &webhook)).await;
    assert_eq!(status, 200, "{told}");

    let mesh = mesh.restart().await;
    let url = format!("{}{path}/w-1", mesh.agents["none-01"]);
    let (_, told) = answer(client().get(url).header("a2a-version", "1.0")).await;
    assert_eq!(
        told["authentication"]["credentials"], "canary-credential",
        "its client sees it again: {told}"
    );
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // The directory itself belongs to the test and is readable by others.
    assert_eq!(mode(&mesh.data.join("keys")), 0o700);
    let mut stores = 0;
    for entry in std::fs::read_dir(&mesh.data).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().unwrap().to_string_lossy().starts_with("store.sqlite") {
            continue;
        }
        stores += 1;
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("canary"), "{} tells it", path.display());
    }
    assert!(stores >= 1);
}
