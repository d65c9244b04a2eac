//! Listening beyond loopback needs an existing join secret; calls from elsewhere need a credential, except from configured
//! addresses.

use crate::harness::{client, cluster::Cluster, directory, eventually, file, get, mesh};
use serde_json::json;
use std::{
    net::{Ipv4Addr, UdpSocket},
    process::{Child, Command, Stdio},
};

const TEAM: &str = "agents: [{ agent: echo-01, skills: [echo], brain: { echo: {} } }]";

/// The external address of this machine; none if it has only loopback.
pub(super) fn outward() -> Option<String> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

/// A process that is killed when dropped.
pub(super) struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn without_a_join_secret_no_process_listens_beyond_loopback_and_the_remedy_is_named() {
    let dir = directory();
    let data = dir.path().join("data");
    let team = file(dir.path(), "team.yaml", TEAM);
    for verb in ["up", "node", "registry", "blackboard"] {
        let mut args = vec![verb, "--listen", "0.0.0.0", "--port", "0"];
        let (data, team) = (data.to_string_lossy(), team.to_string_lossy());
        args.extend(["--data", &data]);
        args.extend((verb == "node" || verb == "up").then_some(&*team));
        let (code, _, said) = mesh(&args, &[]);
        assert_eq!(code, 77, "{verb}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        for word in ["0.0.0.0", "mesh join-secret --init", "--join", "MESH_JOIN"] {
            assert!(said.contains(word), "{word} is missing: {said}");
        }
    }
    assert!(!data.join("join").exists(), "a secret of its own would shut everybody out");
}

