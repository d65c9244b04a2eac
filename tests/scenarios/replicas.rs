//! Several processes of one agent file share a data directory; each takes a subdirectory and its id from it, for as long as
//! it lives.

use crate::harness::{
    cluster::{Cluster, gated_brain, started_turns},
    eventually, file, get, mesh, state,
};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};

/// A replica; killed when dropped.
struct Replica(Child);

impl Replica {
    fn start(cluster: &Cluster, yaml: &str) -> Self {
        let team = file(cluster.dir.path(), "replica.yaml", yaml);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(cluster.path("replica.log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
        command
            .args(["node", "--replica", "--profile", "fast", "--port", "0"])
            .args(["--registry", &cluster.registry.url, "--board", &cluster.board.url])
            .arg("--join")
            .arg(cluster.path("join"))
            .arg("--data")
            .arg(cluster.path("replicas"))
            .arg(team);
        command.env("RUST_LOG", "info").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.unwrap());
        Self(command.spawn().unwrap())
    }

    fn kill(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The ids and addresses of the live replicas.
async fn alive(cluster: &Cluster) -> Vec<(String, String)> {
    let answer = get(&format!("{}/registry/agents?capability=build", cluster.registry.url)).await;
    let entries = answer["agents"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut alive: Vec<_> = entries
        .iter()
        .filter(|entry| entry["state"] == "alive")
        .map(|entry| (text(&entry["card"]["agentId"]), text(&entry["card"]["endpoint"])))
        .collect();
    alive.sort();
    alive
}

async fn are_alive(cluster: &Cluster, ids: &[&str]) -> Vec<(String, String)> {
    eventually(&format!("{ids:?} alive"), async || {
        let alive = alive(cluster).await;
        alive.iter().map(|(id, _)| id.as_str()).eq(ids.iter().copied()).then_some(alive)
    })
    .await
}

const ECHO: &str = "agents: [{ agent: builder, skills: [build], brain: { echo: {} } }]";

#[tokio::test]
async fn replicas_have_their_own_ids_and_reuse_the_id_of_a_dead_one() {
    let cluster = Cluster::start().await;
    let mut replicas: Vec<_> = (0..3).map(|_| Replica::start(&cluster, ECHO)).collect();
    let all = are_alive(&cluster, &["builder-1", "builder-2", "builder-3"]).await;
    let ports: std::collections::BTreeSet<_> = all.iter().map(|(_, endpoint)| endpoint).collect();
    assert_eq!(ports.len(), 3, "{all:?}");
    let said = |id: &str| -> Option<u32> {
        let run = std::fs::read(cluster.path("replicas").join(id).join("run.json")).ok()?;
        let run: Value = serde_json::from_slice(&run).ok()?;
        u32::try_from(run["pid"].as_u64()?).ok()
    };
    let pid_of = async |id: &str| eventually(&format!("what {id} says of itself"), async || said(id)).await;
    let second = pid_of("builder-2").await;
    let others = [pid_of("builder-1").await, pid_of("builder-3").await];
    let at = replicas.iter().position(|replica| replica.0.id() == second).unwrap();
    replicas.swap_remove(at).kill();
    let again = Replica::start(&cluster, ECHO);
    eventually("the place of the dead one taken", async || {
        (said("builder-2") == Some(again.0.id())).then_some(())
    })
    .await;
    are_alive(&cluster, &["builder-1", "builder-2", "builder-3"]).await;
    assert_eq!(
        [pid_of("builder-1").await, pid_of("builder-3").await],
        others,
        "the others stay who they are"
    );
    let data = cluster.path("replicas");
    let reset = ["reset", "--yes", "--data", &data.to_string_lossy()];
    assert_eq!(mesh(&reset, &[]).0, 73, "not under a running one");
    drop((again, replicas));
    let (code, left, told) = mesh(&reset, &[]);
    assert_eq!(code, 0, "{told}");
    assert!(
        left.contains("builder-1/keys/") && !left.contains("is empty"),
        "it names what it leaves: {left}"
    );
    for id in ["builder-1", "builder-2", "builder-3"] {
        assert!(!data.join(id).join("store.sqlite").exists(), "{id} is reset, too");
    }
}

#[tokio::test]
async fn a_replacement_of_a_dead_replica_continues_its_work() {
    let cluster = Cluster::start().await;
    let script = gated_brain(cluster.dir.path(), "builder-1");
    let yaml =
        format!("agents: [{{ agent: builder, skills: [build], brain: {{ exec: [/bin/sh, '{script}'] }} }}]");
    let mut first = Replica::start(&cluster, &yaml);
    let url = are_alive(&cluster, &["builder-1"]).await.remove(0).1;
    let agent = crate::harness::Agent::at("builder-1", &url);
    agent.send(json!({ "taskId": "t-1", "description": "build it", "capability": "build" })).await;
    eventually("the turn begun", async || (started_turns(cluster.dir.path()).len() == 1).then_some(())).await;
    first.kill();
    let _second = Replica::start(&cluster, &yaml);
    eventually("the turn begun again", async || (started_turns(cluster.dir.path()).len() == 2).then_some(()))
        .await;
    file(cluster.dir.path(), "open", "");
    let task = eventually("the task at its end", async || {
        let url = alive(&cluster).await.into_iter().next()?.1;
        let task = crate::harness::Agent::at("builder-1", &url).task("t-1").await;
        (state(&task) == "completed").then_some(task)
    })
    .await;
    assert_eq!(task["id"], "t-1", "{task:#}");
}

#[test]
fn a_replica_file_has_exactly_one_agent() {
    let dir = crate::harness::directory();
    let team = file(
        dir.path(),
        "team.yaml",
        "agents: [{ agent: a, brain: { echo: {} } }, { agent: b, brain: { echo: {} } }]",
    );
    let data = dir.path().join("data");
    let args = ["node", "--replica", "--data", &data.to_string_lossy(), &team.to_string_lossy()];
    let (code, _, said) = mesh(&args, &[]);
    assert_eq!(code, 78, "{said}");
    assert!(said.contains("one agent") && said.contains('2'), "{said}");
    assert!(!data.exists(), "nothing is made for a process that does not start");
}

#[tokio::test]
async fn the_first_replica_owns_the_schedules_of_the_file() {
    let cluster = Cluster::start().await;
    let yaml = "agents: [{ agent: builder, skills: [build], brain: { echo: {} }, schedules: { tick: { every: 1s, task: x } } }]";
    let _replicas: Vec<_> = (0..2).map(|_| Replica::start(&cluster, yaml)).collect();
    let all = are_alive(&cluster, &["builder-1", "builder-2"]).await;
    let schedules = async |(_, endpoint): &(String, String)| {
        get(&format!("{endpoint}/a2a/schedules")).await["schedules"].as_array().unwrap().clone()
    };
    eventually("the first has begun a task", async || {
        let schedules = schedules(&all[0]).await;
        schedules[0]["lastRun"]["taskId"].is_string().then_some(())
    })
    .await;
    assert!(schedules(&all[1]).await.is_empty(), "the second has none");
}
