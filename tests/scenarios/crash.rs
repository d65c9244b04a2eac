//! Processes are killed, stopped and started again. Every accepted task ends visibly and once.

use crate::harness::{
    Process, artifact,
    bidder::Bidder,
    cluster::{Cluster, gated_brain, started_turns},
    eventually, get, message, state,
};
use serde_json::{Value, json};
use std::path::Path;

const EXTENSION: &str = protocol::task::EXTENSION;

fn doer(task: &Value) -> &str {
    task["metadata"][EXTENSION]["doer"].as_str().unwrap_or_default()
}

fn manager(auction: &str) -> String {
    format!(
        "
mesh: {{ auction: {{ {auction} }} }}
agents:
  - {{ agent: manager-01, skills: [manage], brain: {{ echo: {{}} }} }}
"
    )
}

/// A builder whose turn ends when the test opens its gate.
pub(super) fn builder(dir: &Path, id: &str, bid: &str) -> String {
    let script = gated_brain(dir, id);
    format!(
        "
agents:
  - {{ agent: {id}, skills: [build], brain: {{ exec: [/bin/sh, '{script}'] }}, bid: {{ {bid} }} }}
"
    )
}

pub(super) fn build(id: &str) -> Value {
    json!({ "taskId": id, "description": "build it", "capability": "build" })
}

pub(super) fn open_gate(dir: &Path) {
    std::fs::write(dir.join("open"), "").unwrap();
}

pub(super) async fn at_work(dir: &Path, agent: &str) {
    eventually(&format!("{agent} at work"), async || {
        started_turns(dir).iter().any(|(_, _, who)| who == agent).then_some(())
    })
    .await;
}

/// The result of every candidate in every round.
pub(super) fn fates(award: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rounds = award["rounds"].as_array().into_iter().flatten();
    let entries = rounds.flat_map(|round| round["candidates"].as_array().into_iter().flatten());
    entries.map(|entry| (word(&entry["agent"]), word(&entry["fate"]))).collect()
}

fn completions(award: &Value) -> usize {
    fates(award).iter().filter(|(_, fate)| fate == "completed").count()
}

async fn ends_at(board: &Process, task: &str) -> usize {
    board.signals("task.complete").await.iter().filter(|signal| signal["taskId"] == task).count()
}

/// A manager and two builders, each a process of its own; `builder-01` wins, and keeps its port over restarts.
pub(super) async fn trio(auction: &str) -> (Cluster, Process, Process, Process) {
    let cluster = Cluster::start().await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (first, second) = (
        builder(cluster.dir.path(), "builder-01", "cost: 0, eta: 1s, maxParallel: 16"),
        builder(cluster.dir.path(), "builder-02", "cost: 9, eta: 1h, maxParallel: 16"),
    );
    let first = first.replace("agent: builder-01,", &format!("agent: builder-01, port: {port},"));
    let manager = manager(auction);
    let (one, two, manager) = tokio::join!(
        cluster.node("one", &first),
        cluster.node("two", &second),
        cluster.node("manager", &manager),
    );
    cluster.wait_for_agents(&["builder-01", "builder-02", "manager-01"]).await;
    knows(&manager, &["builder-01", "builder-02"]).await;
    (cluster, manager, one, two)
}

/// Waits until `node` has all of `agents` in its directory.
pub(super) async fn knows(node: &Process, agents: &[&str]) {
    let at = node.agents.values().next().unwrap();
    eventually(&format!("{agents:?} known at {at}"), async || {
        let state = get(&format!("{at}/state")).await;
        let peers = state["peers"].as_array()?;
        agents.iter().all(|id| peers.contains(&json!(id))).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_winner_is_killed_mid_task_and_the_runner_up_finishes_long_before_its_lease_ends() {
    let (cluster, manager, mut one, _two) = trio("leaseMs: 3600000").await;
    let manager = manager.agent("manager-01");
    manager.send(build("t-1")).await;
    at_work(cluster.dir.path(), "builder-01").await;
    one.kill();
    at_work(cluster.dir.path(), "builder-02").await;
    open_gate(cluster.dir.path());
    let task = manager.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), doer(&task)), ("completed", "builder-02"), "{task:#}");
    assert_eq!(artifact(&task, "out.txt").as_deref(), Some("made by builder-02"));
    let award = manager.award("t-1").await;
    let expected = [("builder-01", "unreachable"), ("builder-02", "completed")];
    let expected = expected.map(|(agent, fate)| (agent.to_owned(), fate.to_owned()));
    assert_eq!(fates(&award), expected, "{award:#}");
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "t-1").await;
    assert_eq!(ends_at(&cluster.board, "t-1").await, 1);
}