#[test]
fn a_join_secret_is_made_once_and_only_its_owner_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = directory();
    let path = dir.path().join("new").join("join");
    let name = path.to_string_lossy().into_owned();
    let init = || mesh(&["join-secret", "--init", &name], &[]);
    let (code, said, _) = init();
    assert!(code == 0 && said.contains("was not there and was made"), "{said}");
    let made = std::fs::read_to_string(&path).unwrap();
    assert!(made.len() >= 32, "{made}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let (code, said, _) = init();
    assert_eq!((code, said.contains("stays")), (0, true), "{said}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), made);
    std::fs::write(&path, "short").unwrap();
    let (code, _, said) = init();
    assert!(
        code != 0 && said.contains(&name),
        "a file that holds no secret is not taken for one: {code} {said}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "short", "nor written over");
}

#[tokio::test]
async fn a_remote_caller_needs_a_credential_unless_configured_as_the_user() {
    let Some(own) = outward() else { return eprintln!("this machine has no address but loopback") };
    let cluster = Cluster::start().await;
    for (callers, name, status) in [("192.0.2.7", "stranger-01", 401), (&*own, "known-01", 200)] {
        let more = ["--advertise", &own, "--local-callers", callers];
        let (_node, endpoint) = beyond(&cluster, name, &more).await;
        assert!(endpoint.starts_with(&format!("http://{own}:")), "{endpoint}");
        let port = endpoint.rsplit(':').next().unwrap();
        for (host, status) in [(&*own, 401), ("localhost", status), (&format!("127.0.0.1:{port}"), status)] {
            let seen = client().get(format!("{endpoint}/state")).header("host", host).send().await.unwrap();
            assert_eq!(seen.status(), status, "{name}: {host}");
        }
        let ready = format!("http://127.0.0.1:{port}/readyz");
        let here = crate::harness::call(reqwest::Method::GET, &ready, None).await;
        assert_eq!(here.status, 200, "loopback stays the user's");
        let card = get(&format!("http://127.0.0.1:{port}/.well-known/agent-card.json")).await.to_string();
        assert!(
            card.contains(&format!("http://127.0.0.1:{port}/")),
            "an address its caller can call: {card}"
        );
        assert!(!card.contains(&format!("//{own}:")), "{card}");
        let health = mesh(&["health", "--itself", "--url", &format!("http://127.0.0.1:{port}")], &[]);
        assert_eq!(health.0, 0, "{health:?}");
    }
}

/// Starts `mesh node` beyond loopback with more arguments; returns its registered address.
async fn beyond(cluster: &Cluster, name: &str, more: &[&str]) -> (KilledOnDrop, String) {
    team_beyond(cluster, (name, &TEAM.replace("echo-01", name)), more).await
}

/// The same for a team with the agent `name`.
pub(super) async fn team_beyond(
    cluster: &Cluster,
    (name, team): (&str, &str),
    more: &[&str],
) -> (KilledOnDrop, String) {
    let team = file(cluster.dir.path(), &format!("{name}.yaml"), team);
    let log = std::fs::File::create(cluster.path(&format!("{name}.log"))).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
    command
        .args(["node", "--profile", "fast", "--port", "0", "--listen", "0.0.0.0"])
        .args(["--registry", &cluster.registry.url, "--board", &cluster.board.url])
        .args(more)
        .arg("--join")
        .arg(cluster.path("join"))
        .arg("--data")
        .arg(cluster.path(name))
        .arg(team);
    let node = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let entry = cluster.registry.entry_where(name, |entry| entry["state"] == "alive").await;
    (KilledOnDrop(node), entry["card"]["endpoint"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_metrics_caller_can_read_nothing_but_metrics() {
    let Some(own) = outward() else { return eprintln!("this machine has no address but loopback") };
    let cluster = Cluster::start().await;
    for (callers, name, status) in [("192.0.2.7", "closed-01", 401), (&*own, "watched-01", 200)] {
        let more = ["--advertise", &own, "--metrics-callers", callers];
        let (_node, endpoint) = beyond(&cluster, name, &more).await;
        let status_of = async |path: &str| {
            crate::harness::call(reqwest::Method::GET, &format!("{endpoint}{path}"), None).await.status
        };
        assert_eq!(status_of("/metrics").await, status, "{name}");
        for path in ["/state", "/readyz", "/a2a/tasks", "/metrics/"] {
            assert_ne!(status_of(path).await, 200, "{name}: {path}");
        }
        let posted = crate::harness::call(reqwest::Method::POST, &format!("{endpoint}/metrics"), None).await;
        assert_eq!(posted.status, 401, "{posted:?}");
    }
}

#[tokio::test]
async fn a_call_by_an_agents_host_name_needs_a_credential() {
    let cluster = Cluster::start().await;
    for (name, more) in [("advertised-01", None), ("listed-01", Some(["--hosts", "planner"]))] {
        let more = [&["--advertise", "planner"][..], more.as_ref().map_or(&[], |more| &more[..])].concat();
        let (_node, endpoint) = beyond(&cluster, name, &more).await;
        assert!(endpoint.starts_with("http://planner:"), "{endpoint}");
        let port = endpoint.rsplit(':').next().unwrap();
        let called = async |host: &str| {
            let request = client().get(format!("http://127.0.0.1:{port}/state")).header("host", host);
            request.send().await.unwrap().status().as_u16()
        };
        assert_eq!(called("planner").await, 401, "{name}");
        assert_eq!(called(&format!("planner:{port}")).await, 401, "{name}");
        assert_eq!((called("localhost").await, called("127.0.0.1:1").await), (200, 200), "{name}");
        assert_eq!(called("elsewhere").await, 403, "{name}");
    }
}

#[tokio::test]
async fn a_grace_longer_than_the_stop_grace_is_a_warning_at_start() {
    let cluster = Cluster::start().await;
    let warned = |node: &crate::harness::Process| node.log().contains("MESH_STOP_GRACE");
    let long = ["--grace", "60s", "--stop-grace", "40s"];
    let node = cluster.node_with("long", TEAM, &long).await;
    assert!(warned(&node) && node.log().contains("70 s"), "{}", node.log());
    drop(node);
    cluster.copy_keys("long", "json");
    let node = cluster.node_with("json", TEAM, &[&long[..], &["--log-format", "json"]].concat()).await;
    let log = node.log();
    let line = log.lines().find(|line| line.contains("MESH_STOP_GRACE")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(line).unwrap()["level"], "WARN", "{line}");
    drop(node);
    cluster.copy_keys("long", "fits");
    let node = cluster.node_with("fits", TEAM, &["--grace", "25s", "--stop-grace", "40s"]).await;
    assert!(!warned(&node), "{}", node.log());
}

#[tokio::test]
async fn a_node_that_starts_before_its_registry_logs_it_and_joins_later() {
    let mut cluster = Cluster::start().await;
    let url = cluster.registry.url.clone();
    cluster.registry.kill();
    let node = cluster.node("one", TEAM).await;
    let agent = node.agent("echo-01");
    let ready = get(&format!("{}/readyz", agent.url)).await;
    assert_eq!(ready["checks"]["registry"]["ok"], false, "{ready:#}");
    let why = ready["checks"]["registry"]["why"].as_str().unwrap();
    assert!(why.contains(&url), "it says where it looked: {why}");
    let said = eventually("that there is no registry", async || {
        let said: Vec<_> =
            node.log().lines().filter(|line| line.contains("no registry yet")).map(str::to_owned).collect();
        (!said.is_empty()).then_some(said)
    })
    .await;
    assert_eq!(said.len(), 1, "once, however often it tries: {said:?}");
    cluster.registry.revive().await;
    cluster.wait_for_agents(&["echo-01"]).await;
    let task = agent.ask(json!({ "description": "hello", "capability": "echo" })).await;
    assert_eq!(crate::harness::state(&task), "completed");
    let said = node.log().lines().filter(|line| line.contains("no registry yet")).count();
    assert_eq!(said, 1, "{}", node.log());
}
