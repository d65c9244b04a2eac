//! Clients of A2A 0.3, which speak JSON of their own and name no version.

use crate::harness::{Process, client, receive_notification};
use protocol::a2a::card_signature::{PublicKey, verify};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const TEAM: &str = "
agents:
  - { agent: old-01, open: true, brain: { scripted: script.yaml }, bid: { maxParallel: 8 }, a2a: { direct: true } }
  - { agent: new-01, open: true, brain: { scripted: script.yaml }, a2a: { extendedCard: false } }
mesh:
  outside: { allow: [127.0.0.0/8] }
  callers: [{ user: alice, apiKey: alices-own-key-0001 }]
";

const SCRIPT: &str = "
turns:
  - { when: { contains: just say }, end: { message: said } }
  - { when: { messageId: last-word }, end: { done: so it is } }
  - { when: { contains: ask me }, say: [{ type: question, id: q, text: which? }] }
  - { when: { contains: slowly }, say: [{ type: status, message: one }, { type: status, message: two }], delayMs: 300, end: { done: done } }
  - { say: [{ type: artifact, name: a.txt, text: made }, { type: artifact, name: b.json, data: { n: 1 } }], end: { done: done } }
";

async fn up() -> Process {
    Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await
}

fn at(mesh: &Process, path: &str) -> String {
    format!("{}{path}", mesh.agents["old-01"])
}

/// A message as JSON-RPC of 0.3 has it.
fn said(text: &str) -> Value {
    json!({
        "kind": "message", "messageId": uuid::Uuid::now_v7(), "role": "user", "parts": [{ "kind": "text", "text": text }],
    })
}

