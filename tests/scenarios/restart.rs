//! What continues after a restart: turns start again, timers keep running; and the orderly end on SIGTERM.

use super::crash::{at_work, build, builder, open_gate};
use crate::harness::{
    Agent, Process,
    bidder::Bidder,
    cluster::{Cluster, started_turns},
    eventually, message, state,
};
use serde_json::json;

/// The time so many milliseconds from now, in wire format.
fn wall_in(ms: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    protocol::time::WallTime(i64::try_from(now.as_millis()).unwrap() + ms).to_string()
}

/// An agent whose turns end when the test opens its gate.
async fn thinker() -> (tempfile::TempDir, Process, Agent) {
    let dir = crate::harness::directory();
    let mesh = Process::up(&builder(dir.path(), "thinker-01", "maxParallel: 4")).await;
    let agent = mesh.agent("thinker-01");
    (dir, mesh, agent)
}

#[tokio::test]
async fn an_interrupted_turn_starts_again_under_the_same_key() {
    let (dir, mut mesh, agent) = thinker().await;
    agent.send(build("t-1")).await;
    at_work(dir.path(), "thinker-01").await;
    mesh.revive().await;
    eventually("begun again", async || (started_turns(dir.path()).len() == 2).then_some(())).await;
    open_gate(dir.path());
    let task = mesh.agent("thinker-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let begun = started_turns(dir.path());
    assert_eq!(begun[0], begun[1], "a repeat is recognised by its key");
}

#[tokio::test]
async fn a_turn_that_kills_the_process_five_times_is_given_up_visibly() {
    let (dir, mut mesh, agent) = thinker().await;
    agent.send(build("t-1")).await;
    for attempt in 1..=5 {
        eventually(&format!("attempt {attempt}"), async || {
            (started_turns(dir.path()).len() == attempt).then_some(())
        })
        .await;
        mesh.revive().await;
    }
    let task = mesh.agent("thinker-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "failed", "{task:#}");
    assert!(message(&task).contains("given up"), "{}", message(&task));
    assert_eq!(started_turns(dir.path()).len(), 5);
    mesh.signal_where("task.failed", |signal| signal["taskId"] == "t-1").await;
}

#[tokio::test]
async fn timers_survive_a_restart() {
    let dir = crate::harness::directory();
    let yaml = builder(dir.path(), "thinker-01", "");
    let yaml = format!(
        "{yaml}\n  - {{ agent: manager-01, skills: [manage], brain: {{ echo: {{}} }} }}\nmesh: {{ auction: {{ bidWindowMs: 8000, rounds: 1 }} }}\n"
    );
    let mut mesh = Process::up(&yaml).await;
    let silent = Bidder::join(&mesh, "silent-01", "paint", json!({})).await;
    let soon = wall_in(8_000);
    let with_deadline =
        json!({ "taskId": "t-1", "description": "build it", "deadline": soon, "capability": "build" });
    mesh.agent("thinker-01").send(with_deadline).await;
    at_work(dir.path(), "thinker-01").await;
    mesh.agent("manager-01")
        .send(json!({ "taskId": "t-2", "description": "paint it", "capability": "paint" }))
        .await;
    silent.wait_for("cfp", 1).await;
    mesh.revive().await;
    let late = mesh.agent("thinker-01").task_in("t-1", &["completed", "failed"]).await;
    assert!(message(&late).contains("deadline"), "{}", message(&late));
    let unassigned = mesh.agent("manager-01").task_in("t-2", &["completed", "failed"]).await;
    assert!(message(&unassigned).contains("unassigned"), "{}", message(&unassigned));
}

#[tokio::test]
async fn a_process_on_sigterm_refuses_new_work_finishes_its_own_and_deregisters() {
    let cluster = Cluster::start().await;
    let mut node = cluster.node("one", &builder(cluster.dir.path(), "builder-01", "maxParallel: 4")).await;
    cluster.wait_for_agents(&["builder-01"]).await;
    let agent = node.agent("builder-01");
    agent.send(build("t-1")).await;
    at_work(cluster.dir.path(), "builder-01").await;
    node.signal("TERM");
    let refused = eventually("a refusal", async || {
        let another = json!({ "description": "build more", "capability": "build" });
        let answer = agent.post(&agent.request(another)).await;
        (answer.status != 202).then_some(answer)
    })
    .await;
    assert_eq!((refused.status, &refused.body["reasonCode"]), (503, &json!("draining")), "{refused:?}");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    let ready = crate::harness::call(reqwest::Method::GET, &format!("{}/readyz", agent.url), None).await;
    assert_eq!((ready.status, &ready.body["checks"]["draining"]["ok"]), (503, &json!(false)), "{ready:?}");
    cluster.registry.entry_where("builder-01", |entry| entry["accepting"] == false).await;
    open_gate(cluster.dir.path());
    assert_eq!(node.ended().await, 0);
    let left = cluster.board.signal_where("agent.left", |signal| signal["subject"] == "builder-01").await;
    assert_eq!(left["refs"]["reason"], "drained", "it said so, it was not missed: {left:#}");
    node.revive().await;
    let task = node.agent("builder-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "it had finished before it ended: {task:#}");
    let begun = started_turns(cluster.dir.path());
    assert_eq!(begun.iter().filter(|(task, _, _)| task == "t-1").count(), 1);
}

#[tokio::test]
async fn an_unreadable_conversation_is_named_and_the_others_continue() {
    let (dir, mut mesh, agent) = thinker().await;
    for task in ["t-1", "t-2", "t-3"] {
        agent.send(build(task)).await;
    }
    eventually("all are begun", async || (started_turns(dir.path()).len() == 3).then_some(())).await;
    let damaged = agent.task("t-1").await["contextId"].clone();
    let damaged = damaged.as_str().unwrap();
    mesh.kill();
    let store = rusqlite::Connection::open(mesh.data.join("store.sqlite")).unwrap();
    let key = format!("thinker-01.state.{damaged}");
    assert_eq!(store.execute("UPDATE state SET value = x'00' WHERE key = ?1", [key]).unwrap(), 1);
    drop(store);
    mesh.revive().await;
    let agent = mesh.agent("thinker-01");
    let ready = crate::harness::get(&format!("{}/readyz", agent.url)).await;
    let why = ready["parked"]["thinker-01"][damaged].as_str().unwrap_or_default();
    assert!(why.contains("damaged"), "{ready:#}");
    let task = eventually("its task says so", async || {
        let task = agent.task("t-1").await;
        message(&task).contains("parked").then_some(task)
    })
    .await;
    assert_eq!(state(&task), "working");
    open_gate(dir.path());
    for task in ["t-2", "t-3"] {
        let task = agent.task_in(task, &["completed", "failed"]).await;
        assert_eq!(state(&task), "completed", "{task:#}");
    }
    let cancel = crate::harness::client().post(format!("{}/a2a/tasks/t-1/cancel", agent.url)).send().await;
    assert_eq!(cancel.unwrap().status().as_u16(), 503);
}
