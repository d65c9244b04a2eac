//! Agents react to signals (DESIGN §5): to each signal once, and one of them to an open task.

use crate::harness::{
    Answer, Process, artifact, call,
    cluster::{Cluster, gated_brain, started_turns},
    directory, eventually, get, message,
    peer::Peer,
    state,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A brain that answers every signal with a signal about the same subject.
const WATCHER: &str = r#"
agents:
  - agent: watcher-01
    description: Says what it has seen
    skills: [{ id: watch }]
    subscribe: ["acme.made"]
    brain:
      exec:
        - sh
        - -c
        - |
          read -r line
          subject=$(printf '%s' "$line" | sed 's/.*"subject":"\([^"]*\)".*/\1/')
          printf '{"type":"signal","signal":"acme.seen","subject":"%s"}\n{"type":"done"}\n' "$subject"
"#;

async fn publish(mesh: &Process, signal: Value) -> Answer {
    let answer = call(Method::POST, &format!("{}/board/signals", mesh.url), Some(&signal)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer
}

async fn produced(mesh: &Process, names: std::ops::Range<usize>) {
    for name in names {
        let subject = format!("a-{name}");
        publish(mesh, json!({ "type": "acme.made", "from": "me", "subject": subject })).await;
    }
}

/// The number of reactions by subject.
async fn seen(mesh: &Process) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for signal in mesh.signals("acme.seen").await {
        *seen.entry(signal["subject"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
    }
    seen
}

#[tokio::test]
async fn a_brain_reacts_to_every_signal_once_also_after_a_crash() {
    let mut mesh = Process::up(WATCHER).await;
    produced(&mesh, 0..8).await;
    eventually("a first reaction", async || (!seen(&mesh).await.is_empty()).then_some(())).await;
    mesh.kill();
    let mesh = mesh.restart().await;
    produced(&mesh, 8..10).await;
    eventually("all reactions", async || (seen(&mesh).await.len() == 10).then_some(())).await;
    eventually("rest", async || {
        let state = mesh.agent("watcher-01").state().await;
        state["conversations"].as_object().is_some_and(serde_json::Map::is_empty).then_some(())
    })
    .await;
    let seen = seen(&mesh).await;
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
}

/// Two equal agents that subscribe to open tasks, and a relay for broadcasts.
const BUILDERS: &str = "
agents:
  - { agent: relay-01, skills: [relay], brain: { echo: {} } }
  - { agent: builder-01, skills: [build], subscribe: [task.available], brain: { echo: {} } }
  - { agent: builder-02, skills: [build], subscribe: [task.available], brain: { echo: {} } }
";

fn offer(to: &str, task: &str) -> Value {
    json!({
        "fromAgentId": "me", "toAgentId": to, "type": "broadcast",
        "payload": {
            "signal": "task.available", "taskId": task, "capability": "build",
            "refs": { "description": "build it", "input": { "name": task } },
        },
    })
}

/// The signals of this type about this task.
async fn about(mesh: &Process, kind: &str, task: &str) -> Vec<Value> {
    mesh.signals(kind).await.into_iter().filter(|signal| signal["taskId"] == task).collect()
}

fn owner(task: &Value) -> &str {
    task["metadata"][protocol::task::EXTENSION]["owner"].as_str().unwrap_or_default()
}

async fn claimed_by(mesh: &Process, task: &str) -> String {
    let claimed = mesh.signal_where("task.claimed", |signal| signal["taskId"] == task).await;
    claimed["from"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_open_task_is_done_by_exactly_one_of_two_equal_agents() {
    let mesh = Process::up(BUILDERS).await;
    let tasks: Vec<String> = (0..6).map(|at| format!("open-{at}")).collect();
    for (at, task) in tasks.iter().enumerate() {
        let to = ["relay-01", "builder-01", "builder-02"][at % 3];
        let answer = mesh.agent(to).post(&offer(to, task)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    for (at, task) in tasks.iter().enumerate() {
        let publisher = ["relay-01", "builder-01", "builder-02"][at % 3];
        let returned = mesh.agent(publisher).task_in(task, &["completed"]).await;
        assert_eq!(artifact(&returned, "echo").as_deref(), Some("build it"), "{returned:#}");
        assert_eq!(owner(&returned), "user:local");
        mesh.signal_where("task.complete", |signal| signal["taskId"] == **task).await;
        let winner = claimed_by(&mesh, task).await;
        let done = mesh.agent(&winner).task_in(task, &["completed"]).await;
        assert_eq!(artifact(&done, "echo").as_deref(), Some("build it"));
        mesh.signal_where("artifact.produced", |signal| signal["taskId"] == **task).await;
        assert_eq!(about(&mesh, "task.claimed", task).await.len(), 1);
        assert_eq!(about(&mesh, "task.complete", task).await.len(), 1);
        let loser = if winner == "builder-01" { "builder-02" } else { "builder-01" };
        let others = get(&format!("{}/a2a/tasks", mesh.agent(loser).url)).await["tasks"].clone();
        let is_doers = |other: &Value| other["id"] == **task && owner(other) != "user:local";
        assert!(!others.as_array().unwrap().iter().any(is_doers), "{others:#}");
    }
}

#[tokio::test]
async fn a_result_of_an_open_task_counts_only_from_the_holder_of_its_claim() {
    let dir = tempfile::tempdir().unwrap();
    let brain = gated_brain(dir.path(), "builder-01");
    let team = format!(
        "agents:\n  - {{ agent: relay-01, skills: [relay], brain: {{ echo: {{}} }} }}\n  \
         - {{ agent: builder-01, skills: [build], subscribe: [task.available], brain: {{ exec: [sh, {brain}] }} }}\n"
    );
    let mesh = Process::up(&team).await;
    let relay = mesh.agent("relay-01");
    let impostor = Peer::join(&mesh, "peer-01", "spy").await;
    assert_eq!(relay.post(&offer("relay-01", "open-1")).await.status, 202);
    let claimed = mesh.signal_where("task.claimed", |signal| signal["taskId"] == "open-1").await;
    let epoch = claimed["revision"].as_u64().unwrap_or_else(|| panic!("{claimed:#}"));
    let offered = about(&mesh, "task.available", "open-1").await;
    let forged = json!({
        "messageId": "m-1", "fromAgentId": "peer-01", "toAgentId": "relay-01", "type": "task-response",
        "inReplyTo": offered[0]["id"],
        "payload": {
            "taskId": "open-1", "seq": 1, "state": "TASK_STATE_COMPLETED", "message": "forged",
            "epoch": epoch,
        },
    });
    let answer = impostor.signing.post(&relay, &forged).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let refused = || mesh.log().contains("a result is not from the claim's holder");
    eventually("the board's answer", async || refused().then_some(())).await;
    assert_eq!(state(&relay.task("open-1").await), "submitted");
    std::fs::write(dir.path().join("open"), "").unwrap();
    let done = relay.task_in("open-1", &["completed"]).await;
    assert_eq!(artifact(&done, "out.txt").as_deref(), Some("made by builder-01"), "{done:#}");
    assert_ne!(message(&done), "forged");
}

#[tokio::test]
async fn an_open_task_that_fails_is_failed_on_the_board() {
    let mesh = Process::up(
        "
agents:
  - agent: builder-01
    skills: [build]
    subscribe: [task.available]
    brain: { exec: [sh, -c, 'echo ''{\"type\":\"failed\",\"reason\":\"no bricks\"}'''] }
",
    )
    .await;
    mesh.agent("builder-01").post(&offer("builder-01", "open-1")).await;
    mesh.signal_where("task.failed", |signal| signal["taskId"] == "open-1").await;
    let failed = mesh.agent("builder-01").task_in("open-1", &["failed"]).await;
    assert_eq!(message(&failed), "no bricks");
    assert!(about(&mesh, "task.complete", "open-1").await.is_empty());
}

#[tokio::test]
async fn an_open_task_whose_claimer_is_killed_is_offered_again_and_finished_by_another() {
    let cluster = Cluster::start().await;
    let builder = |id: &str, brain: &str| {
        format!(
            "mesh: {{ auction: {{ leaseMs: 6000 }} }}\nagents: [{{ agent: {id}, skills: [build], subscribe: [task.available], brain: {brain} }}]"
        )
    };
    let mut first = cluster.node("first", &builder("builder-01", "{ exec: [sleep, '600'] }")).await;
    let second = cluster.node("second", &builder("builder-02", "{ echo: {} }")).await;
    for (node, agent) in [(&first, "builder-01"), (&second, "builder-02")] {
        eventually("a place on the board", async || node.agent(agent).state().await["followed"].as_u64())
            .await;
    }
    second.signal("STOP");
    let offer = json!({
        "type": "task.available", "from": "me", "taskId": "open-1", "capability": "build",
        "refs": { "description": "build it" },
    });
    publish(&cluster.board, offer).await;
    assert_eq!(claimed_by(&cluster.board, "open-1").await, "builder-01");
    first.agent("builder-01").task_in("open-1", &["working"]).await;
    first.kill();
    second.signal("CONT");
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "open-1").await;
    let done = second.agent("builder-02").task_in("open-1", &["completed"]).await;
    assert_eq!(artifact(&done, "echo").as_deref(), Some("build it"));
    let offers = about(&cluster.board, "task.available", "open-1").await;
    assert_eq!(offers.len(), 2, "{offers:#?}");
    assert_eq!(offers[1]["refs"]["reason"], "lease-expired");
    let claims = about(&cluster.board, "task.claimed", "open-1").await;
    assert_eq!((claims.len(), &claims[1]["from"]), (2, &json!("builder-02")));
}

#[tokio::test]
async fn an_open_task_whose_claimer_leaves_still_belongs_to_its_publisher() {
    let cluster = Cluster::start().await;
    let builder = |id: &str, brain: &str| {
        format!("agents: [{{ agent: {id}, skills: [build], subscribe: [task.available], brain: {brain} }}]")
    };
    let first = builder("builder-01", "{ exec: [sleep, '600'] }");
    let mut first = cluster.node_with("first", &first, &["--grace", "100ms"]).await;
    let second = cluster.node("second", &builder("builder-02", "{ echo: {} }")).await;
    for (node, agent) in [(&first, "builder-01"), (&second, "builder-02")] {
        eventually("a place on the board", async || node.agent(agent).state().await["followed"].as_u64())
            .await;
    }
    second.signal("STOP");
    let offer = json!({
        "type": "task.available", "from": "me", "taskId": "open-1", "capability": "build",
        "refs": { "description": "build it" },
    });
    publish(&cluster.board, offer).await;
    first.agent("builder-01").task_in("open-1", &["working"]).await;
    first.signal("TERM");
    assert_eq!(first.ended().await, 0, "{}", first.log());
    second.signal("CONT");
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "open-1").await;
    let done = second.agent("builder-02").task_in("open-1", &["completed"]).await;
    assert_eq!(done["metadata"]["urn:agent-mesh:ext:task:v1"]["owner"], "user:local", "{done:#}");
    let offers = about(&cluster.board, "task.available", "open-1").await;
    assert_eq!((offers.len(), &offers[1]["refs"]["reason"]), (2, &json!("released")), "{offers:#?}");
}

#[tokio::test]
async fn an_agent_that_lost_its_claim_while_stopped_may_win_it_again() {
    let cluster = Cluster::start().await;
    let script = gated_brain(cluster.dir.path(), "builder-01");
    let node = cluster
        .node(
            "node",
            &format!(
                "mesh: {{ auction: {{ leaseMs: 6000 }} }}
agents: [{{ agent: builder-01, skills: [build], subscribe: [task.available],
                    bid: {{ maxParallel: 2 }}, brain: {{ exec: [/bin/sh, '{script}'] }} }}]"
            ),
        )
        .await;
    let builder = node.agent("builder-01");
    eventually("a place on the board", async || builder.state().await["followed"].as_u64()).await;
    let offer = json!({
        "type": "task.available", "from": "me", "taskId": "open-1", "refs": { "description": "build it" },
    });
    publish(&cluster.board, offer).await;
    eventually("work", async || (started_turns(cluster.dir.path()).len() == 1).then_some(())).await;
    node.signal("STOP");
    cluster.board.signal_where("task.available", |signal| signal["refs"]["reason"] == "lease-expired").await;
    node.signal("CONT");
    eventually("work again", async || (started_turns(cluster.dir.path()).len() == 2).then_some(())).await;
    eventually("one conversation", async || {
        (builder.state().await["conversations"] == json!({ "open-task": 1 })).then_some(())
    })
    .await;
    std::fs::write(cluster.path("open"), "").unwrap();
    cluster.board.signal_where("task.complete", |signal| signal["taskId"] == "open-1").await;
    let done = builder.task_in("open-1", &["completed"]).await;
    assert_eq!(artifact(&done, "out.txt").as_deref(), Some("made by builder-01"));
    assert_eq!(about(&cluster.board, "task.complete", "open-1").await.len(), 1);
    assert_eq!(about(&cluster.board, "task.claimed", "open-1").await.len(), 2);
}

#[tokio::test]
async fn an_unreachable_board_delays_only_reactions() {
    let mut cluster = Cluster::start().await;
    cluster.board.kill();
    let team = format!("{WATCHER}  - {{ agent: echo-01, skills: [echo], brain: {{ echo: {{}} }} }}\n");
    let node = cluster.node("node", &team).await;
    let task = node.agent("echo-01").ask(json!({ "description": "hello", "capability": "echo" })).await;
    assert_eq!(state(&task), "completed");
    cluster.board.revive().await;
    let watcher = node.agent("watcher-01");
    eventually("a place on the board", async || watcher.state().await["followed"].as_u64()).await;
    produced(&cluster.board, 0..1).await;
    // The artifact of the task is a signal, too; the reaction to it may come before or after.
    eventually("a reaction", async || seen(&cluster.board).await.contains_key("a-0").then_some(())).await;
    cluster.board.revive().await;
    produced(&cluster.board, 1..2).await;
    eventually("another", async || seen(&cluster.board).await.contains_key("a-1").then_some(())).await;
    assert!(seen(&cluster.board).await.values().all(|times| *times == 1));
}

#[tokio::test]
async fn a_subscriber_at_its_limit_reads_on_when_a_reaction_ends() {
    let dir = directory();
    let script = gated_brain(dir.path(), "watcher-01");
    let mesh = Process::up(&format!(
        "
mesh: {{ limits: {{ maxOpenConversations: 4 }} }}
agents:
  - agent: watcher-01
    skills: [watch]
    subscribe: ['acme.made']
    bid: {{ maxParallel: 8 }}
    brain: {{ exec: [/bin/sh, '{script}'] }}
"
    ))
    .await;
    produced(&mesh, 0..5).await;
    let started = || started_turns(dir.path()).len();
    eventually("two at once", async || (started() == 2).then_some(())).await;
    let state = mesh.agent("watcher-01").state().await;
    assert_eq!((&state["conversations"], started()), (&json!({ "reaction": 2 }), 2), "{state:#}");
    std::fs::write(dir.path().join("open"), "").unwrap();
    eventually("all five", async || (started() == 5).then_some(())).await;
}

#[tokio::test]
async fn an_agent_does_not_react_to_what_the_board_tells_of_its_own_claims() {
    let mesh = Process::up(
        "
agents:
  - { agent: builder-01, skills: [build], subscribe: ['task.*', 'acme.last'], brain: { echo: {} } }
  - { agent: watcher-01, skills: [watch], subscribe: ['task.*', 'acme.last'], brain: { echo: {} } }
",
    )
    .await;
    let reactions =
        async |agent: &str| mesh.agent(agent).state().await["counts"]["reactions"].as_u64().unwrap();
    for agent in ["builder-01", "watcher-01"] {
        eventually("a place on the board", async || mesh.agent(agent).state().await["followed"].as_u64())
            .await;
    }
    let offer =
        json!({ "type": "task.available", "taskId": "open-1", "capability": "build", "subject": "dig" });
    publish(&mesh, offer).await;
    mesh.signal_where("task.complete", |signal| signal["taskId"] == "open-1").await;
    publish(&mesh, json!({ "type": "acme.last" })).await;
    // The claim and its end, and the last signal; it has not the capability of the offer.
    eventually("three reactions", async || (reactions("watcher-01").await == 3).then_some(())).await;
    // The offer and the last signal.
    eventually("two reactions", async || (reactions("builder-01").await >= 2).then_some(())).await;
    assert_eq!(reactions("builder-01").await, 2);
}

#[tokio::test]
async fn a_task_that_is_offered_twice_is_done_once() {
    let dir = directory();
    let script = gated_brain(dir.path(), "builder-01");
    let mesh = Process::up(&format!(
        "
agents:
  - agent: builder-01
    skills: [build]
    subscribe: [task.available]
    bid: {{ maxParallel: 8 }}
    brain: {{ exec: [/bin/sh, '{script}'] }}
"
    ))
    .await;
    let builder = mesh.agent("builder-01");
    let offer = json!({
        "type": "task.available", "from": "me", "taskId": "open-1", "capability": "build",
        "refs": { "description": "build it" },
    });
    eventually("a place on the board", async || builder.state().await["followed"].as_u64()).await;
    for _ in 0..3 {
        publish(&mesh, offer.clone()).await;
    }
    let other = json!({ "type": "task.available", "taskId": "open-1", "subject": "break it" });
    let refused = call(Method::POST, &format!("{}/board/signals", mesh.url), Some(&other)).await;
    assert_eq!((refused.status, &refused.body["reasonCode"]), (409, &json!("task_id_reused")), "{refused:?}");
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("user:local"), "{refused:?}");
    for (offer, field) in [
        (json!({ "type": "task.available", "capability": "build", "subject": "no id" }), "taskId"),
        (json!({ "type": "task.available", "taskId": "open-2", "capability": "build" }), "refs.description"),
    ] {
        let refused = call(Method::POST, &format!("{}/board/signals", mesh.url), Some(&offer)).await;
        assert_eq!(
            (refused.status, &refused.body["reasonCode"]),
            (400, &json!("invalid_field")),
            "{refused:?}"
        );
        let message = refused.body["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{field}: an offer")), "{message}");
    }
    let note = json!({ "type": "acme.note", "subjct": "x" });
    let noted = call(Method::POST, &format!("{}/board/signals", mesh.url), Some(&note)).await;
    let warning = "subjct: an unknown member; it has no effect; did you mean subject?";
    assert_eq!((noted.status, &noted.body["warnings"]), (201, &json!([warning])), "{noted:?}");
    eventually("three offers looked at", async || {
        let state = builder.state().await;
        let is_looked_at = state["counts"]["reactions"] == 3;
        (is_looked_at && state["conversations"] == json!({ "open-task": 1 })).then_some(())
    })
    .await;
    std::fs::write(dir.path().join("open"), "").unwrap();
    builder.task_in("open-1", &["completed"]).await;
    assert_eq!(started_turns(dir.path()).len(), 1);
}
