//! `mesh health` names every failure and does not wait for a silent process.

use crate::harness::{cluster::Cluster, eventually, mesh};
use serde_json::Value;
use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

const TEAM: &str = "agents: [{ agent: echo-01, skills: [echo], brain: { echo: {} } }]";

#[tokio::test]
async fn every_failure_is_named_with_its_reason() {
    let mut cluster = Cluster::start().await;
    let node = cluster.node("one", TEAM).await;
    cluster.wait_for_agents(&["echo-01"]).await;
    let (code, said, why) = mesh(&["health", "--url", &cluster.registry.url], &[]);
    assert_eq!((code, said.matches("ready").count()), (0, 2), "{said}{why}");

    cluster.board.kill();
    let board = cluster.board.url.trim_start_matches("http://").to_owned();
    let (code, said, why) = mesh(&["health", "--url", &cluster.registry.url, "--json"], &[]);
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, why.lines().count()), (1, 1), "{said}{why}");
    for place in told["places"].as_array().unwrap() {
        let check = &place["says"]["checks"]["blackboard"];
        assert!(check["why"].as_str().unwrap().contains(&board), "{place:#}");
        assert_eq!(place["says"]["checks"]["store"]["ok"], true, "{place:#}");
    }
    let at = node.agent("echo-01").url;
    let (code, said, _) = mesh(&["health", "--at", &at], &[]);
    assert_eq!((code, said.contains("blackboard: ")), (1, true), "{said}");
    assert!(said.contains("echo-01") && !said.contains("overloaded"), "{said}");
}

#[tokio::test]
async fn a_silent_process_does_not_block_the_check() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let begun = Instant::now();
    let (code, _, why) = mesh(&["health", "--url", &url], &[]);
    assert_eq!((code, why.lines().count(), why.contains(&url)), (5, 1, true), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_other_processes_report_a_hanging_registry_in_time() {
    let cluster = Cluster::start().await;
    let node = cluster.node("one", TEAM).await;
    cluster.wait_for_agents(&["echo-01"]).await;
    cluster.registry.signal("STOP");
    let begun = Instant::now();
    let (code, said, why) = mesh(&["health", "--itself", "--url", &node.agent("echo-01").url], &[]);
    let took = begun.elapsed();
    cluster.registry.signal("CONT");
    assert_eq!((code, said.contains("registry: no answer within")), (1, true), "{said}{why}");
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[tokio::test]
async fn a_process_stays_steady_while_only_others_are_unreachable() {
    let mut cluster = Cluster::start().await;
    cluster.registry.kill();
    let node = cluster.node("one", TEAM).await;
    let url = node.agent("echo-01").url;
    let health = |how: &str| mesh(&["health", how, "--url", &url], &[]);
    let (code, said, _) = health("--steady");
    assert_eq!((code, said.contains("registry: ")), (1, true), "it was never ready: {said}");
    cluster.registry.revive().await;
    eventually("it ready", async || (health("--steady").0 == 0).then_some(())).await;
    cluster.registry.kill();
    let (code, said, _) = health("--itself");
    assert_eq!((code, said.contains("registry: ")), (1, true), "{said}");
    let (code, said, why) = health("--steady");
    assert_eq!((code, said.contains("steady") && said.contains("registry: ")), (0, true), "{said}{why}");
}
