//! Agents that are registered at an address that the caller cannot reach, as in containers: `--at` names another one.

use crate::harness::{Process, cluster::Cluster, get, mesh, state};
use serde_json::{Value, json};

const TEAM: &str = "
agents:
  - { agent: front-01, skills: [front], brain: { echo: {} } }
  - { agent: echo-01, skills: [echo], brain: { echo: {} } }
";

/// A node that is registered under a name that does not resolve.
async fn hidden(cluster: &Cluster) -> Process {
    let node = cluster.node_with("one", TEAM, &["--advertise", "mesh.invalid"]).await;
    cluster.wait_for_agents(&["front-01", "echo-01"]).await;
    node
}

#[tokio::test]
async fn commands_reach_an_agent_at_the_given_address() {
    let cluster = Cluster::start().await;
    let node = hidden(&cluster).await;
    let at = node.agent("front-01").url;
    let run = |args: &[&str]| mesh(&[args, &["--url", &cluster.registry.url, "--at", &at]].concat(), &[]);

    let (code, said, why) = run(&["ask", "hello", "--capability", "echo", "--task-id", "t-1"]);
    assert_eq!((code, said.contains("hello")), (0, true), "{said}{why}");
    let (code, said, why) = run(&["trace", "t-1"]);
    assert_eq!(code, 0, "{why}");
    for part in ["2 agents", "invoke_agent front-01", "invoke_agent echo-01"] {
        assert!(said.contains(part), "the whole tree: {part}: {said}");
    }
    for (args, part) in [
        (&["tasks"][..], "t-1"),
        (&["tasks", "show", "t-1"], "completed"),
        (&["tasks", "watch", "t-1"], "completed"),
        (&["award", "explain", "t-1"], "echo-01"),
        (&["dlq"], "no dead letters"),
        (&["health"], "front-01"),
    ] {
        let (code, said, why) = run(args);
        assert_eq!((code, format!("{said}{why}").contains(part)), (0, true), "{args:?}: {said}{why}");
    }
    let (code, said, _) = run(&["tasks", "--json"]);
    let listed: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &listed["tasks"][0]["agentId"]), (0, &json!("front-01")), "{listed:#}");
    let variable = [("MESH_AT", at.as_str()), ("MESH_URL", cluster.registry.url.as_str())];
    for args in [
        &["tasks", "show", "t-1"][..],
        &["trace", "t-1"],
        &["ask", "hi", "--to", "front-01", "--capability", "echo"],
        &["ls"],
    ] {
        let (code, _, why) = mesh(args, &variable);
        assert_eq!(code, 0, "{args:?}, told by the environment: {why}");
    }
    let (code, _, why) = run(&["trace", "t-2"]);
    assert_eq!((code, why.contains("front-01 knows no task t-2 of yours")), (6, true), "{why}");
    let (code, _, why) = mesh(&["trace", "t-1", "--at", &cluster.board.url], &[]);
    assert_eq!((code, why.lines().count(), why.contains("no agent is at")), (6, 1, true), "{why}");
}

#[tokio::test]
async fn a_subtask_names_the_agent_that_owns_the_task() {
    let cluster = Cluster::start().await;
    let front =
        cluster.node("front", "agents: [{ agent: front-01, skills: [front], brain: { echo: {} } }]").await;
    let echo =
        cluster.node("echo", "agents: [{ agent: echo-01, skills: [echo], brain: { echo: {} } }]").await;
    cluster.wait_for_agents(&["front-01", "echo-01"]).await;
    let task = json!({ "taskId": "t-1", "description": "hi", "capability": "echo" });
    assert_eq!(state(&front.agent("front-01").ask(task).await), "completed");
    let (code, said, why) = mesh(&["trace", "t-1", "--at", &echo.agent("echo-01").url], &[]);
    assert_eq!((code, said.contains("invoke_agent echo-01")), (0, true), "{said}{why}");
    assert!(!said.contains("invoke_agent front-01") && why.contains("front-01"), "{said}{why}");
}

