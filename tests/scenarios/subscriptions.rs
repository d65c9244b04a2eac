//! Agents follow the board and react to what they subscribe to (DESIGN §5): each signal once, open tasks by one of them.

use crate::harness::{Answer, Process, call, eventually};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Answers every signal with one of its own, about the same subject.
const WATCHER: &str = r#"
agents:
  - agent: watcher-01
    description: Says what it has seen
    skills: [{ id: watch }]
    subscribe: ["artifact.*"]
    brain:
      exec:
        - sh
        - -c
        - |
          read -r line
          subject=$(printf '%s' "$line" | sed 's/.*"subject":"\([^"]*\)".*/\1/')
          printf '{"type":"signal","signal":"acme.seen","subject":"%s"}\n{"type":"done"}\n' "$subject"
"#;

async fn publish(mesh: &Process, signal: Value) -> Answer {
    let answer = call(Method::POST, &format!("{}/board/signals", mesh.url), Some(&signal)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer
}

async fn produced(mesh: &Process, names: std::ops::Range<usize>) {
    for name in names {
        let subject = format!("a-{name}");
        publish(mesh, json!({ "type": "artifact.produced", "from": "me", "subject": subject })).await;
    }
}

/// How often each subject was seen.
async fn seen(mesh: &Process) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for signal in mesh.signals("acme.seen").await {
        *seen.entry(signal["subject"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
    }
    seen
}

#[tokio::test]
async fn a_brain_reacts_once_to_every_signal_also_after_a_crash() {
    let mut mesh = Process::up(WATCHER).await;
    produced(&mesh, 0..8).await;
    eventually("a first reaction", async || (!seen(&mesh).await.is_empty()).then_some(())).await;
    mesh.kill();
    let mesh = mesh.restart().await;
    produced(&mesh, 8..10).await;
    eventually("all reactions", async || (seen(&mesh).await.len() == 10).then_some(())).await;
    eventually("rest", async || {
        let state = mesh.agent("watcher-01").state().await;
        state["conversations"].as_object().is_some_and(serde_json::Map::is_empty).then_some(())
    })
    .await;
    let seen = seen(&mesh).await;
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
}
