//! Registry, blackboard and nodes as separate processes: they find each other, share one secret, and report failures.

use super::config::ended;
use crate::harness::{Process, call, cluster::Cluster, directory, file, get, mesh, state, text};
use reqwest::Method;
use serde_json::json;

const TEAM: &str = "
agents:
  - { agent: echo-01, skills: [echo], brain: { echo: {} } }
";

#[tokio::test]
async fn processes_of_one_user_find_data_secret_and_board_without_flags() {
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

    // Every process knows the address of the board.
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
async fn a_node_that_starts_first_finds_the_board_once_the_registry_is_up() {
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
async fn a_board_that_moved_is_found_through_the_registry() {
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
async fn a_wrong_join_secret_is_reported_with_its_file_and_the_refusing_process() {
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

/// A proxy before `url` that takes the password of a request and does not pass it on. Returns its URL.
fn proxy_with_password(url: &str) -> String {
    use std::io::{Read as _, Write as _, copy};
    let target = url.trim_start_matches("http://").to_owned();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut caller in listener.incoming().map_while(Result::ok) {
            let target = target.clone();
            std::thread::spawn(move || {
                let mut request = vec![0; 64 * 1024];
                let read = caller.read(&mut request).unwrap_or_default();
                let request = String::from_utf8_lossy(&request[..read]).into_owned();
                let passes = |line: &&str| !line.to_lowercase().starts_with("authorization: basic");
                let request: String = request.split_inclusive("\r\n").filter(passes).collect();
                let mut server = std::net::TcpStream::connect(target).unwrap();
                server
                    .write_all(request.replacen("\r\n", "\r\nconnection: close\r\n", 1).as_bytes())
                    .unwrap();
                drop(copy(&mut server, &mut caller));
            });
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_join_secret_that_was_missing_is_not_left_behind_if_the_mesh_has_another() {
    let cluster = Cluster::start().await;
    let dir = directory();
    let (team, join) = (file(dir.path(), "team.yaml", TEAM), dir.path().join("no-such-join"));
    let (team, name) = (team.to_string_lossy(), join.to_string_lossy());
    let data = dir.path().join("data").to_string_lossy().into_owned();
    let url = &cluster.registry.url;
    let args = ["node", "--registry", url, "--join", &name, "--data", &data, "--port", "0", &team];
    for _ in 0..2 {
        let (code, said) = ended(&args).await;
        assert_eq!(code, 77, "{said}");
        assert!(said.contains(&format!("there was no {name}")) && said.contains("--join"), "{said}");
        assert!(!join.exists(), "{said}");
    }
}

#[tokio::test]
async fn a_proxy_password_in_a_url_is_used_and_never_shown() {
    let cluster = Cluster::start().await;
    let dir = directory();
    let (team, join) = (file(dir.path(), "team.yaml", TEAM), cluster.path("join"));
    let (team, join) = (team.to_string_lossy(), join.to_string_lossy());
    let with_password = |url: &str| url.replace("http://", "http://me:s3cret@");
    let (registry, board) = (with_password(&cluster.registry.url), with_password(&cluster.board.url));
    let mut args = vec!["node", "--registry", &registry, "--board", &board, "--join", &join];
    args.extend(["--port", "0", "--profile", "fast", &team]);
    let node = Process::start(&dir.path().join("data"), &args).await;
    let agent = node.agent("echo-01");
    let task = json!({ "taskId": "t-1", "description": "hi", "capability": "echo" });
    assert_eq!(state(&agent.ask(task).await), "completed");
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "t-1").await;
    let services = get(&format!("{}/services", agent.url)).await;
    assert_eq!(services, json!({ "registry": cluster.registry.url, "board": cluster.board.url }));
    for route in ["/healthz", "/readyz", "/state", "/metrics", "/services"] {
        let answer = text(&format!("{}{route}", agent.url)).await;
        assert!(!answer.contains("s3cret"), "{route}: {answer}");
    }
    assert!(!node.log().contains("s3cret"), "{}", node.log());

    // A process that does not start does not show it either.
    let other = file(dir.path(), "other-join", &"x".repeat(64));
    let (other, data) = (other.to_string_lossy(), dir.path().join("other").to_string_lossy().into_owned());
    let start = |verb: &'static str, flag: &'static str, url: &str, more: &[&str]| {
        let words = [&[verb, flag, url, "--join", &other, "--data", &data, "--port", "0"], more].concat();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let strange = with_password(&proxy_with_password(&agent.url));
    for (words, code, at) in [
        (start("node", "--registry", &registry, &[&team]), 77, &cluster.registry.url),
        (start("registry", "--board", &board, &[]), 77, &cluster.board.url),
        (start("node", "--registry", &strange, &[&team]), 78, &strange.replace("me:s3cret@", "")),
    ] {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (ended, said) = ended(&words).await;
        assert_eq!(ended, code, "{said}");
        assert!(said.contains(at) && !said.contains("s3cret"), "{said}");
    }
}

/// An agent that also subscribes to the board, whose address only the registry knows.
const WAITS: &str = "
agents:
  - { agent: echo-01, skills: [echo], subscribe: [task.available], brain: { echo: {} } }
  - { agent: echo-02, skills: [echo], brain: { echo: {} } }
";

#[tokio::test]
async fn a_node_without_a_registry_reports_in_one_line_what_answered_instead() {
    let other = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let elsewhere = format!("http://{}", other.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in other.incoming().map_while(Result::ok) {
            use std::io::{Read as _, Write as _};
            drop(stream.read(&mut [0; 4096]));
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"));
        }
    });
    let cluster = Cluster::start().await;
    let join = cluster.path("join").to_string_lossy().into_owned();
    let none = "http://127.0.0.1:9".to_owned();
    for (at, why) in [(&none, "onnection refused"), (&elsewhere, "is no registry")] {
        let data = crate::harness::directory();
        let team = file(data.path(), "team.yaml", WAITS).to_string_lossy().into_owned();
        let node = ["node", "--registry", at, "--join", &join, "--port", "0", "--profile", "fast", &team];
        let node = Process::start(&data.path().join("data"), &node).await;
        let ready = call(Method::GET, &format!("{}/readyz", node.agent("echo-01").url), None).await;
        assert_eq!(ready.status, 503);
        let said = ready.body["checks"]["registry"]["why"].as_str().unwrap_or_default();
        assert!(said.contains(why) && said.contains(at.as_str()), "{:#}", ready.body);
        let log = node.log();
        let is_said = |line: &&str| line.contains("WARN") && !line.contains("others can read");
        let lines: Vec<_> = log.lines().filter(is_said).collect();
        let [line] = lines[..] else { panic!("one line: {log}") };
        assert!(line.contains(why) && line.contains(at.as_str()) && line.contains("trying"), "{line}");
    }
    let peer = cluster.node("peer", TEAM).await;
    let peers = peer.agent("echo-01").url;
    for (at, also) in [(&cluster.board.url, ""), (&peers, cluster.registry.url.as_str())] {
        let data = crate::harness::directory();
        let team = file(data.path(), "team.yaml", WAITS).to_string_lossy().into_owned();
        let dir = data.path().join("data").to_string_lossy().into_owned();
        let node = ["node", "--join", &join, "--port", "0", "--data", &dir, &team];
        // Without --registry it is where --url says, and MESH_REGISTRY goes before that.
        let elsewhere = ("MESH_URL", "http://127.0.0.1:9");
        let given = [("MESH_REGISTRY", at.as_str()), elsewhere];
        let envs: [&[(&str, &str)]; 2] = [&[("MESH_URL", at.as_str())], &given];
        for envs in envs {
            let (code, _, said) = mesh(&node, envs);
            let is_said = ["is no registry", at.as_str(), also].iter().all(|part| said.contains(part));
            assert!(
                code == 78 && is_said && said.lines().filter(|line| !line.contains("WARN")).count() == 1,
                "{code} {said}"
            );
        }
    }
}
