//! A restart repeats nothing: what a task has recorded belongs to the task, and the agent that did it goes on behind it. Work whose
//! agent is away waits for it.

use super::crash::{at_work, build, builder, fates, open_gate};
use crate::harness::{
    Agent, Process,
    cluster::{Cluster, started_turns},
    eventually, file, message, state,
};
use serde_json::{Value, json};

const MODULE: &str = include_str!("../../agent-node/templates/python/mesh_agent.py");

/// Makes three calls that are paid, each once in the task, and waits for its gate before the last. A call writes its number and
/// the epoch to `calls`.
const PAID: &str = r#"
import os, sys, time
import mesh_agent as agent

@agent.turn
def work(turn):
    def call(n):
        with open(os.path.join(DIR, "calls-" + turn.agent), "a") as calls:
            calls.write(f"{n}\n")
    for n in range(3):
        if n == 2:
            turn.status("waits")
            while os.path.isdir(DIR) and not os.path.exists(os.path.join(DIR, "open")):
                time.sleep(0.02)
        turn.once(f"call {n}", lambda: call(n))
    return "made by " + turn.agent

agent.run()
"#;

/// A node with an agent whose calls are paid.
fn paid(cluster: &Cluster, id: &str, bid: &str, more: &str) -> String {
    let dir = cluster.dir.path();
    let program = PAID.replace("DIR", &format!("{:?}", dir.to_str().unwrap()));
    file(dir, "mesh_agent.py", MODULE);
    let program = file(dir, "paid.py", &program).display().to_string();
    let brain = format!("brain: {{ exec: {{ command: [python3, '{program}'], worker: true }} }}");
    format!("agents: [{{ agent: {id}, skills: [build], {brain}, bid: {{ {bid} }}{more} }}]")
}

