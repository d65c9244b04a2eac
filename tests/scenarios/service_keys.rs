//! The keys of the registry and the board are replaced while the mesh works, and the board takes at once what the registry says
//! about keys (DESIGN §8).

use super::identity::{keys, open_gate, task_under_way};
use crate::harness::{
    Process,
    bidder::{self, AgentClient},
    cluster::{Cluster, SECRET, started_turns},
    eventually, mesh, test_identity,
};
use protocol::{
    identity::PublicIdentity,
    problem::{Problem, Reason},
};
use serde_json::{Value, json};
use std::path::Path;
use transport::http_client::ClientRequest;

const TEAM: &str = "
agents:
  - { agent: builder-01, skills: [build], subscribe: [task.available], brain: { echo: {} } }
  - { agent: planner-01, skills: [plan], brain: { echo: {} } }
";

fn rotate(cluster: &Cluster, service: &str) {
    let (code, out, errors) = keys(&cluster.registry, &["rotate", service]);
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
}

/// Whether the process with its data in `data` has pinned the key that the service has.
fn is_followed(data: &Path, service: &Process, name: &str) -> bool {
    let pinned = std::fs::read(data.join(format!("keys/{name}.pinned"))).unwrap_or_default();
    let pinned: Option<PublicIdentity> = serde_json::from_slice(&pinned).ok();
    pinned.is_some_and(|pinned| pinned.is_same(test_identity(&service.data, name).public()))
}

async fn followed(data: &Path, service: &Process, name: &str) {
    let what = format!("{} follows the key of the {name}", data.display());
    eventually(&what, async || is_followed(data, service, name).then_some(())).await;
}

#[tokio::test]
async fn the_keys_of_registry_and_board_are_rotated_while_a_task_runs() {
    let mut cluster = Cluster::start().await;
    let (builder, planner, task) = task_under_way(&cluster).await;
    let before = test_identity(&cluster.registry.data, "registry").public().fingerprint();
    for service in ["registry", "board", "registry"] {
        rotate(&cluster, service);
    }
    assert_ne!(test_identity(&cluster.registry.data, "registry").public().fingerprint(), before);
    // The registry tells the board; nodes read it.
    for data in [&cluster.board.data, &builder.data, &planner.data] {
        followed(data, &cluster.registry, "registry").await;
    }
    open_gate(&cluster);
    planner.agent("planner-01").task_in(&task, &["completed"]).await;
    assert_eq!(started_turns(cluster.dir.path()).len(), 1, "the work was done once");

    // A service that has restarted accepts its last key only: whoever uses another one follows the history.
    cluster.board.revive().await;
    cluster.registry.revive().await;
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    let again = planner.agent("planner-01").ask(json!({ "description": "y", "capability": "build" })).await;
    assert_eq!(crate::harness::state(&again), "completed");
    let (builder, planner) = (builder.restart().await, planner.restart().await);
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    followed(&planner.data, &cluster.board, "board").await;
    let again = planner.agent("planner-01").ask(json!({ "description": "z", "capability": "build" })).await;
    assert_eq!(crate::harness::state(&again), "completed");
    let join = cluster.path("join").to_string_lossy().into_owned();
    let data = planner.data.to_string_lossy().into_owned();
    let doctor = ["doctor", "--url", &cluster.registry.url, "--data", &data, "--join", &join];
    let (code, out, errors) = mesh(&doctor, &[]);
    assert_eq!(code, 0, "{out} {errors}");
    drop(builder);
}

#[tokio::test]
async fn a_process_that_was_away_during_two_rotations_follows_both() {
    let mut cluster = Cluster::start().await;
    let mut node = cluster.node("node", TEAM).await;
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    followed(&node.data, &cluster.board, "board").await;
    node.kill();
    for service in ["registry", "registry", "board", "board"] {
        rotate(&cluster, service);
    }
    cluster.registry.revive().await;
    cluster.board.revive().await;
    node.revive().await;
    followed(&node.data, &cluster.registry, "registry").await;
    followed(&node.data, &cluster.board, "board").await;
    let done = node.agent("planner-01").ask(json!({ "description": "x", "capability": "build" })).await;
    assert_eq!(crate::harness::state(&done), "completed");
    assert!(!node.log().contains("another process answers there"), "{}", node.log());
}

