//! A process that stood still takes nothing from those who went on meanwhile.

use super::crash::{at_work, build, builder, fates, open_gate};
use crate::harness::{artifact, call, cluster::Cluster, cluster::started_turns, eventually};
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};

/// Longer than a lease of `LEASE` and what is added to it.
const STALL: Duration = Duration::from_secs(15);
const LEASE: &str = "leaseMs: 6000";

async fn pause(process: &crate::harness::Process, meanwhile: impl Fn()) {
    process.signal("STOP");
    let since = Instant::now();
    meanwhile();
    eventually("the end of the stall", async || (since.elapsed() > STALL).then_some(())).await;
    process.signal("CONT");
}

#[tokio::test]
async fn a_board_that_stood_still_takes_the_work_that_was_finished_meanwhile() {
    let cluster = Cluster::start().await;
    let dir = cluster.dir.path();
    let yaml = |id: &str| {
        let agents = builder(dir, id, "maxParallel: 16");
        let subscribed = agents.replace("skills: [build],", "skills: [build], subscribe: [task.available],");
        format!("mesh: {{ auction: {{ {LEASE} }} }}{subscribed}")
    };
    let (one, two) = (yaml("builder-01"), yaml("builder-02"));
    let _nodes = tokio::join!(cluster.node("one", &one), cluster.node("two", &two));
    cluster.wait_for_agents(&["builder-01", "builder-02"]).await;
    let tasks: Vec<_> = (0..6).map(|n| format!("open-{n}")).collect();
    for task in &tasks {
        let offer = json!({
            "type": "task.available", "taskId": task, "capability": "build", "refs": { "description": "build it" },
        });
        let url = format!("{}/board/signals", cluster.board.url);
        assert_eq!(call(Method::POST, &url, Some(&offer)).await.status, 201);
    }
    eventually("six turns", async || (started_turns(dir).len() == 6).then_some(())).await;

    pause(&cluster.board, || open_gate(dir)).await;
    for task in &tasks {
        cluster.board.signal_where("task.complete", |signal| signal["taskId"] == *task).await;
    }
    assert_eq!(started_turns(dir).len(), 6, "nothing is done again");
    let offers = cluster.board.signals("task.available").await;
    assert!(offers.iter().all(|offer| offer["refs"]["reason"] != "lease-expired"), "{offers:#?}");
    assert_eq!(cluster.board.signals("artifact.produced").await.len(), 6);
    assert!(cluster.board.log().contains("the process stood still"), "{}", cluster.board.log());
}

#[tokio::test]
async fn a_manager_that_stood_still_takes_the_result_that_was_ready_meanwhile() {
    let (cluster, manager, _one, _two) = super::crash::trio(LEASE).await;
    let dir = cluster.dir.path();
    let asked = manager.agent("manager-01");
    asked.send(build("t-1")).await;
    at_work(dir, "builder-01").await;

    pause(&manager, || open_gate(dir)).await;
    let task = asked.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(artifact(&task, "out.txt").as_deref(), Some("made by builder-01"), "{task:#}");
    let fates = fates(&asked.award("t-1").await);
    assert!(fates.iter().all(|(_, fate)| fate != "lease-expired"), "{fates:?}");
    assert_eq!(started_turns(dir).len(), 1, "it is done once");
}