#[tokio::test]
async fn the_manager_is_killed_between_award_and_result_and_finishes_after_its_restart() {
    let (cluster, mut node, _one, _two) = trio("").await;
    let manager = node.agent("manager-01");
    manager.send(build("t-1")).await;
    at_work(cluster.dir.path(), "builder-01").await;
    let before = eventually("the award accepted", async || {
        let award = manager.award("t-1").await;
        fates(&award).contains(&("builder-01".to_owned(), "accepted".to_owned())).then_some(award)
    })
    .await;
    node.kill();
    open_gate(cluster.dir.path());
    let done = eventually("the work done meanwhile", async || {
        let state = get(&format!("{}/state", _one.agents["builder-01"])).await;
        (state["agents"]["builder-01"]["running"] == 0).then_some(())
    });
    done.await;
    node.revive().await;
    let manager = node.agent("manager-01");
    let task = manager.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), doer(&task)), ("completed", "builder-01"), "{task:#}");
    assert_eq!(artifact(&task, "out.txt").as_deref(), Some("made by builder-01"));
    let after = manager.award("t-1").await;
    assert_eq!(after["rounds"][0]["candidates"][0]["epoch"], before["rounds"][0]["candidates"][0]["epoch"]);
    assert_eq!(completions(&after), 1, "{after:#}");
    assert_eq!(started_turns(cluster.dir.path()).len(), 1, "nobody did it twice");
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "t-1").await;
    assert_eq!(ends_at(&cluster.board, "t-1").await, 1);
}

#[tokio::test]
async fn a_killed_registry_comes_back_without_losing_an_agent() {
    let (mut cluster, manager, _one, _two) = trio("").await;
    open_gate(cluster.dir.path());
    let manager = manager.agent("manager-01");
    let mut silent = Bidder::join(&cluster.registry, "silent-01", "paint", json!({})).await;
    cluster.board.signal_where("agent.joined", |signal| signal["subject"] == "silent-01").await;
    let joined = cluster.board.signals("agent.joined").await.len();
    cluster.registry.kill();
    for n in 0..3 {
        let task = manager.ask(build(&format!("t-{n}"))).await;
        assert_eq!(state(&task), "completed", "without a registry: {task:#}");
    }
    // The outage is longer than a lease; agents must not expire because of it.
    let away = std::time::Instant::now();
    eventually("longer than a lease", async || (away.elapsed().as_millis() > 15_300).then_some(())).await;
    silent.stop_heartbeats();
    cluster.registry.revive().await;
    cluster.wait_for_agents(&["builder-01", "builder-02", "manager-01"]).await;
    cluster.board.signal_where("agent.left", |signal| signal["subject"] == "silent-01").await;
    assert_eq!(cluster.board.signals("agent.left").await.len(), 1, "only who really fell silent is given up");
    assert_eq!(cluster.board.signals("agent.joined").await.len(), joined);
    let task = manager.ask(build("t-9")).await;
    assert_eq!(state(&task), "completed", "{task:#}");
}