#[tokio::test]
async fn a_doer_names_the_agent_that_knows_the_award() {
    let cluster = Cluster::start().await;
    let front =
        cluster.node("front", "agents: [{ agent: front-01, skills: [front], brain: { echo: {} } }]").await;
    let echo =
        cluster.node("echo", "agents: [{ agent: echo-01, skills: [echo], brain: { echo: {} } }]").await;
    cluster.wait_for_agents(&["front-01", "echo-01"]).await;
    let task = json!({ "taskId": "t-1", "description": "hi", "capability": "echo" });
    assert_eq!(state(&front.agent("front-01").ask(task).await), "completed");
    let (code, said, why) = mesh(&["award", "explain", "t-1", "--at", &echo.agent("echo-01").url], &[]);
    assert_eq!((code, why.lines().count()), (6, 1), "{said}{why}");
    for part in ["echo-01", "from front-01", &front.agent("front-01").url] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert!(!why.contains("not awarded"), "{why}");
}

/// At the port of the registry and the board, the accountable agent answers.
#[tokio::test]
async fn every_port_of_a_process_shows_the_whole_task() {
    let team = "
agents:
  - { agent: echo-01, skills: [echo], brain: { echo: {} } }
  - { agent: front-01, skills: [front], brain: { echo: {} } }
";
    let process = Process::up(team).await;
    let (front, echo) = (process.agent("front-01"), process.agent("echo-01"));
    let task = json!({ "taskId": "t-1", "description": "hi", "capability": "echo" });
    assert_eq!(state(&front.ask(task).await), "completed");
    let trace = async |at: &str| get(&format!("{at}/a2a/tasks/t-1/trace")).await;
    let (whole, services, part) =
        (trace(&front.url).await, trace(&process.url).await, trace(&echo.url).await);
    let spans = |answer: &Value| answer["spans"].as_array().map_or(0, Vec::len);
    assert_eq!((spans(&services), &services["agentId"]), (spans(&whole), &json!("front-01")), "{services:#}");
    assert!(spans(&part) < spans(&whole), "its own part: {part:#}");
    for at in [&process.url, &front.url, &echo.url] {
        let (code, said, why) = mesh(&["award", "explain", "t-1", "--at", at], &[]);
        assert_eq!(
            (code, said.contains("echo-01") && said.contains("round 1")),
            (0, true),
            "{at}: {said}{why}"
        );
    }
    let (code, said, why) = mesh(&["trace", "t-1", "--at", &echo.url], &[]);
    assert_eq!((code, why.contains("front-01")), (0, true), "it says who can tell the whole: {said}{why}");
    let (code, said, why) = mesh(&["trace", "t-1", "--at", &process.url], &[]);
    assert_eq!((code, why.as_str(), said.contains("invoke_agent front-01")), (0, "", true), "{said}");
}

#[tokio::test]
async fn an_unreachable_registered_address_is_reported_in_one_line_with_the_remedy() {
    let cluster = Cluster::start().await;
    let _node = hidden(&cluster).await;
    for args in [
        &["tasks"][..],
        &["tasks", "show", "t-1"],
        &["trace", "t-1"],
        &["award", "explain", "t-1"],
        &["dlq"],
        &["dlq", "show", "m-1"],
        &["ask", "hello", "--to", "front-01"],
        &["ask", "hello", "--capability", "echo"],
    ] {
        let (code, said, why) = mesh(&[args, &["--url", &cluster.registry.url]].concat(), &[]);
        assert_eq!((code, said.as_str(), why.lines().count()), (5, "", 1), "{args:?}: {said}{why}");
        for part in ["http://mesh.invalid:", "--at URL", "MESH_AT"] {
            assert!(why.contains(part), "{args:?}: {part}: {why}");
        }
    }
}
