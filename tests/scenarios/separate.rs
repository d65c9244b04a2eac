//! Registry, blackboard and nodes as processes of their own, as the README starts them: they find each other, share one
//! secret, and say so when they do not.

use super::config::ended;
use crate::harness::{Process, call, cluster::Cluster, directory, file, get, mesh, state};
use reqwest::Method;
use serde_json::json;

const TEAM: &str = "
agents:
  - { agent: echo-01, skills: [echo], brain: { echo: {} } }
";

#[tokio::test]
async fn processes_of_one_user_need_not_be_told_of_each_others_data_secret_or_board() {
    let home = directory();
    let home = home.path();
    let fast = ["--port", "0", "--profile", "fast"];
    let board = Process::at_home(home, "blackboard", &[&["blackboard"][..], &fast].concat()).await;
    let args = [&["registry", "--board", &board.url][..], &fast].concat();
    let registry = Process::at_home(home, "registry", &args).await;
    let team = file(home, "team.yaml", TEAM).to_string_lossy().into_owned();
    let args = [&["node", "--registry", &registry.url][..], &fast, &[&team]].concat();
    let node = Process::at_home(home, "node-team", &args).await;

    assert!(home.join(".mesh/default/join").is_file(), "one secret for all");
    let task = json!({ "taskId": "t-1", "description": "hi", "capability": "echo" });
    assert_eq!(state(&node.agent("echo-01").ask(task).await), "completed");
    board.signal_where("agent.joined", |signal| signal["subject"] == "echo-01").await;
    board.signal_where("task.complete", |signal| signal["taskId"] == "t-1").await;

    // Whichever process is asked, the board is found.
    for url in [&registry.url, &board.url, &node.agent("echo-01").url] {
        let tail = ["board", "tail", "--no-follow", "--type", "task.complete", "--url", url];
        let (code, out, said) = mesh(&tail, &[]);
        assert_eq!(code, 0, "{url}: {said}");
        assert!(out.contains("t-1"), "{url}: {out}");
    }
    let services = get(&format!("{}/services", registry.url)).await;
    assert_eq!(services, json!({ "registry": "here", "board": board.url }));
}

#[tokio::test]
async fn a_node_that_starts_first_finds_the_board_when_the_registry_comes() {
    let mut cluster = Cluster::start().await;
    cluster.registry.kill();
    let dir = directory();
    let (team, join) = (file(dir.path(), "team.yaml", TEAM), cluster.path("join"));
    let (team, join) = (team.to_string_lossy(), join.to_string_lossy());
    let args = ["node", "--registry", &cluster.registry.url, "--join", &join, "--port", "0", "--profile"];
    let node = Process::start(&dir.path().join("data"), &[&args[..], &["fast", &team]].concat()).await;
    let ready = call(Method::GET, &format!("{}/readyz", node.agent("echo-01").url), None).await;
    assert_eq!((ready.status, &ready.body["checks"]["blackboard"]["ok"]), (503, &json!(false)), "{ready:?}");
    cluster.registry.revive().await;
    cluster.board.signal_where("agent.joined", |signal| signal["subject"] == "echo-01").await;
    let task = json!({ "taskId": "t-1", "description": "hi", "capability": "echo" });
    assert_eq!(state(&node.agent("echo-01").ask(task).await), "completed");
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "t-1").await;
}

#[tokio::test]
async fn a_board_that_comes_back_elsewhere_is_found_there_through_the_registry() {
    let mut cluster = Cluster::start().await;
    let dir = directory();
    let (team, join) = (file(dir.path(), "team.yaml", TEAM), cluster.path("join"));
    let (team, join) = (team.to_string_lossy(), join.to_string_lossy());
    let args = ["node", "--registry", &cluster.registry.url, "--join", &join, "--port", "0", "--profile"];
    let node = Process::start(&dir.path().join("data"), &[&args[..], &["fast", &team]].concat()).await;
    let ask = async |task: &str| {
        let request = json!({ "taskId": task, "description": "hi", "capability": "echo" });
        assert_eq!(state(&node.agent("echo-01").ask(request).await), "completed");
    };
    ask("t-1").await;
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "t-1").await;
    cluster.move_board().await;
    ask("t-2").await;
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "t-2").await;
}

#[tokio::test]
async fn another_join_secret_is_told_by_its_file_and_who_refused_it() {
    let cluster = Cluster::start().await;
    let dir = directory();
    let (team, join) = (file(dir.path(), "team.yaml", TEAM), file(dir.path(), "other-join", &"x".repeat(64)));
    let (team, join) = (team.to_string_lossy(), join.to_string_lossy());
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let url = &cluster.registry.url;
    let args = ["node", "--registry", url, "--join", &join, "--data", &data, "--port", "0", &team];
    let (code, said) = ended(&args).await;
    assert_eq!(code, 77, "{said}");
    assert!(said.contains(url) && said.contains(&*join) && said.contains("--join"), "{said}");

    let url = &cluster.board.url;
    let (code, said) =
        ended(&["registry", "--board", url, "--join", &join, "--data", &data, "--port", "0"]).await;
    assert_eq!(code, 77, "{said}");
    assert!(said.contains(url) && said.contains(&*join), "{said}");
}