fn calls(cluster: &Cluster, agent: &str) -> Vec<String> {
    let calls = std::fs::read_to_string(cluster.path(&format!("calls-{agent}"))).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

const ONCE: [&str; 3] = ["0", "1", "2"];

const MANAGER: &str = "agents: [{ agent: manager-01, skills: [manage], brain: { echo: {} } }]";

/// The records of the two calls before are durable.
async fn before_the_last_call(manager: &Agent) {
    eventually("two calls recorded", async || (message(&manager.task("t-1").await) == "waits").then_some(()))
        .await;
}

fn awards(award: &Value) -> Vec<(String, String)> {
    let mut fates = fates(award);
    fates.retain(|(_, fate)| !["not-eligible", "outbid", "no-answer"].contains(&fate.as_str()));
    fates
}

#[tokio::test]
async fn a_graceful_stop_keeps_what_has_records_and_its_requester_sees_why() {
    let cluster = Cluster::start().await;
    let mut first =
        cluster.node_with("one", &paid(&cluster, "builder-01", "cost: 0", ""), &["--grace", "100ms"]).await;
    let _other = cluster.node("two", &builder(cluster.dir.path(), "builder-02", "cost: 9, eta: 1h")).await;
    let manager = cluster.node("three", MANAGER).await;
    cluster.wait_for_agents(&["builder-01", "builder-02", "manager-01"]).await;
    let agent = manager.agent("manager-01");
    agent.send(build("t-1")).await;
    before_the_last_call(&agent).await;
    first.signal("TERM");
    assert_eq!(first.ended().await, 0, "{}", first.log());
    let task = agent.task("t-1").await;
    assert!(
        message(&task).starts_with("waits for builder-01, which is away with its work since"),
        "{task:#}"
    );
    first.revive().await;
    open_gate(cluster.dir.path());
    let task = agent.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(message(&task), "made by builder-01", "{task:#}");
    assert_eq!(calls(&cluster, "builder-01"), ONCE);
    assert_eq!(awards(&agent.award("t-1").await), [("builder-01".to_owned(), "completed".to_owned())]);
    assert!(started_turns(cluster.dir.path()).is_empty(), "the other one was given nothing");
}

#[tokio::test]
async fn work_of_an_agent_that_stays_away_is_awarded_anew_and_it_goes_on_when_it_gets_it_again() {
    let cluster = Cluster::start().await;
    let yaml = paid(&cluster, "builder-01", "cost: 0", ", comesBackIn: 2s");
    let mut first = cluster.node_with("one", &yaml, &["--grace", "100ms"]).await;
    let mut other = cluster.node("two", &builder(cluster.dir.path(), "builder-02", "cost: 9, eta: 1h")).await;
    let manager = cluster.node("three", MANAGER).await;
    cluster.wait_for_agents(&["builder-01", "builder-02", "manager-01"]).await;
    let agent = manager.agent("manager-01");
    agent.send(build("t-1")).await;
    before_the_last_call(&agent).await;
    first.signal("TERM");
    assert_eq!(first.ended().await, 0, "{}", first.log());
    at_work(cluster.dir.path(), "builder-02").await;

    // It learns that it was superseded before it works on.
    first.revive().await;
    let own = first.agent("builder-01");
    let task = own.task_in("t-1", &["canceled", "completed", "failed"]).await;
    assert!(message(&task).contains("superseded"), "{task:#}");
    assert_eq!(calls(&cluster, "builder-01").len(), 2);

    other.kill();
    open_gate(cluster.dir.path());
    let task = agent.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(message(&task), "made by builder-01", "{task:#}");
    assert_eq!(calls(&cluster, "builder-01"), ONCE, "it went on behind its records");
}

#[tokio::test]
async fn a_killed_agent_that_comes_back_goes_on_at_once_under_its_award() {
    let cluster = Cluster::start().await;
    let mut first = cluster.node("one", &paid(&cluster, "builder-01", "cost: 0", "")).await;
    let manager = cluster.node("three", MANAGER).await;
    cluster.wait_for_agents(&["builder-01", "manager-01"]).await;
    let agent = manager.agent("manager-01");
    agent.send(build("t-1")).await;
    before_the_last_call(&agent).await;
    let epoch = first.agent("builder-01").task("t-1").await;
    first.kill();
    eventually("the manager misses it", async || {
        let said = message(&agent.task("t-1").await);
        (said.contains("is gone") || said.contains("waiting for a bidder")).then_some(())
    })
    .await;
    first.revive().await;
    open_gate(cluster.dir.path());
    let task = agent.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(message(&task), "made by builder-01", "{task:#}");
    assert_eq!(calls(&cluster, "builder-01"), ONCE);
    let after = first.agent("builder-01").task("t-1").await;
    let conversation = |task: &Value| task["metadata"][protocol::task::EXTENSION]["conversation"].clone();
    assert_eq!(conversation(&epoch), conversation(&after), "it is the same work");
}

#[tokio::test]
async fn a_task_waits_for_a_fitting_agent_that_is_away_and_says_so() {
    let cluster = Cluster::start().await;
    let mut first = cluster.node_with("one", &paid(&cluster, "builder-01", "cost: 0", ""), &[]).await;
    let manager = cluster.node("three", MANAGER).await;
    cluster.wait_for_agents(&["builder-01", "manager-01"]).await;
    super::crash::knows(&manager, &["builder-01"]).await;
    first.signal("TERM");
    assert_eq!(first.ended().await, 0, "{}", first.log());
    let agent = manager.agent("manager-01");
    agent.send(build("t-1")).await;
    eventually("the wait is shown", async || {
        let task = agent.task("t-1").await;
        let said = message(&task);
        (said.starts_with("waiting for a bidder") && said.contains("builder-01: it is away since"))
            .then_some(())
    })
    .await;
    let unknown = agent.ask(json!({ "taskId": "t-2", "description": "x", "capability": "no-such" })).await;
    assert_eq!(state(&unknown), "failed", "{unknown:#}");
    open_gate(cluster.dir.path());
    first.revive().await;
    let task = agent.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(message(&task), "made by builder-01", "{task:#}");
}

#[tokio::test]
async fn a_task_that_may_not_wait_fails_at_once_if_the_only_agent_is_away() {
    let cluster = Cluster::start().await;
    let mut first = cluster.node("one", &paid(&cluster, "builder-01", "cost: 0", "")).await;
    let manager =
        cluster.node("three", &format!("mesh: {{ auction: {{ maxQueueMs: 0 }} }}\n{MANAGER}")).await;
    cluster.wait_for_agents(&["builder-01", "manager-01"]).await;
    super::crash::knows(&manager, &["builder-01"]).await;
    first.signal("TERM");
    assert_eq!(first.ended().await, 0, "{}", first.log());
    eventually("the manager knows that it is away", async || {
        let agents = manager.agent("manager-01").ask(build(&format!("t-{}", uuid::Uuid::new_v4()))).await;
        (state(&agents) == "failed" && message(&agents).contains("it is away since")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_refuses_connections_is_away_for_the_registry_within_seconds() {
    let cluster = Cluster::start().await;
    let mut first: Process = cluster.node("one", &paid(&cluster, "builder-01", "cost: 0", "")).await;
    let manager = cluster.node("three", MANAGER).await;
    cluster.wait_for_agents(&["builder-01", "manager-01"]).await;
    let agent = manager.agent("manager-01");
    agent.send(build("t-1")).await;
    before_the_last_call(&agent).await;
    first.kill();
    cluster.registry.entry_where("builder-01", |entry| entry["state"] == "dead").await;
    open_gate(cluster.dir.path());
    first.revive().await;
    let task = manager.agent("manager-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((message(&task).as_str(), calls(&cluster, "builder-01").len()), ("made by builder-01", 3));
}
