//! HTTP semantics on every route: HEAD, Allow, Prefer, Last-Event-ID; and refusals that name the fault.

use crate::harness::{Process, call, get, mesh as program, refusal, refusal_text, state, stream};
use reqwest::Method;
use serde_json::json;
use std::{
    io::{Read, Write},
    net::TcpStream,
};

const TEAM: &str = "
agents:
  - { agent: echo-01, open: false, skills: [echo, paint], brain: { echo: {} } }
";

/// Sends raw bytes; returns head and body as received until the server closes.
fn raw(url: &str, request: &str) -> (String, String) {
    let mut socket = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    socket.set_read_timeout(Some(crate::harness::DEADLINE)).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_lowercase(), body.to_owned())
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    agent.ask(json!({ "taskId": "t-1", "description": "hello", "capability": "echo" })).await;
    let of_agent = [
        "/a2a/tasks",
        "/a2a/tasks/t-1",
        "/a2a/tasks/t-1/events",
        "/a2a/tasks/nothing",
        "/a2a/dead-letters",
        "/a2a/card",
        "/a2a/nothing",
        "/healthz",
        "/readyz",
        "/services",
    ];
    let of_mesh = ["/board/signals", "/board/signals/stream?after=0", "/registry/agents", "/registry/watch"];
    let places =
        of_agent.map(|path| (&agent.url, path)).into_iter().chain(of_mesh.map(|path| (&mesh.url, path)));
    for (url, path) in places {
        let request = |method: &str| {
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        };
        let (head, body) = raw(url, &request("HEAD"));
        assert_eq!(body, "", "{path}: {head}");
        let live = client_head(url, path).await;
        assert!(head.starts_with(&format!("http/1.1 {}", live.0)), "{path}: {head} is not {live:?}");
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        assert_eq!(header("content-type: "), live.1, "{path}: {head}");
    }
}

/// The status and content type of a GET.
async fn client_head(url: &str, path: &str) -> (u16, Option<String>) {
    let answer = crate::harness::client().get(format!("{url}{path}")).send().await.unwrap();
    let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    (answer.status().as_u16(), kind)
}

#[tokio::test]
async fn a_wrong_method_gets_the_valid_ones() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    for (url, path, method, allow) in [
        (&agent.url, "/a2a/messages", Method::GET, "POST"),
        (&agent.url, "/a2a/messages", Method::HEAD, "POST"),
        (&agent.url, "/a2a/tasks", Method::POST, "GET, HEAD"),
        (&agent.url, "/a2a/tasks/t-1/cancel", Method::GET, "POST"),
        (&agent.url, "/healthz", Method::OPTIONS, "GET, HEAD"),
        (&agent.url, "/a2a/artifacts", Method::POST, "PUT"),
        (&mesh.url, "/board/signals", Method::PUT, "GET, HEAD, POST"),
        (&mesh.url, "/registry/agents/echo-01", Method::PATCH, "GET, HEAD, DELETE"),
    ] {
        let answer = call(method.clone(), &format!("{url}{path}"), None).await;
        assert_eq!(
            (answer.status, answer.headers["allow"].to_str().unwrap()),
            (405, allow),
            "{method} {path}"
        );
        if method != Method::HEAD {
            assert_eq!(refusal(&answer).1, "method_not_allowed");
        }
    }
}

#[tokio::test]
async fn the_wait_preference_is_clamped_or_ignored_and_never_refused() {
    let mesh = Process::up(&format!("mesh: {{ limits: {{ maxWaitMs: 70000 }} }}{TEAM}")).await;
    let agent = mesh.agent("echo-01");
    for (at, (preference, applied)) in [
        ("wait=50", Some("wait=50")),
        ("wait=99999999999999999999999", Some("wait=70")),
        ("respond-async, wait=\"30\"", Some("wait=30")),
        ("wait=soon", None),
        ("wait=-1", None),
        ("handling=strict; wait=5", None),
        (";;=,\"", None),
    ]
    .into_iter()
    .enumerate()
    {
        let request = agent.request(json!({ "description": format!("hello {at}"), "capability": "echo" }));
        let answer = agent.post_raw(request.to_string(), &[("prefer", preference)]).await;
        let expected = if applied.is_some() { 200 } else { 202 };
        assert_eq!(answer.status, expected, "{preference}: {answer:?}");
        let said = answer.headers.get("preference-applied").map(|value| value.to_str().unwrap());
        assert_eq!(said, applied, "{preference}");
    }
}

#[tokio::test]
async fn resuming_a_finished_stream_returns_204() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    agent.ask(json!({ "taskId": "t-1", "description": "hello", "capability": "echo" })).await;
    let url = format!("{}/a2a/tasks/t-1/events", agent.url);
    let events = stream(&url, None).await;
    let after = async |id: &str| {
        let answer = crate::harness::client().get(&url).header("last-event-id", id).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    assert_eq!(stream(&url, Some(&events[0].0)).await.len(), events.len() - 1, "the rest");
    let last = &events.last().unwrap().0;
    assert_eq!(after(last).await, (204, String::new()));
    for beyond in ["999999999", "18446744073709551615"] {
        let (status, said) = after(beyond).await;
        assert_eq!(status, 400, "{said}");
        assert!(said.contains("Last-Event-ID") && said.contains("past the end"), "{said}");
    }
    let (status, said) = after("yesterday").await;
    assert_eq!(status, 400);
    assert!(said.contains("Last-Event-ID") && said.contains("yesterday"), "{said}");
}

#[tokio::test]
async fn a_refusal_names_the_fault_and_the_valid_values() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    for limit in ["abc", "0", "-1", "1001", ""] {
        let answer = call(Method::GET, &format!("{}/a2a/tasks?limit={limit}", agent.url), None).await;
        assert_eq!(refusal(&answer), (400, "invalid_field".into()));
        assert!(
            refusal_text(&answer).contains("limit") && refusal_text(&answer).contains("1000"),
            "{answer:?}"
        );
    }
    let task = agent.ask(json!({ "taskId": "t-1", "description": "hello", "capability": "echo" })).await;
    assert_eq!(state(&task), "completed");
    let url = format!("{}/a2a/tasks/t-1", agent.url);
    let answered = call(Method::POST, &format!("{url}/answer"), Some(&json!({ "text": "yes" }))).await;
    assert_eq!(refusal(&answered), (409, "not_awaiting_answer".into()));
    assert!(refusal_text(&answered).contains("completed"), "{answered:?}");
    let cancelled = call(Method::POST, &format!("{url}/cancel"), None).await;
    assert_eq!(refusal(&cancelled), (409, "task_not_cancelable".into()));

    let open = agent.post(&agent.request(json!({ "description": "do something" }))).await;
    assert_eq!(refusal(&open), (422, "capability_needed".into()));
    assert!(refusal_text(&open).contains("echo, paint"), "{open:?}");
    let (code, _, said) = program(&["ask", "do something", "--at", &agent.url, "--url", &mesh.url], &[]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("--capability") && said.contains("echo, paint"), "{said}");
    assert_eq!(get(&format!("{}/a2a/tasks?limit=1", agent.url)).await["tasks"][0]["id"], "t-1");
}