/// A message as HTTP+JSON of 0.3 has it.
fn proto(text: &str) -> Value {
    json!({ "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "content": [{ "text": text }] })
}

async fn json(response: Response) -> Value {
    response.json().await.unwrap()
}

async fn rpc(mesh: &Process, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": "r-1", "method": method, "params": params });
    json(client().post(at(mesh, "/a2a/rpc")).json(&body).send().await.unwrap()).await
}

/// The result of a call that succeeds.
async fn done(mesh: &Process, method: &str, params: Value) -> Value {
    let answer = rpc(mesh, method, params).await;
    assert_eq!(answer["id"], "r-1");
    answer.get("result").unwrap_or_else(|| panic!("{method}: {answer}")).clone()
}

async fn rest(mesh: &Process, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
    let request = client().request(method, at(mesh, &format!("/a2a/v1/{path}")));
    let request = if let Some(body) = body { request.json(body) } else { request };
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json", "{path}");
    (response.status().as_u16(), json(response).await)
}

async fn events(response: Response) -> Vec<Value> {
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// The results in the stream of a call of JSON-RPC.
async fn streamed(mesh: &Process, method: &str, params: Value) -> Vec<Value> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let response = client().post(at(mesh, "/a2a/rpc")).json(&body).send().await.unwrap();
    events(response).await.into_iter().map(|event| event["result"].clone()).collect()
}

#[tokio::test]
async fn a_task_is_sent_got_and_canceled_over_json_rpc() {
    let mesh = up().await;
    let task = done(&mesh, "message/send", json!({ "message": said("make it") })).await;
    assert_eq!((&task["kind"], &task["status"]["state"]), (&json!("task"), &json!("completed")), "{task}");
    assert_eq!(task["artifacts"][0]["parts"][0], json!({ "kind": "text", "text": "made" }));
    assert_eq!(task["artifacts"][1]["parts"][0], json!({ "kind": "data", "data": { "n": 1 } }));
    let said_by = &task["history"][0];
    assert_eq!((&said_by["kind"], &said_by["role"]), (&json!("message"), &json!("user")));
    assert_eq!(said_by["parts"][0], json!({ "kind": "text", "text": "make it" }));
    let got = done(&mesh, "tasks/get", json!({ "id": task["id"], "historyLength": 1 })).await;
    assert_eq!(got["history"].as_array().unwrap().len(), 1);

    let message = done(&mesh, "message/send", json!({ "message": said("just say it") })).await;
    assert_eq!((&message["kind"], &message["role"]), (&json!("message"), &json!("agent")));

    let waits = done(&mesh, "message/send", json!({ "message": said("ask me") })).await;
    assert_eq!(waits["status"]["state"], "input-required");
    assert_eq!(waits["status"]["message"]["parts"][0]["text"], "which?");
    let canceled = done(&mesh, "tasks/cancel", json!({ "id": waits["id"] })).await;
    assert_eq!(canceled["status"]["state"], "canceled");
    for (method, params, code) in [
        ("tasks/cancel", json!({ "id": waits["id"] }), -32002),
        ("tasks/get", json!({ "id": "no-such-task" }), -32001),
        ("message/send", json!({ "message": { "kind": "message", "role": "user" } }), -32602),
        ("tasks/list", json!({}), -32601),
    ] {
        let refused = rpc(&mesh, method, params).await;
        assert_eq!(refused["error"]["code"], code, "{method}: {refused}");
    }

    let at_once = json!({ "message": said("slowly"), "configuration": { "blocking": false } });
    let begun = done(&mesh, "message/send", at_once).await;
    assert!(["submitted", "working"].contains(&begun["status"]["state"].as_str().unwrap()), "{begun}");
}

#[tokio::test]
async fn a_stream_ends_with_what_is_final() {
    let mesh = up().await;
    let heard = streamed(&mesh, "message/stream", json!({ "message": said("make it") })).await;
    let kinds: Vec<_> = heard.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("task", "status-update"), "{kinds:?}");
    assert!(kinds.contains(&"artifact-update"));
    let finals: Vec<_> = heard.iter().filter(|event| event["final"] == true).collect();
    assert_eq!(finals.len(), 1);
    assert_eq!(heard.last().unwrap()["status"]["state"], "completed");

    let heard = streamed(&mesh, "message/stream", json!({ "message": said("ask me") })).await;
    let last = heard.last().unwrap();
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("input-required"), &json!(true)));
    let mut answer = said("that one");
    answer["taskId"] = last["taskId"].clone();
    answer["messageId"] = json!("last-word");
    let heard = streamed(&mesh, "message/stream", json!({ "message": answer })).await;
    assert_eq!(heard.last().unwrap()["status"]["state"], "completed", "{heard:?}");

    let at_once = json!({ "message": said("slowly"), "configuration": { "blocking": false } });
    let begun = done(&mesh, "message/send", at_once).await;
    let heard = streamed(&mesh, "tasks/resubscribe", json!({ "id": begun["id"] })).await;
    assert_eq!(heard[0]["kind"], "task");
    assert_eq!((&heard.last().unwrap()["final"], &heard[0]["id"]), (&json!(true), &begun["id"]));
}