#[tokio::test]
async fn awards_continue_without_the_board_and_signals_arrive_later() {
    let (mut cluster, mut node, _one, _two) = trio("").await;
    open_gate(cluster.dir.path());
    cluster.board.kill();
    let manager = node.agent("manager-01");
    for n in 0..3 {
        let task = manager.ask(build(&format!("t-{n}"))).await;
        assert_eq!(state(&task), "completed", "without a board: {task:#}");
    }
    node.revive().await;
    cluster.board.revive().await;
    for n in 0..3 {
        let id = format!("t-{n}");
        for kind in ["task.claimed", "artifact.produced", "task.complete"] {
            cluster.board.signal_where(kind, |signal| signal["taskId"] == *id).await;
        }
        assert_eq!(ends_at(&cluster.board, &id).await, 1, "once, though it was offered more than once");
    }
}

#[tokio::test]
async fn a_stopped_winner_that_comes_back_late_is_superseded() {
    let (cluster, manager, one, _two) = trio("leaseMs: 6000").await;
    let manager = manager.agent("manager-01");
    manager.send(build("t-1")).await;
    at_work(cluster.dir.path(), "builder-01").await;
    one.signal("STOP");
    at_work(cluster.dir.path(), "builder-02").await;
    std::fs::write(cluster.dir.path().join("open-builder-01"), "").unwrap();
    one.signal("CONT");
    let lapsed = one.agent("builder-01").task_in("t-1", &["completed", "failed", "canceled"]).await;
    assert_eq!(state(&lapsed), "canceled", "{lapsed:#}");
    assert!(message(&lapsed).starts_with("superseded: "), "{lapsed:#}");
    assert_eq!(state(&manager.task("t-1").await), "working");
    open_gate(cluster.dir.path());
    let task = manager.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(doer(&task), "builder-02", "{task:#}");
    assert_eq!(artifact(&task, "out.txt").as_deref(), Some("made by builder-02"));
    assert_eq!(completions(&manager.award("t-1").await), 1);
}

#[tokio::test]
async fn a_winner_that_restarts_in_time_continues_its_award() {
    let (cluster, front, mut one, _two) = trio("").await;
    let manager = front.agent("manager-01");
    manager.send(build("t-1")).await;
    at_work(cluster.dir.path(), "builder-01").await;
    // The awarder looks twice before it gives a winner up; on a slow machine a start takes longer than that.
    front.signal("STOP");
    one.revive().await;
    front.signal("CONT");
    eventually("begun again", async || (started_turns(cluster.dir.path()).len() == 2).then_some(())).await;
    open_gate(cluster.dir.path());
    let task = manager.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), doer(&task)), ("completed", "builder-01"), "{task:#}");
    let award = manager.award("t-1").await;
    assert_eq!(award["rounds"].as_array().map(Vec::len), Some(1), "{award:#}");
    let begun = started_turns(cluster.dir.path());
    assert_eq!(begun[0], begun[1], "the same work under the same key");
}

#[tokio::test]
async fn a_chain_of_agents_survives_the_death_of_the_middle_one() {
    let (cluster, front, _one, _two) = trio("").await;
    let script = "
turns:
  - when: { turn: 1 }
    say: [{ type: delegate, id: part, to: 'capability:build', description: build it }]
  - when: { turn: 2 }
    say: [{ type: artifact, name: plan.txt, text: planned }]
    end: { done: with what came back }
";
    let script = crate::harness::file(cluster.dir.path(), "script.yaml", script);
    let yaml = format!(
        "
agents:
  - {{ agent: planner-01, skills: [plan], brain: {{ scripted: '{}' }} }}
",
        script.display()
    );
    let mut middle = cluster.node("middle", &yaml).await;
    knows(&middle, &["builder-01", "builder-02"]).await;
    knows(&front, &["planner-01"]).await;
    let manager = front.agent("manager-01");
    manager.send(json!({ "taskId": "t-1", "description": "plan it", "capability": "plan" })).await;
    at_work(cluster.dir.path(), "builder-01").await;
    middle.kill();
    open_gate(cluster.dir.path());
    middle.revive().await;
    let task = manager.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&task).as_str(), doer(&task)), ("completed", "planner-01"), "{task:#}");
    assert_eq!(artifact(&task, "plan.txt").as_deref(), Some("planned"));
    // An agent that is away for two probes of its awarder has its work done anew; on a busy machine a start takes longer.
    let was_given_up = front.log().contains("a peer that holds an award is gone");
    let parts = started_turns(cluster.dir.path()).len();
    assert!(parts == 1 || was_given_up, "the part was done {parts} times");
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "t-1").await;
    assert_eq!(ends_at(&cluster.board, "t-1").await, 1);
}