#[tokio::test]
async fn a_rotation_of_the_registry_that_a_crash_interrupts_is_finished_at_the_next_start() {
    let mut cluster = Cluster::start().await;
    let node = cluster.node("node", TEAM).await;
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    let dir = cluster.registry.data.join("keys");
    let [key, next] = ["registry.ed25519", "registry.ed25519.next"].map(|name| dir.join(name));
    let old = dir.join("old");
    std::fs::copy(&key, &old).unwrap();
    rotate(&cluster, "registry");
    // As if the process had ended after the history was durable and before its key was.
    cluster.registry.kill();
    std::fs::rename(&key, &next).unwrap();
    std::fs::rename(&old, &key).unwrap();
    let new = std::fs::read(&next).unwrap();
    cluster.registry.revive().await;
    assert!(!next.exists() && std::fs::read(&key).unwrap() == new);
    followed(&node.data, &cluster.registry, "registry").await;
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    let done = node.agent("planner-01").ask(json!({ "description": "x", "capability": "build" })).await;
    assert_eq!(crate::harness::state(&done), "completed");
}

#[tokio::test]
async fn an_agent_is_rotated_right_after_the_registry() {
    let cluster = Cluster::start().await;
    let node = cluster.node("node", TEAM).await;
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    for _ in 0..3 {
        rotate(&cluster, "registry");
        rotate(&cluster, "builder-01");
    }
    let done = node.agent("planner-01").ask(json!({ "description": "x", "capability": "build" })).await;
    assert_eq!(crate::harness::state(&done), "completed");
}

#[tokio::test]
async fn a_service_that_is_elsewhere_is_not_rotated_here() {
    let cluster = Cluster::start().await;
    let (code, _, errors) = keys(&cluster.registry, &["--at", &cluster.registry.url, "rotate", "board"]);
    assert!(code != 0 && errors.contains(&cluster.board.url), "{code} {errors}");
    let (code, _, errors) =
        mesh(&["keys", "rotate", "registry", "--url", &cluster.registry.url], &[("HOME", "/nowhere")]);
    assert!(code == 6 && errors.contains("token"), "{code} {errors}");
}

/// What the board answers to an agent.
async fn read_board(agent: &AgentClient, board: &Process) -> Result<Value, Problem> {
    let url = format!("{}/board/signals", board.url);
    agent.json(ClientRequest::get(&url, "board")).await
}

#[tokio::test]
async fn a_key_that_is_reset_is_void_at_the_board_at_once_and_after_its_restart() {
    let mut cluster = Cluster::start().await;
    let stolen = bidder::wire("victim-01", SECRET);
    let card = bidder::card("victim-01", "http://127.0.0.1:1", "dig", &json!({}));
    bidder::register(&cluster.registry.url, &stolen, &card, "1").await.unwrap();
    read_board(&stolen, &cluster.board).await.unwrap();
    let (code, out, errors) = keys(&cluster.registry, &["reset", "victim-01"]);
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    let refused = async || read_board(&stolen, &cluster.board).await.is_err().then_some(());
    eventually("the stolen key is void", refused).await;
    // It shows its certificate, too.
    let problem = read_board(&stolen, &cluster.board).await.unwrap_err();
    assert!(problem.message.contains("was reset"), "{problem}");
    assert_eq!(problem.reason, Reason::BlackboardUnavailable);
    cluster.board.revive().await;
    let refused = async || read_board(&stolen, &cluster.board).await.is_err().then_some(());
    eventually("the stolen key is void after a restart of the board", refused).await;
}
