//! Triggers of agents (docs/schedules-and-triggers.md): other systems begin tasks by webhook.

use crate::harness::{Agent, Answer, Process, client, eventually, read_answer, state};
use protocol::task::EXTENSION;
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde_json::{Value, json};

const SECRET: &str = "a-secret-of-the-sender";
const TEAM: &str = "
agents:
  - agent: echo-01
    brain: { echo: {} }
    triggers:
      issues:
        auth: github
        secret: a-secret-of-the-sender
        actAs: alice
        when: { headers.x-github-event: issues }
        task: 'Look at {{ body.issue.title }}'
      payments: { auth: stripe, secret: a-secret-of-the-sender, task: 'Book {{ body.type }}' }
      alerts: { auth: bearer, secret: a-secret-of-the-sender, task: 'Alert {{ body.text }}' }
mesh:
  callers: [{ user: alice, apiKey: alices-own-key-0001 }]
";

fn hex(content: &str) -> String {
    let tag = sign(&Key::new(HMAC_SHA256, SECRET.as_bytes()), content.as_bytes());
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn deliver(agent: &Agent, trigger: &str, headers: &[(&str, String)], body: &str) -> Answer {
    let mut request = client().post(format!("{}/a2a/triggers/{trigger}", agent.url)).body(body.to_owned());
    // As through a proxy from elsewhere.
    request = request.header("x-forwarded-for", "198.51.100.7");
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    read_answer(request.send().await.unwrap()).await
}

async fn by_github(agent: &Agent, delivery: &str, body: &str) -> Answer {
    let headers = [
        ("x-github-event", "issues".to_owned()),
        ("x-github-delivery", delivery.to_owned()),
        ("x-hub-signature-256", format!("sha256={}", hex(body))),
    ];
    deliver(agent, "issues", &headers, body).await
}

/// A task as alice sees it.
async fn alices(agent: &Agent, task: &Value) -> Value {
    let url = format!("{}/a2a/tasks/{}", agent.url, task.as_str().unwrap());
    eventually("alice's task", async || {
        let answer = client().get(&url).header("x-api-key", "alices-own-key-0001").send().await.unwrap();
        Some(read_answer(answer).await.body).filter(|task| state(task) == "completed")
    })
    .await
}

#[tokio::test]
async fn a_delivery_begins_one_task_with_the_rights_of_the_user_that_the_file_names() {
    let node = Process::up(TEAM).await;
    let agent = node.agent("echo-01");
    let body = r#"{"action":"opened","issue":{"title":"a bug"}}"#;
    let all = futures_util::future::join_all((0..10).map(|_| by_github(&agent, "d-1", body))).await;
    let tasks: std::collections::BTreeSet<_> =
        all.iter().map(|answer| answer.body["taskId"].to_string()).collect();
    assert_eq!(tasks.len(), 1, "ten at once are one task: {all:#?}");
    assert_eq!(all.iter().filter(|answer| answer.status == 202).count(), 1, "{all:#?}");
    assert!(all.iter().all(|answer| answer.status == 202 || answer.body["duplicate"] == true), "{all:#?}");
    let task = alices(&agent, &all[0].body["taskId"]).await;
    let ours = &task["metadata"][EXTENSION];
    assert_eq!((&ours["description"], &ours["owner"]), (&json!("Look at a bug"), &json!("user:alice")));
    assert_eq!(
        (&ours["origin"]["kind"], &ours["origin"]["name"]),
        (&json!("trigger"), &json!("issues")),
        "{task:#}"
    );
    // Captured, and sent again under another id, also after a kill.
    let node = node.restart().await;
    let agent = node.agent("echo-01");
    let again = by_github(&agent, "d-2", body).await;
    assert_eq!((again.status, &again.body["duplicate"]), (200, &json!(true)), "{again:?}");
    assert_eq!(again.body["taskId"], task["id"]);
    let other = by_github(&agent, "d-3", &body.replace("a bug", "another")).await;
    assert_eq!(other.status, 202, "{other:?}");
    assert_ne!(other.body["taskId"], task["id"]);
}

#[tokio::test]
async fn a_delivery_that_is_killed_before_its_answer_is_the_same_task_when_it_is_sent_again() {
    let mut node = Process::up(TEAM).await;
    for n in 0..5 {
        let body = format!(r#"{{"issue":{{"title":"{n}"}}}}"#);
        let sender = node.agent("echo-01");
        let sent = {
            let body = body.clone();
            tokio::spawn(async move {
                let signature = format!("sha256={}", hex(&body));
                let url = format!("{}/a2a/triggers/issues", sender.url);
                let request = client().post(url).header("content-type", "application/json").body(body);
                let request =
                    request.header("x-github-event", "issues").header("x-hub-signature-256", signature);
                // The process may die first.
                drop(request.send().await);
            })
        };
        tokio::time::sleep(std::time::Duration::from_millis(n * 3)).await;
        node.kill();
        sent.await.unwrap();
        node = node.restart().await;
        let agent = node.agent("echo-01");
        let again = by_github(&agent, "again", &body).await;
        assert!(again.status == 200 || again.status == 202, "{again:?}");
        let repeated = by_github(&agent, "again", &body).await;
        assert_eq!((repeated.status, &repeated.body["taskId"]), (200, &again.body["taskId"]), "{repeated:?}");
        alices(&agent, &again.body["taskId"]).await;
    }
    let agent = node.agent("echo-01");
    let url = format!("{}/a2a/tasks", agent.url);
    let tasks = client().get(url).header("x-api-key", "alices-own-key-0001").send().await.unwrap();
    assert_eq!(read_answer(tasks).await.body["tasks"].as_array().unwrap().len(), 5, "one task a delivery");
}

#[tokio::test]
async fn stripe_and_bearer_tokens_are_taken_and_what_does_not_prove_itself_is_refused_with_the_reason() {
    let node = Process::up(TEAM).await;
    let agent = node.agent("echo-01");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let body = r#"{"id":"evt_1","type":"invoice.paid"}"#;
    let signed = |at: u64| [("stripe-signature", format!("t={at},v1={}", hex(&format!("{at}.{body}"))))];
    let paid = deliver(&agent, "payments", &signed(now), body).await;
    assert_eq!(paid.status, 202, "{paid:?}");
    let task = agent.task_in(paid.body["taskId"].as_str().unwrap(), &["completed"]).await;
    let ours = &task["metadata"][EXTENSION];
    assert_eq!(
        (&ours["owner"], &ours["origin"]["delivery"]),
        (&json!("user:local"), &json!("evt_1")),
        "{task:#}"
    );
    let stale = deliver(&agent, "payments", &signed(now - 400), body).await;
    assert_eq!((stale.status, &stale.body["reasonCode"]), (401, &json!("stale_signature")), "{stale:?}");
    let retried = deliver(&agent, "payments", &signed(now - 1), body).await;
    assert_eq!((retried.status, &retried.body["taskId"]), (200, &paid.body["taskId"]), "{retried:?}");

    let bearer =
        |key: &str| vec![("authorization", format!("Bearer {SECRET}")), ("idempotency-key", key.to_owned())];
    assert_eq!(deliver(&agent, "alerts", &bearer("k-1"), r#"{"text":"fire"}"#).await.status, 202);
    assert_eq!(deliver(&agent, "alerts", &bearer("k-1"), r#"{"text":"fire"}"#).await.status, 200);
    let form =
        [bearer("k-2"), vec![("content-type", "application/x-www-form-urlencoded".to_owned())]].concat();
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(300_000));
    for (trigger, headers, body, status, reason) in [
        (
            "alerts",
            vec![("authorization", "Bearer wrong-secret-00001".to_owned())],
            "{}",
            401,
            "unauthenticated",
        ),
        ("alerts", vec![], "{}", 401, "unauthenticated"),
        ("alerts", bearer("k-3"), "{", 400, "malformed_json"),
        ("alerts", bearer("k-3"), "{}", 400, "invalid_field"),
        ("alerts", form, "payload=%7B%7D", 415, "unsupported_media_type"),
        ("alerts", bearer("k-3"), large.as_str(), 413, "payload_too_large"),
        ("issues", vec![], "{}", 401, "unauthenticated"),
        ("nothing", vec![], "{}", 404, "route_not_found"),
    ] {
        let refused = deliver(&agent, trigger, &headers, body).await;
        assert_eq!(
            (refused.status, &refused.body["reasonCode"]),
            (status, &json!(reason)),
            "{trigger}: {refused:?}"
        );
        assert!(!refused.body.to_string().contains(SECRET), "{refused:?}");
    }
    let ping =
        [("x-github-event", "ping".to_owned()), ("x-hub-signature-256", format!("sha256={}", hex("{}")))];
    let ignored = deliver(&agent, "issues", &ping, "{}").await;
    assert!(
        ignored.status == 200 && ignored.body["ignored"].as_str().unwrap().contains("ping"),
        "{ignored:?}"
    );
    assert!(!node.log().contains(SECRET));
}