#[tokio::test]
async fn repeated_kills_lose_no_accepted_task_and_repeat_none() {
    let (cluster, mut manager, mut one, mut two) = trio("leaseMs: 10000").await;
    open_gate(cluster.dir.path());
    let mut accepted = Vec::new();
    for round in 0..12 {
        let at = manager.agent("manager-01");
        for n in 0..4 {
            let id = format!("t-{round}-{n}");
            let sent = at.post(&at.request(build(&id))).await;
            assert_eq!(sent.status, 202, "{sent:?}");
            accepted.push(id);
        }
        match round * 7 % 3 {
            0 => manager.revive().await,
            1 => one.revive().await,
            _ => two.revive().await,
        }
    }
    let manager = manager.agent("manager-01");
    let mut completed = 0;
    for id in &accepted {
        let task = manager.task_in(id, &["completed", "failed"]).await;
        let award = manager.award(id).await;
        let is_done = state(&task) == "completed";
        assert_eq!(completions(&award), usize::from(is_done), "{award:#}");
        let kind = if is_done { "task.complete" } else { "task.failed" };
        cluster.board.signal_where(kind, |signal| signal["taskId"] == **id).await;
        assert!(is_done || !message(&task).is_empty(), "{task:#}");
        completed += usize::from(is_done);
    }
    assert_eq!(cluster.board.signals("task.complete").await.len(), completed, "each once");
    assert!(completed * 2 > accepted.len(), "{completed} of {} came to something", accepted.len());
}

#[tokio::test]
async fn every_accepted_task_ends_once_after_all_processes_are_killed_under_load() {
    let (mut cluster, mut manager, mut one, mut two) = trio("leaseMs: 15000").await;
    open_gate(cluster.dir.path());
    let at = manager.agent("manager-01");
    let mut accepted = Vec::new();
    let mut sending = futures_util::stream::FuturesUnordered::new();
    for n in 0..40 {
        let at = at.clone();
        sending.push(async move {
            let id = format!("t-{n}");
            let client = crate::harness::client();
            let request = client.post(format!("{}/a2a/messages", at.url)).json(&at.request(build(&id)));
            let is_taken = request.send().await.is_ok_and(|answer| answer.status().as_u16() == 202);
            is_taken.then_some(id)
        });
    }
    while let Some(taken) = futures_util::StreamExt::next(&mut sending).await {
        accepted.extend(taken);
        if accepted.len() == 25 {
            one.kill();
            manager.kill();
            cluster.board.kill();
            two.kill();
            cluster.registry.kill();
        }
    }
    assert!(accepted.len() >= 25);
    tokio::join!(
        two.revive(),
        cluster.registry.revive(),
        manager.revive(),
        cluster.board.revive(),
        one.revive()
    );
    let manager = manager.agent("manager-01");
    for id in &accepted {
        let task = manager.task_in(id, &["completed", "failed"]).await;
        let award = manager.award(id).await;
        assert_eq!(completions(&award), usize::from(state(&task) == "completed"), "{award:#}");
        let kind = if state(&task) == "completed" { "task.complete" } else { "task.failed" };
        cluster.board.signal_where(kind, |signal| signal["taskId"] == **id).await;
    }
    let done = cluster.board.signals("task.complete").await;
    let mut ids: Vec<_> = done.iter().map(|signal| signal["taskId"].as_str().unwrap()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "each completed once");
    assert!(
        count >= accepted.len() / 2,
        "most of the work is done, not given up: {count} of {}",
        accepted.len()
    );
}
