//! Peer messages: what is acknowledged, refused, and recognised.

use crate::harness::{Process, state};
use serde_json::json;

const TEAM: &str = "
agents:
  - agent: echo-01
    description: Returns what it is sent
    skills: [{ id: echo }]
    brain: { echo: {} }
";

#[tokio::test]
async fn a_known_recipient_acknowledges_once_and_does_the_task() {
    let mesh = Process::up(TEAM).await;
    let task = mesh
        .agent("echo-01")
        .ask(json!({ "taskId": "t-1", "description": "hello", "capability": "echo" }))
        .await;
    assert_eq!(state(&task), "completed");
}
