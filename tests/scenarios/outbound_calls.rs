//! Calls that a mesh makes for others (webhooks, callbacks, cards, foreign agents) are never those of a local user, and never
//! go to the mesh itself (DESIGN §8).

use crate::harness::{Answer, Process, call, client, eventually, refusal, state};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

const TEAM: &str = "
agents:
  - { agent: front-01, open: true, skills: [front], brain: { scripted: script.yaml } }
mesh:
  outside: { allow: [127.0.0.0/8, '::1'] }
  callers:
    - { user: alice, apiKey: alices-own-key-0001 }
";

const SCRIPT: &str = "
turns:
  - { when: { contains: ask me }, say: [{ type: question, id: q, text: which? }] }
  - { say: [{ type: artifact, name: a.txt, text: made }], end: { done: done } }
";

async fn up() -> Process {
    Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await
}

/// A task request of Alice with a callback.
async fn asked_by_alice(mesh: &Process, reply_to: &str) -> Value {
    let front = mesh.agent("front-01");
    let request = json!({
        "fromAgentId": "alice", "toAgentId": "front-01", "type": "task-request", "replyTo": reply_to,
        "payload": { "description": "make it" },
    });
    let headers = [("x-api-key", "alices-own-key-0001"), ("prefer", "wait=100")];
    let answer = front.post_raw(request.to_string(), &headers).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[tokio::test]
async fn a_callback_at_another_mesh_does_not_act_as_its_local_user() {
    let (calling, called) = (up().await, up().await);
    let front = called.agent("front-01");
    let task = front.send(json!({ "description": "ask me" })).await;
    front.task_in(&task, &["input_required"]).await;
    let asked = asked_by_alice(&calling, &format!("{}/a2a/tasks/{task}/cancel", front.url)).await;
    assert_eq!(asked["warnings"], Value::Null, "{asked:#}");
    let refused = async || calling.log().contains("it answered 401").then_some(());
    eventually("the callback is refused", refused).await;
    assert_eq!(state(&front.task(&task).await), "input_required");
}

#[tokio::test]
async fn no_outbound_call_goes_to_an_endpoint_of_the_mesh() {
    let mesh = up().await;
    let port = |url: &str| url.rsplit(':').next().unwrap().to_owned();
    let (agent, services) = (port(&mesh.agents["front-01"]), port(&mesh.url));
    for port in [&agent, &services] {
        for host in ["127.0.0.1", "localhost", "127.0.0.2", "[::1]"] {
            let asked = asked_by_alice(&mesh, &format!("http://{host}:{port}/a2a/messages")).await;
            let warning = asked["warnings"][0].as_str().unwrap_or_default();
            assert!(warning.contains("an endpoint of the mesh"), "{host}:{port}: {asked:#}");
        }
    }
    let send =
        json!({ "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": [{ "text": "make it" }] } });
    let sent = a2a(&mesh, "message:send", &send).await;
    let task = sent.body["task"]["id"].as_str().unwrap().to_owned();
    let webhook = json!({ "url": format!("http://localhost:{services}/board/signals") });
    let refused = a2a(&mesh, &format!("tasks/{task}/pushNotificationConfigs"), &webhook).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body.to_string().contains("an endpoint of the mesh"), "{refused:?}");
}

async fn a2a(mesh: &Process, path: &str, body: &Value) -> Answer {
    let url = format!("{}/a2a/v1/{path}", mesh.agents["front-01"]);
    answer(client().post(url).header("a2a-version", "1.0").json(body)).await
}

async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Answer { status, headers, body: response.json().await.unwrap_or_default() }
}

#[tokio::test]
async fn a_marked_call_needs_a_credential_of_a_configured_caller() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    let token = std::fs::read_to_string(mesh.data.join("token")).unwrap();
    for (base, path) in [
        (&front.url, "/a2a/tasks"),
        (&front.url, "/state"),
        (&front.url, "/metrics"),
        (&front.url, "/a2a/v1/tasks"),
        (&mesh.url, "/board/signals"),
        (&mesh.url, "/registry/agents"),
    ] {
        let url = format!("{base}{path}");
        let marked = || client().get(&url).header("a2a-version", "1.0").header("mesh-outbound", "1");
        assert_eq!(answer(marked()).await.status, 401, "{path}");
        assert_eq!(answer(marked().bearer_auth(token.trim())).await.status, 403, "{path}");
        let known = answer(marked().header("x-api-key", "alices-own-key-0001")).await;
        assert_eq!(known.status, 200, "{path}: {known:?}");
        assert_eq!(answer(client().get(&url).header("a2a-version", "1.0")).await.status, 200, "{path}");
    }
    let request = front.request(json!({ "description": "make it" })).to_string();
    let refused = front.post_raw(request, &[("mesh-outbound", "1")]).await;
    assert_eq!(refusal(&refused), (401, "unauthenticated".to_owned()));
    let card =
        client().get(format!("{}/.well-known/agent-card.json", front.url)).header("mesh-outbound", "1");
    assert_eq!(answer(card).await.status, 200, "cards are public");
    assert_eq!(call(Method::GET, &format!("{}/a2a/tasks", front.url), None).await.status, 200);
}

#[tokio::test]
async fn a_webhook_at_a_port_that_is_not_of_https_is_refused_with_the_remedy() {
    let mesh = up().await;
    let send =
        json!({ "message": { "messageId": "m-1", "role": "ROLE_USER", "parts": [{ "text": "make it" }] } });
    let sent = a2a(&mesh, "message:send", &send).await;
    let task = sent.body["task"]["id"].as_str().unwrap().to_owned();
    let configure = async |url: &str| {
        a2a(&mesh, &format!("tasks/{task}/pushNotificationConfigs"), &json!({ "url": url })).await
    };
    let refused = configure("https://1.1.1.1:22/hook").await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let why = refused.body.to_string();
    assert!(why.contains("not at 22") && why.contains("mesh: { outside: { allow:"), "{why}");
    // Public at the ports of https, and what the configuration names at any.
    for url in ["https://1.1.1.1:8443/hook", "http://127.0.0.1:22/hook"] {
        let taken = configure(url).await;
        assert!(taken.status < 300, "{url}: {taken:?}");
    }
}