#[tokio::test]
async fn http_json_has_the_form_of_the_proto() {
    let mesh = up().await;
    let body = json!({ "message": proto("make it"), "configuration": { "blocking": true } });
    let (status, answer) = rest(&mesh, Method::POST, "message:send", Some(&body)).await;
    let task = &answer["task"];
    assert_eq!((status, &task["status"]["state"]), (200, &json!("TASK_STATE_COMPLETED")), "{answer}");
    assert_eq!(task["artifacts"][1]["parts"][0], json!({ "data": { "data": { "n": 1 } } }));
    assert_eq!(task["history"][0]["content"][0], json!({ "text": "make it" }));
    assert!(!answer.to_string().contains("\"kind\""), "{answer}");
    let path = format!("tasks/{}?historyLength=1", task["id"].as_str().unwrap());
    let (_, got) = rest(&mesh, Method::GET, &path, None).await;
    assert_eq!((&got["id"], got["history"].as_array().unwrap().len()), (&task["id"], 1));

    let asked = json!({ "message": proto("ask me"), "configuration": { "blocking": true } });
    let (_, waits) = rest(&mesh, Method::POST, "message:send", Some(&asked)).await;
    let path = format!("tasks/{}:cancel", waits["task"]["id"].as_str().unwrap());
    let name = json!({ "name": path.replace(":cancel", "") });
    let (_, canceled) = rest(&mesh, Method::POST, &path, Some(&name)).await;
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELLED", "as the proto of 0.3 spells it");
    for (method, path, body, status, code) in [
        (Method::POST, path.as_str(), Some(&name), 409, -32002),
        (Method::GET, "tasks/no-such-task", None, 404, -32001),
        (Method::GET, "card", None, 401, -32010),
    ] {
        let (seen, refused) = rest(&mesh, method, path, body).await;
        assert_eq!((seen, &refused["code"]), (status, &json!(code)), "{path}: {refused}");
        assert!(refused["message"].is_string());
    }

    // The schema's form is taken here, too, as the text of 0.3 shows it.
    let mixed = json!({ "message": said("make it") });
    let (_, answer) = rest(&mesh, Method::POST, "message:send", Some(&mixed)).await;
    assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");

    let stream = client().post(at(&mesh, "/a2a/v1/message:stream")).json(&body).send().await.unwrap();
    let heard = events(stream).await;
    assert!(heard[0]["task"].is_object() && heard.iter().any(|event| event["artifactUpdate"].is_object()));
    assert_eq!(heard.last().unwrap()["statusUpdate"]["final"], true);
    let body = json!({ "message": proto("slowly"), "configuration": {} });
    let (_, begun) = rest(&mesh, Method::POST, "message:send", Some(&body)).await;
    let path = format!("/a2a/v1/tasks/{}:subscribe", begun["task"]["id"].as_str().unwrap());
    let heard = events(client().get(at(&mesh, &path)).send().await.unwrap()).await;
    assert!(heard[0]["task"].is_object());
    assert_eq!(heard.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn the_version_and_the_method_decide_what_is_spoken() {
    let mesh = up().await;
    let rpc = async |version: Option<&str>, method: &str, message: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "message": message } });
        let request = client().post(at(&mesh, "/a2a/rpc")).json(&body);
        let request =
            if let Some(version) = version { request.header("a2a-version", version) } else { request };
        json(request.send().await.unwrap()).await
    };
    let new =
        json!({ "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": [{ "text": "make it" }] });
    for version in [None, Some("0.3"), Some("0.3.0")] {
        assert_eq!(rpc(version, "message/send", said("make it")).await["result"]["kind"], "task");
        let refused = rpc(version, "SendMessage", new.clone()).await;
        assert_eq!(refused["error"]["code"], -32009, "{refused}");
        let known = rpc(version, "tasks/forget", new.clone()).await["error"]["message"].clone();
        assert!(known.as_str().unwrap().contains("tasks/resubscribe"), "{known}");
    }
    assert!(rpc(Some("1.0"), "SendMessage", new.clone()).await["result"]["task"].is_object());
    assert_eq!(rpc(Some("1.0"), "message/send", said("make it")).await["error"]["code"], -32601);
    assert_eq!(rpc(Some("0.2"), "message/send", said("make it")).await["error"]["code"], -32009);

    // A client of 1.0 that forgets to say so is told.
    let body = json!({ "message": new });
    for (method, path, body) in [
        (Method::POST, "message:send", Some(&body)),
        (Method::GET, "tasks", None),
        (Method::GET, "extendedAgentCard", None),
    ] {
        let (status, refused) = rest(&mesh, method, path, body).await;
        assert_eq!(status, 400, "{path}: {refused}");
        assert_eq!(refused["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("A2A-Version: 1.0"), "{message}");
    }
    let versioned = client().post(at(&mesh, "/a2a/v1/message:send")).header("a2a-version", "1.0").json(&body);
    let answer = json(versioned.send().await.unwrap()).await;
    assert_eq!(answer["task"]["history"][0]["parts"][0]["text"], "make it");
}

#[tokio::test]
async fn the_card_is_a_hybrid_for_those_who_name_no_version_and_signed_as_that_of_1_0() {
    let mesh = up().await;
    let url = at(&mesh, "/.well-known/agent-card.json");
    let fetched = async |version: Option<&str>, tag: Option<&str>| {
        let request = client().get(&url);
        let request =
            if let Some(version) = version { request.header("a2a-version", version) } else { request };
        let request = if let Some(tag) = tag { request.header("if-none-match", tag) } else { request };
        request.send().await.unwrap()
    };
    let (hybrid, new) = (fetched(None, None).await, fetched(Some("1.0"), None).await);
    let tag = |answer: &Response| answer.headers()["etag"].to_str().unwrap().to_owned();
    let tags = [tag(&hybrid), tag(&new)];
    assert_ne!(tags[0], tags[1]);
    for answer in [&hybrid, &new] {
        assert_eq!(answer.headers()["vary"], "A2A-Version");
    }
    assert_eq!(fetched(None, Some(&tags[0])).await.status(), 304);
    assert_eq!(fetched(Some("1.0"), Some(&tags[0])).await.status(), 200, "each has its own tag");
    let (hybrid, new) = (json(hybrid).await, json(new).await);
    assert_eq!(hybrid["url"], json!(at(&mesh, "/a2a/rpc")));
    assert_eq!(
        (&hybrid["protocolVersion"], &hybrid["preferredTransport"]),
        (&json!("0.3.0"), &json!("JSONRPC"))
    );
    assert_eq!(hybrid["additionalInterfaces"][1]["url"], json!(at(&mesh, "/a2a")));
    assert_eq!(
        (&hybrid["supportsAuthenticatedExtendedCard"], &hybrid["securitySchemes"]["apiKey"]["type"]),
        (&json!(true), &json!("apiKey"))
    );
    assert_eq!(hybrid["supportedInterfaces"], new["supportedInterfaces"]);
    for name in ["url", "preferredTransport", "protocolVersion", "additionalInterfaces", "security"] {
        assert!(new.get(name).is_none(), "1.0 has no {name}");
    }
    let keys = json(client().get(at(&mesh, "/.well-known/jwks.json")).send().await.unwrap()).await;
    let keys = PublicKey::from_jwks(&keys);
    for card in [&hybrid, &new] {
        assert!(verify(card, &keys).is_ok(), "{card}");
    }

    let extended = json!({ "jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard" });
    let ask = |agent: &str| client().post(format!("{}/a2a/rpc", mesh.agents[agent])).json(&extended);
    let known = json(ask("old-01").header("x-api-key", "alices-own-key-0001").send().await.unwrap()).await;
    assert_eq!(known["result"]["url"], hybrid["url"], "{known}");
    assert!(known["result"]["capabilities"]["extensions"][0]["params"]["terms"].is_object());
    let none = json(ask("new-01").send().await.unwrap()).await;
    assert_eq!(none["error"]["code"], -32007, "{none}");
    let card = client().get(at(&mesh, "/a2a/v1/card")).header("x-api-key", "alices-own-key-0001");
    assert_eq!(json(card.send().await.unwrap()).await["url"], hybrid["url"]);
}

#[tokio::test]
async fn a_webhook_is_sent_the_body_of_the_version_that_has_set_it() {
    let mesh = up().await;
    let (old, new) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let hook = |listener: &TcpListener| format!("http://{}/hook", listener.local_addr().unwrap());
    let waits = done(&mesh, "message/send", json!({ "message": said("ask me") })).await;
    let task = waits["id"].as_str().unwrap();
    let webhook = json!({
        "id": "w-1", "url": hook(&old), "token": "t-1", "authentication": { "schemes": ["Bearer"], "credentials": "s" },
    });
    let config = json!({ "taskId": task, "pushNotificationConfig": webhook });
    assert_eq!(done(&mesh, "tasks/pushNotificationConfig/set", config.clone()).await, config);
    let path = format!("tasks/{task}/pushNotificationConfigs");
    let request = client().post(at(&mesh, &format!("/a2a/v1/{path}"))).header("a2a-version", "1.0");
    let set = request.json(&json!({ "id": "w-2", "url": hook(&new) })).send().await.unwrap();
    assert_eq!(set.status(), 200);

    for params in [json!({ "id": task, "pushNotificationConfigId": "w-1" }), json!({ "id": task })] {
        assert_eq!(done(&mesh, "tasks/pushNotificationConfig/get", params).await, config);
    }
    let all = done(&mesh, "tasks/pushNotificationConfig/list", json!({ "id": task })).await;
    assert_eq!((&all[0], &all[1]["pushNotificationConfig"]["id"]), (&config, &json!("w-2")));
    let (_, shown) = rest(&mesh, Method::GET, &format!("{path}/w-1"), None).await;
    assert_eq!(shown["name"], json!(format!("{path}/w-1")), "{shown}");
    let (_, shown) = rest(&mesh, Method::GET, &path, None).await;
    assert_eq!(shown["configs"].as_array().unwrap().len(), 2);

    // The webhooks of before go on after a restart.
    let mesh = mesh.restart().await;
    let mut answer = said("that one");
    answer["taskId"] = json!(task);
    answer["messageId"] = json!("last-word");
    assert_eq!(
        done(&mesh, "message/send", json!({ "message": answer })).await["status"]["state"],
        "completed"
    );
    loop {
        let (head, body) = receive_notification(&old, 200).await;
        assert!(
            head.contains("x-a2a-notification-token: t-1") && head.contains("authorization: bearer s"),
            "{head}"
        );
        assert!(head.contains("content-type: application/json"), "{head}");
        assert_eq!((&body["kind"], &body["id"]), (&json!("task"), &json!(task)), "{body}");
        if body["status"]["state"] == "completed" {
            break;
        }
    }
    loop {
        let (head, body) = receive_notification(&new, 200).await;
        assert!(head.contains("content-type: application/a2a+json") && body.get("kind").is_none(), "{body}");
        if body["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED" {
            break;
        }
    }

    let begun = json!({ "message": said("ask me"), "configuration": { "pushNotificationConfig": { "url": hook(&old) } } });
    let waits = done(&mesh, "message/send", begun).await;
    let (_, body) = receive_notification(&old, 200).await;
    assert_eq!(body["kind"], "task");
    let id = done(&mesh, "tasks/pushNotificationConfig/get", json!({ "id": waits["id"] })).await;
    let name = json!({ "id": waits["id"], "pushNotificationConfigId": id["pushNotificationConfig"]["id"] });
    assert_eq!(done(&mesh, "tasks/pushNotificationConfig/delete", name).await, Value::Null);
    let none = rpc(&mesh, "tasks/pushNotificationConfig/get", json!({ "id": waits["id"] })).await;
    assert_eq!(none["error"]["code"], -32001, "{none}");
}

#[tokio::test]
async fn a_large_file_of_0_3_is_kept_like_one_of_1_0() {
    let mesh = up().await;
    let content = "AAEC".repeat(200_000);
    let file = |name: &str| json!({ name: content, "mimeType": "image/png", "name": "a.png" });
    let mut message = said("make it");
    message["parts"].as_array_mut().unwrap().push(json!({ "kind": "file", "file": file("bytes") }));
    let task = done(&mesh, "message/send", json!({ "message": message })).await;
    let kept = &task["history"][0]["parts"][1]["file"];
    assert_eq!((&kept["mimeType"], &kept["name"]), (&json!("image/png"), &json!("a.png")));
    let read = client().get(kept["uri"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(read.bytes().await.unwrap().len(), 600_000);

    let mut message = proto("make it");
    message["content"].as_array_mut().unwrap().push(json!({ "file": file("fileWithBytes") }));
    let body = json!({ "message": message, "configuration": { "blocking": true } });
    let (_, answer) = rest(&mesh, Method::POST, "message:send", Some(&body)).await;
    let kept = &answer["task"]["history"][0]["content"][1]["file"];
    let read = client().get(kept["fileWithUri"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(read.bytes().await.unwrap().len(), 600_000);
}

#[tokio::test]
async fn extensions_are_named_in_the_header_of_0_3() {
    let mesh = up().await;
    let ours = "urn:agent-mesh:ext:task:v1";
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": said("make it") } });
    let request = client().post(at(&mesh, "/a2a/rpc")).header("x-a2a-extensions", ours).json(&body);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["x-a2a-extensions"], ours);
}
