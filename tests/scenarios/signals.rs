//! Signals of the blackboard: their publishers, filters, retention, and live reading without a gap (SEEDS §9, 22).

use crate::harness::{
    Process,
    bidder::{Bidder, secret_of, wire_with},
    call, client, eventually, get, refusal, refusal_text, test_identity,
};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use transport::http_client::ClientRequest;

/// A worker that asks for help on the board, and its manager.
async fn team() -> (tempfile::TempDir, Process) {
    let dir = crate::harness::directory();
    let script = "
turns:
  - when: { contains: impossible }
    fail: it cannot be done
  - say:
      - { type: signal, signal: help.needed, capability: review, subject: 'who reviews?' }
      - { type: artifact, name: out.txt, text: hello }
    end: { done: made }
";
    let script = crate::harness::file(dir.path(), "script.yaml", script);
    let yaml = format!(
        "
agents:
  - {{ agent: manager-01, skills: [manage], brain: {{ echo: {{}} }} }}
  - {{ agent: worker-01, skills: [build], brain: {{ scripted: '{}' }} }}
",
        script.display()
    );
    let mesh = Process::up(&yaml).await;
    (dir, mesh)
}

async fn publish(mesh: &Process, signal: Value) -> u64 {
    let answer = call(Method::POST, &format!("{}/board/signals", mesh.url), Some(&signal)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body["revision"].as_u64().unwrap()
}

async fn read(mesh: &Process, query: &str) -> Vec<Value> {
    let answer = get(&format!("{}/board/signals?{query}", mesh.url)).await;
    answer["signals"].as_array().unwrap_or_else(|| panic!("{answer:#}")).clone()
}

fn subjects(signals: &[Value]) -> Vec<&str> {
    signals.iter().map(|signal| signal["subject"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn every_signal_type_has_the_right_publisher() {
    let (_dir, mesh) = team().await;
    let manager = mesh.agent("manager-01");
    publish(
        &mesh,
        json!({ "type": "task.available", "taskId": "open-1", "capability": "build", "subject": "build it" }),
    )
    .await;
    manager.ask(json!({ "taskId": "t-1", "description": "build it", "capability": "build" })).await;
    manager.ask(json!({ "taskId": "t-2", "description": "the impossible", "capability": "build" })).await;
    let mut guest = Bidder::join(&mesh, "guest-01", "paint", json!({})).await;
    guest.leave().await;
    for (kind, from, task, subject) in [
        ("agent.joined", "registry", None, Some("guest-01")),
        ("agent.left", "registry", None, Some("guest-01")),
        ("task.available", "local", Some("open-1"), Some("build it")),
        ("task.claimed", "manager-01", Some("t-1"), Some("worker-01")),
        ("task.complete", "manager-01", Some("t-1"), None),
        ("task.failed", "manager-01", Some("t-2"), None),
        ("artifact.produced", "manager-01", Some("t-1"), Some("out.txt")),
        ("help.needed", "worker-01", Some("t-1"), Some("who reviews?")),
    ] {
        let signal = mesh
            .signal_where(kind, |signal| {
                signal["from"] == from
                    && task.is_none_or(|task| signal["taskId"] == task)
                    && subject.is_none_or(|subject| signal["subject"] == subject)
            })
            .await;
        assert!(signal["revision"].as_u64().unwrap() > 0);
        assert!(signal.to_string().len() < 1_024, "it refers to content, it carries none: {signal}");
    }
    let produced = &read(&mesh, "type=artifact.produced&taskId=t-1").await[0];
    let (refs, owner) = (&produced["refs"], mesh.agent(produced["refs"]["owner"].as_str().unwrap()));
    assert_eq!((&refs["artifactId"], &refs["bytes"]), (&json!("out.txt"), &json!(5)), "{produced}");
    let digest = refs["sha256"].as_str().unwrap();
    let content = client().get(format!("{}/a2a/artifacts/{digest}", owner.url)).send().await.unwrap();
    assert_eq!(content.headers()["content-type"].to_str().unwrap(), refs["mediaType"].as_str().unwrap());
    assert_eq!(content.text().await.unwrap(), "hello");
    let stranger = wire_with(test_identity(&mesh.data, "worker-01"), &secret_of(&mesh));
    stranger.keys.pin_service(test_identity(&mesh.data, "registry").public(), &Default::default()).unwrap();
    let url = format!("{}/a2a/artifacts/{digest}", owner.url);
    let read_by_agent = stranger.bytes(ClientRequest::get(&url, owner.id.as_str())).await;
    assert!(read_by_agent.is_ok(), "an agent that sees the signal: {read_by_agent:?}");
    let capable = read(&mesh, "type=help.needed&capability=review").await;
    assert_eq!(capable.len(), 1, "those who can review are told");
    assert_eq!(read(&mesh, "type=help.needed&capability=build").await.len(), 0);
    assert_eq!(
        read(&mesh, "type=task.complete&taskId=t-1").await.len(),
        1,
        "the last word is the manager's alone"
    );
    assert_eq!(read(&mesh, "type=task.complete&taskId=t-2").await.len(), 0);
}

#[tokio::test]
async fn no_one_can_publish_as_another() {
    let (_dir, mesh) = team().await;
    let url = format!("{}/board/signals", mesh.url);
    let joined = json!({ "type": "agent.joined", "subject": "ghost-01" });
    let refused = call(Method::POST, &url, Some(&joined)).await;
    assert_eq!(refused.status, 403, "a user: {refused:?}");
    let wire = wire_with(test_identity(&mesh.data, "worker-01"), &secret_of(&mesh));
    let as_worker = async |signal: Value| {
        let body = bytes::Bytes::from(signal.to_string());
        wire.bytes(ClientRequest::post(&url, "board", body)).await.map_err(|problem| problem.reason.status())
    };
    assert_eq!(as_worker(joined).await, Err(403), "an agent that is not the registry");
    assert_eq!(as_worker(json!({ "type": "help.needed", "from": "manager-01" })).await, Err(403));
    assert!(as_worker(json!({ "type": "help.needed" })).await.is_ok());
    let unknown = call(Method::POST, &url, Some(&json!({ "type": "task.exploded" }))).await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.body["error"]["message"].as_str().unwrap().contains("task.complete"), "{unknown:?}");
    assert_eq!(
        read(&mesh, "type=agent.joined&limit=1000")
            .await
            .iter()
            .filter(|signal| signal["subject"] == "ghost-01")
            .count(),
        0
    );
}

#[tokio::test]
async fn a_late_reader_gets_exactly_the_requested_history() {
    let (_dir, mut mesh) = team().await;
    for n in 0..6 {
        let kind = if n % 2 == 0 { "acme.even" } else { "acme.odd" };
        let capability = if n < 3 { "low" } else { "high" };
        publish(
            &mesh,
            json!({ "type": kind, "subject": n.to_string(), "capability": capability, "taskId": "t-1" }),
        )
        .await;
    }
    mesh.revive().await;
    let all = read(&mesh, "type=acme.*").await;
    assert_eq!(subjects(&all), ["0", "1", "2", "3", "4", "5"], "kept over a restart, in order");
    assert_eq!(subjects(&read(&mesh, "type=acme.even").await), ["0", "2", "4"]);
    assert_eq!(subjects(&read(&mesh, "type=acme.odd&type=acme.even&capability=high").await), ["3", "4", "5"]);
    let third = all[2]["revision"].as_u64().unwrap();
    assert_eq!(subjects(&read(&mesh, &format!("type=acme.*&after={third}")).await), ["3", "4", "5"]);
    assert_eq!(subjects(&read(&mesh, "type=acme.*&limit=2").await), ["0", "1"]);
    assert_eq!(read(&mesh, "type=acme.*&taskId=t-2").await.len(), 0);
}

/// A live subscription, read event by event.
struct LiveReader {
    response: Response,
    text: String,
}

impl LiveReader {
    async fn follow(mesh: &Process, query: &str, last: Option<&str>) -> Self {
        let mut request = client().get(format!("{}/board/signals/stream?{query}", mesh.url));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The id and the content of the next signal.
    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let found = line("id:")
                    .zip(line("data:"))
                    .map(|(id, data)| (id.to_owned(), serde_json::from_str(data).unwrap()));
                self.text = rest.to_owned();
                if let Some(found) = found {
                    return found;
                }
                continue;
            }
            let chunk = tokio::time::timeout(crate::harness::DEADLINE, self.response.chunk()).await;
            self.text.push_str(&String::from_utf8_lossy(
                &chunk.expect("the stream fell silent").unwrap().expect("the stream ended"),
            ));
        }
    }
}

#[tokio::test]
async fn an_interrupted_reader_resumes_without_a_gap_or_a_repeat() {
    let (_dir, mesh) = team().await;
    let mut live = LiveReader::follow(&mesh, "type=acme.wanted", None).await;
    let mut published = Vec::new();
    let mut seen = Vec::new();
    let mut last = None;
    for n in 0..30 {
        publish(&mesh, json!({ "type": "acme.unwanted", "subject": n.to_string() })).await;
        published.push((
            publish(&mesh, json!({ "type": "acme.wanted", "subject": n.to_string() })).await,
            n.to_string(),
        ));
        if n % 3 == 0 {
            let (id, signal) = live.next().await;
            assert!(id.ends_with(&format!("-{}", signal["revision"])), "{id}: {signal}");
            seen.push((signal["revision"].as_u64().unwrap(), signal["subject"].as_str().unwrap().to_owned()));
            last = Some(id);
        }
        if n % 7 == 6 {
            live = LiveReader::follow(&mesh, "type=acme.wanted", last.as_deref()).await;
        }
    }
    while seen.len() < published.len() {
        let (_, signal) = live.next().await;
        assert_eq!(signal["type"], "acme.wanted");
        seen.push((signal["revision"].as_u64().unwrap(), signal["subject"].as_str().unwrap().to_owned()));
    }
    assert_eq!(seen, published);
}

#[tokio::test]
async fn a_subscription_gets_only_its_types_and_capabilities() {
    let (_dir, mesh) = team().await;
    let mut live = LiveReader::follow(&mesh, "type=task.*&capability=build", None).await;
    publish(
        &mesh,
        json!({ "type": "task.available", "taskId": "open-1", "capability": "paint", "subject": "paint it" }),
    )
    .await;
    publish(&mesh, json!({ "type": "help.needed", "capability": "build" })).await;
    mesh.agent("manager-01")
        .ask(json!({ "taskId": "t-1", "description": "build it", "capability": "build" }))
        .await;
    let (_, first) = live.next().await;
    let (_, second) = live.next().await;
    assert_eq!((&first["type"], &first["taskId"]), (&json!("task.claimed"), &json!("t-1")));
    assert_eq!((&second["type"], &second["taskId"]), (&json!("task.complete"), &json!("t-1")));
}

#[tokio::test]
async fn a_broadcast_becomes_a_signal_of_its_sender() {
    let (_dir, mesh) = team().await;
    let manager = mesh.agent("manager-01");
    let broadcast = json!({
        "fromAgentId": "me", "toAgentId": "manager-01", "type": "broadcast",
        "payload": { "signal": "acme.news", "subject": "lunch", "refs": { "at": "noon" } },
    });
    let answer = manager.post(&broadcast).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let signal = mesh.signal_where("acme.news", |signal| signal["subject"] == "lunch").await;
    assert_eq!(signal["refs"]["at"], "noon");
    let again = eventually("published once", async || Some(mesh.signals("acme.news").await)).await;
    assert_eq!(again.len(), 1);
}

#[tokio::test]
async fn a_broadcast_that_the_board_would_refuse_is_refused_on_arrival() {
    let (_dir, mesh) = team().await;
    let manager = mesh.agent("manager-01");
    let broadcast = |signal: &str, bytes: usize| {
        json!({
            "fromAgentId": "me", "toAgentId": "manager-01", "type": "broadcast",
            "payload": { "signal": signal, "subject": "lunch", "refs": { "menu": "x".repeat(bytes) } },
        })
    };
    for reserved in ["agent.joined", "agent.left"] {
        let refused = manager.post(&broadcast(reserved, 1)).await;
        assert_eq!(refusal(&refused), (403, "forbidden".to_owned()), "{refused:?}");
        assert!(refusal_text(&refused).contains("payload.signal"), "{refused:?}");
    }
    let refused = manager.post(&broadcast("acme.news", 20_000)).await;
    assert_eq!(refusal(&refused), (413, "payload_too_large".to_owned()), "{refused:?}");
    let said = refusal_text(&refused);
    let numbers: Vec<usize> =
        said.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let [bytes, limit] = numbers[..] else { panic!("{said}") };
    assert_eq!(limit, 16 * 1024);
    let room = 20_000 - (bytes - limit);
    let refused = manager.post(&broadcast("acme.news", room + 8)).await;
    assert_eq!(refused.status, 413, "{refused:?}");
    // The length of a timestamp varies by a few bytes.
    let taken = manager.post(&broadcast("acme.news", room - 8)).await;
    assert_eq!(taken.status, 202, "{taken:?}");
    mesh.signal_where("acme.news", |signal| signal["subject"] == "lunch").await;
    assert_eq!(mesh.signals("acme.news").await.len(), 1, "what was refused is not there");
}
