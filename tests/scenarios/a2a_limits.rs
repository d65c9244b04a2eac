//! Every limit of A2A is declared in the card and at `/state`, and enforced as declared.

use crate::harness::{Process, client, message, state};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TEAM: &str = "
mesh: { limits: { maxBodyBytes: 200000 }, outside: { allow: [127.0.0.0/8] } }
agents: [{ agent: front-01, open: true, brain: { echo: {} } }]
";

async fn called(mesh: &Process, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
    let url = format!("{}/a2a/v1/{path}", mesh.agents["front-01"]);
    let request = client().request(method, url).header("a2a-version", "1.0");
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn send(mesh: &Process, more: Value) -> (u16, Value) {
    let message =
        json!({ "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": [{ "text": "hello" }] });
    let body = json!({ "message": crate::harness::with(message, more) });
    called(mesh, Method::POST, "message:send", Some(&body)).await
}

/// Checks that a limit is enforced exactly; `false` if this test cannot try that limit.
async fn is_enforced(mesh: &Process, name: &str, limit: usize) -> bool {
    let (within, beyond) = match name {
        "maxWebhooksPerTask" => {
            let (_, begun) = send(mesh, json!({})).await;
            let path = format!("tasks/{}/pushNotificationConfigs", begun["task"]["id"].as_str().unwrap());
            let webhook = json!({ "url": "http://127.0.0.1:9/" });
            for _ in 1..limit {
                assert_eq!(called(mesh, Method::POST, &path, Some(&webhook)).await.0, 200);
            }
            let last = called(mesh, Method::POST, &path, Some(&webhook)).await;
            (last, called(mesh, Method::POST, &path, Some(&webhook)).await)
        }
        "maxWebhookIdChars" => {
            let (_, begun) = send(mesh, json!({})).await;
            let path = format!("tasks/{}/pushNotificationConfigs", begun["task"]["id"].as_str().unwrap());
            let webhook = |size| json!({ "id": "ä".repeat(size), "url": "http://127.0.0.1:9/" });
            let within = called(mesh, Method::POST, &path, Some(&webhook(limit))).await;
            (within, called(mesh, Method::POST, &path, Some(&webhook(limit + 1))).await)
        }
        "maxContextIdChars" => {
            let context = |size| json!({ "contextId": "ä".repeat(size) });
            (send(mesh, context(limit)).await, send(mesh, context(limit + 1)).await)
        }
        "maxReferenceTasks" => {
            let tasks = |count| json!({ "referenceTaskIds": vec!["t-none"; count] });
            (send(mesh, tasks(limit)).await, send(mesh, tasks(limit + 1)).await)
        }
        "maxTenantChars" => {
            let tasks = |size| format!("{}/tasks", "t".repeat(size));
            (
                called(mesh, Method::GET, &tasks(limit), None).await,
                called(mesh, Method::GET, &tasks(limit + 1), None).await,
            )
        }
        "maxTasksPerPage" => {
            let page = |size| format!("tasks?pageSize={size}");
            (
                called(mesh, Method::GET, &page(limit), None).await,
                called(mesh, Method::GET, &page(limit + 1), None).await,
            )
        }
        "maxBodyBytes" => {
            let empty = send(mesh, json!({ "parts": [{ "text": "" }] })).await;
            assert_eq!(empty.0, 200, "{}", empty.1);
            // The rest of the body is less than 300 bytes.
            let text = |size| json!({ "parts": [{ "text": "x".repeat(size) }] });
            (send(mesh, text(limit - 300)).await, send(mesh, text(limit)).await)
        }
        _ => return false,
    };
    assert_eq!(within.0, 200, "{name} within {limit}: {}", within.1);
    assert!([400, 413].contains(&beyond.0), "{name} beyond {limit}: {} {}", beyond.0, beyond.1);
    true
}

#[actix::test]
async fn every_declared_limit_is_enforced_exactly() {
    let mesh = Process::up(TEAM).await;
    let front = mesh.agent("front-01");
    let card =
        crate::harness::call(Method::GET, &format!("{}/.well-known/agent-card.json", front.url), None).await;
    let ours = &card.body["capabilities"]["extensions"][0]["params"];
    let state = crate::harness::call(Method::GET, &format!("{}/state", front.url), None).await;
    assert_eq!(ours["a2aLimits"], state.body["a2aLimits"]);
    assert_eq!(ours["limits"], state.body["limits"]);
    assert_eq!(ours["limits"]["maxBodyBytes"], 200_000);

    let mut untried = BTreeSet::new();
    for (name, limit) in ours["a2aLimits"].as_object().unwrap() {
        let limit = usize::try_from(limit.as_u64().unwrap()).unwrap();
        if !is_enforced(&mesh, name, limit).await {
            untried.insert(name.as_str());
        }
    }
    assert!(is_enforced(&mesh, "maxBodyBytes", 200_000).await);
    // These are tested below, in `foreign_bounds`, `foreign_team` and `grpc`, and in unit tests.
    let elsewhere = BTreeSet::from([
        "maxCoordinatedArtifacts",
        "maxCoordinatedCards",
        "maxCoordinatedChars",
        "maxCoordinatedPartChars",
        "maxCoordinatedParts",
        "maxForeignAnswerBytes",
        "maxForeignArtifacts",
        "maxForeignCardBytes",
        "maxForeignCardSkills",
        "maxForeignStreamBytes",
        "maxForeignTaskBytes",
        "maxGrpcCallsPerConnection",
        "maxGrpcHeadBytes",
        "maxHistoryMessages",
        "maxRawResultBytes",
        "maxWebhookMissedEvents",
        "tasksPerPage",
        "webhookAttemptMs",
        "webhookAttempts",
    ]);
    assert_eq!(untried, elsewhere, "a limit is declared that nobody tries");

    let (_, page) = called(&mesh, Method::GET, "tasks", None).await;
    assert_eq!(page["pageSize"], ours["a2aLimits"]["tasksPerPage"]);
}

#[actix::test]
async fn a_coordinated_request_has_the_declared_limits() {
    let mesh = Process::up(TEAM).await;
    let front = mesh.agent("front-01");
    let limits =
        crate::harness::call(Method::GET, &format!("{}/state", front.url), None).await.body["a2aLimits"]
            .clone();
    let most = |name: &str| usize::try_from(limits[name].as_u64().unwrap()).unwrap();
    let request = |text: String, discovery: Value| json!({ "description": text, "capability": "session", "input": { "preset": "foreign", "discovery": discovery } });
    let (chars, cards) = (most("maxCoordinatedChars"), most("maxCoordinatedCards"));
    let long = front.ask(request("x".repeat(chars + 1), json!({}))).await;
    assert_eq!(state(&long), "failed");
    assert!(message(&long).contains(&format!("longer than {chars} characters")), "{}", message(&long));
    for (name, hosts) in [("hosts", cards + 1), ("cards", cards + 1)] {
        let many = request("weather".to_owned(), json!({ name: vec!["http://127.0.0.1:9/"; hosts] }));
        let refused = crate::harness::refusal_text(&front.post(&front.request(many)).await);
        let expected = format!("{hosts} {name} are named, the limit is {cards}");
        assert!(refused.contains(&expected), "{refused}");
    }
    let just = request("x".repeat(chars), json!({ "hosts": vec!["http://127.0.0.1:9"; cards] }));
    let just = front.ask(just).await;
    assert!(message(&just).starts_with("no_agents_available"), "{}", message(&just));
}
