//! An orderly shutdown: work beyond the grace is handed back or kept, and nothing delays the exit beyond the grace.

use super::crash::{at_work, build, builder, fates, knows, open_gate};
use crate::harness::{
    Process, artifact, call, client,
    cluster::{Cluster, gated_brain, started_turns},
    directory, eventually, file, get, message, state,
};
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};

const MANAGER: &str = "agents: [{ agent: manager-01, skills: [manage], brain: { echo: {} } }]
mesh: { auction: { leaseMs: 600000 } }
";

#[tokio::test]
async fn awarded_work_beyond_the_grace_goes_to_the_runner_up_at_once() {
    let cluster = Cluster::start().await;
    let (first, second) = (
        builder(cluster.dir.path(), "builder-01", "cost: 0, eta: 1s"),
        builder(cluster.dir.path(), "builder-02", "cost: 9, eta: 1h"),
    );
    let mut winner = cluster.node_with("one", &first, &["--grace", "100ms"]).await;
    let _other = cluster.node("two", &second).await;
    let manager = cluster.node("three", MANAGER).await;
    cluster.wait_for_agents(&["builder-01", "builder-02", "manager-01"]).await;
    let agent = manager.agent("manager-01");
    knows(&manager, &["builder-01", "builder-02"]).await;
    agent.send(build("t-1")).await;
    at_work(cluster.dir.path(), "builder-01").await;
    winner.signal("TERM");
    assert_eq!(winner.ended().await, 0, "{}", winner.log());
    at_work(cluster.dir.path(), "builder-02").await;
    open_gate(cluster.dir.path());
    let task = agent.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    assert_eq!(artifact(&task, "out.txt").as_deref(), Some("made by builder-02"));
    let fates = fates(&agent.award("t-1").await);
    assert!(
        fates.contains(&("builder-01".to_owned(), "declined".to_owned())),
        "long before its lease: {fates:?}"
    );
}

/// Says what it was given and has used, and ends when its gate is opened.
const METERED: &str = r#"
import json, os, sys, time

line, gate = json.loads(sys.stdin.readline()), sys.argv[1]
used = {"type": "usage", "model": "m", "inputTokens": 300, "outputTokens": 0, "cost": 0}
print(json.dumps(used), flush=True)
print(json.dumps({"type": "status", "message": f"had {line['remaining']['tokens']}"}), flush=True)
while not os.path.exists(gate):
    time.sleep(0.02)
print(json.dumps({"type": "done", "message": f"had {line['remaining']['tokens']}"}))
"#;

#[tokio::test]
async fn work_that_is_handed_back_is_charged_what_it_has_used() {
    let cluster = Cluster::start().await;
    let program = file(cluster.dir.path(), "metered.py", METERED).display().to_string();
    let gate = cluster.dir.path().join("open").display().to_string();
    let doer = |id: &str, bid: &str| {
        let brain = format!("brain: {{ exec: [python3, '{program}', '{gate}'] }}");
        format!("agents: [{{ agent: {id}, skills: [build], {brain}, bid: {{ {bid} }} }}]")
    };
    let first = doer("builder-01", "cost: 0, eta: 1s");
    let mut winner = cluster.node_with("one", &first, &["--grace", "100ms"]).await;
    let _other = cluster.node("two", &doer("builder-02", "cost: 9, eta: 1h")).await;
    let manager = cluster.node("three", MANAGER).await;
    cluster.wait_for_agents(&["builder-01", "builder-02", "manager-01"]).await;
    knows(&manager, &["builder-01", "builder-02"]).await;
    let agent = manager.agent("manager-01");
    let task =
        json!({ "taskId": "t-1", "description": "x", "capability": "build", "budget": { "tokens": 1000 } });
    agent.send(task).await;
    eventually("the winner at work", async || {
        (message(&agent.task("t-1").await) == "had 1000").then_some(())
    })
    .await;
    winner.signal("TERM");
    assert_eq!(winner.ended().await, 0, "{}", winner.log());
    open_gate(cluster.dir.path());
    let task = agent.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(message(&task), "had 700", "{task:#}");
    assert_eq!(task["metadata"][protocol::task::EXTENSION]["usage"]["inputTokens"], 600, "{task:#}");
}

/// Nobody can award it to another agent, so nobody is asked: it goes on after the restart.
#[tokio::test]
async fn an_award_within_a_mesh_that_stops_goes_on_with_its_doer_after_the_restart() {
    let dir = directory();
    let script = gated_brain(dir.path(), "builder-01");
    let team = format!(
        "agents:
  - {{ agent: manager-01, skills: [manage], brain: {{ echo: {{}} }} }}
  - {{ agent: builder-01, skills: [build], brain: {{ exec: [/bin/sh, '{script}'] }} }}
"
    );
    let mut mesh = Process::up_in(&["MESH_GRACE=100ms".to_owned()], &team).await;
    mesh.agent("manager-01").send(build("t-1")).await;
    at_work(dir.path(), "builder-01").await;
    mesh.signal("TERM");
    assert_eq!(mesh.ended().await, 0, "{}", mesh.log());
    let mesh = mesh.restart().await;
    open_gate(dir.path());
    let manager = mesh.agent("manager-01");
    let task = manager.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(artifact(&task, "out.txt").as_deref(), Some("made by builder-01"), "{task:#}");
    let expected = [("builder-01".to_owned(), "completed".to_owned())];
    assert_eq!(fates(&manager.award("t-1").await), expected, "it was not handed back");
}

#[tokio::test]
async fn an_own_task_waits_for_the_restart_and_a_drain_is_no_crash() {
    let cluster = Cluster::start().await;
    let yaml = builder(cluster.dir.path(), "builder-01", "maxParallel: 1");
    let mut node = cluster.node_with("one", &yaml, &["--grace", "0ms"]).await;
    cluster.wait_for_agents(&["builder-01"]).await;
    node.agent("builder-01").send(build("t-1")).await;
    for round in 1..=6 {
        eventually(&format!("begun {round} times"), async || {
            (started_turns(cluster.dir.path()).len() == round).then_some(())
        })
        .await;
        node.signal("TERM");
        assert_eq!(node.ended().await, 0, "{}", node.log());
        node.revive().await;
    }
    open_gate(cluster.dir.path());
    let task = node.agent("builder-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
}

#[tokio::test]
async fn a_question_to_a_person_does_not_delay_the_exit_and_is_answered_after_the_restart() {
    let cluster = Cluster::start().await;
    let script = "turns:
  - { when: { turn: 1 }, say: [{ type: question, id: q, text: 'which colour?' }] }
  - { end: { done: painted } }
";
    let script = file(cluster.dir.path(), "script.yaml", script);
    let yaml =
        format!("agents: [{{ agent: painter-01, open: true, brain: {{ scripted: {} }} }}]", script.display());
    let mut node = cluster.node_with("one", &yaml, &["--grace", "10m"]).await;
    node.agent("painter-01").send(json!({ "taskId": "t-1", "description": "paint it" })).await;
    node.agent("painter-01").task_in("t-1", &["input_required"]).await;
    node.signal("TERM");
    // Within the deadline of a test, which is far shorter than the grace.
    assert_eq!(node.ended().await, 0, "{}", node.log());
    node.revive().await;
    let painter = node.agent("painter-01");
    assert_eq!(state(&painter.task_in("t-1", &["input_required"]).await), "input_required");
    let answer = format!("{}/a2a/tasks/t-1/answer", painter.url);
    assert_eq!(call(Method::POST, &answer, Some(&json!({ "text": "red" }))).await.status, 200);
    painter.task_in("t-1", &["completed"]).await;
}

#[tokio::test]
async fn queued_messages_are_sent_before_the_exit() {
    let cluster = Cluster::start().await;
    let mut node = cluster.node("one", &builder(cluster.dir.path(), "builder-01", "maxParallel: 1")).await;
    cluster.wait_for_agents(&["builder-01"]).await;
    node.agent("builder-01").send(build("t-1")).await;
    at_work(cluster.dir.path(), "builder-01").await;
    node.signal("TERM");
    open_gate(cluster.dir.path());
    assert_eq!(node.ended().await, 0, "{}", node.log());
    let said = cluster.board.signals("task.complete").await;
    assert_eq!(said.iter().filter(|signal| signal["taskId"] == "t-1").count(), 1, "{said:?}");
    let left = cluster.board.signals("agent.left").await;
    assert!(left.iter().any(|signal| signal["subject"] == "builder-01"), "{left:?}");
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once_and_its_work_continues_later() {
    let cluster = Cluster::start().await;
    let mut node = cluster.node("one", &builder(cluster.dir.path(), "builder-01", "maxParallel: 1")).await;
    cluster.wait_for_agents(&["builder-01"]).await;
    node.agent("builder-01").send(build("t-1")).await;
    at_work(cluster.dir.path(), "builder-01").await;
    node.signal("TERM");
    eventually("that it is leaving", async || node.log().contains("once more").then_some(())).await;
    node.signal("TERM");
    assert_eq!(node.ended().await, 1, "not everything was done: {}", node.log());
    assert!(node.log().contains("goes on at the next start"), "{}", node.log());
    open_gate(cluster.dir.path());
    node.revive().await;
    let task = node.agent("builder-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:#}");
}

#[tokio::test]
async fn a_waiting_caller_learns_that_the_task_continues_later() {
    let cluster = Cluster::start().await;
    let yaml = builder(cluster.dir.path(), "builder-01", "maxParallel: 2");
    let mut node = cluster.node_with("one", &yaml, &["--grace", "100ms"]).await;
    cluster.wait_for_agents(&["builder-01"]).await;
    let agent = node.agent("builder-01");
    let house = agent.request(build("t-1")).to_string();
    let said = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "build it" }] },
        "metadata": { "skill": "build" } });
    let a2a =
        client().post(format!("{}/a2a/v1/message:send", agent.url)).header("a2a-version", "1.0").json(&said);
    let waits = [("prefer", "wait=100")];
    let ((), house, a2a) = tokio::join!(
        async {
            eventually("both begun", async || (started_turns(cluster.dir.path()).len() == 2).then_some(()))
                .await;
            node.signal("TERM");
        },
        agent.post_raw(house, &waits),
        a2a.send(),
    );
    assert_eq!((house.status, state(&house.body).as_str()), (202, "working"), "{house:?}");
    let a2a = a2a.unwrap();
    assert_eq!(a2a.status(), 503);
    let told: serde_json::Value = a2a.json().await.unwrap();
    let task = &told["error"]["details"][0]["metadata"]["taskId"];
    assert!(task.as_str().is_some_and(|task| task.starts_with("task-")), "{told}");
    assert_eq!(node.ended().await, 0, "{}", node.log());
}

#[tokio::test]
async fn open_streams_do_not_delay_the_shutdown() {
    let mut cluster = Cluster::start().await;
    let node = cluster.node("one", "agents: [{ agent: echo-01, skills: [echo], brain: { echo: {} } }]").await;
    cluster.wait_for_agents(&["echo-01"]).await;
    let url = format!("{}/board/signals/stream", cluster.board.url);
    let mut stream = crate::harness::client().get(url).send().await.unwrap();
    let begun = Instant::now();
    cluster.registry.signal("TERM");
    assert_eq!(cluster.registry.ended().await, 0, "{}", cluster.registry.log());
    cluster.board.signal("TERM");
    assert_eq!(cluster.board.ended().await, 0, "{}", cluster.board.log());
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    while let Ok(Some(_)) = stream.chunk().await {}
    drop(node);
}

/// A reader can tell a stream that was ended from one that broke.
#[tokio::test]
async fn streams_are_ended_and_not_cut() {
    let dir = directory();
    let script = file(dir.path(), "script.yaml", "turns: [{ end: hang }]\n").display().to_string();
    let agent = |id: &str, more: &str| {
        format!("  - {{ agent: {id}, open: true, skills: [wait], brain: {{ scripted: {script} }}{more} }}\n")
    };
    let team = format!(
        "agents:\n{}{}",
        agent("slow-01", ", bid: { maxParallel: 2 }"),
        agent("slow-02", ", a2a: { direct: true }")
    );
    let mut mesh = Process::up_in(&["MESH_GRACE=100ms".to_owned()], &team).await;
    let (house, direct) = (mesh.agent("slow-01"), mesh.agent("slow-02"));
    house.send(json!({ "taskId": "t-1", "description": "wait" })).await;
    house.task_in("t-1", &["working"]).await;
    let message = |id: &str| {
        let said = json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": "wait" }] });
        json!({ "message": said })
    };
    let call =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": message("m-2") });
    let rest = client().post(format!("{}/a2a/v1/message:stream", house.url)).json(&message("m-1"));
    let rpc = client().post(format!("{}/a2a/rpc", direct.url)).json(&call);
    let look = |url: String| client().get(url);
    let mut streams = Vec::new();
    for (name, request, last) in [
        ("task", look(format!("{}/a2a/tasks/t-1/events", house.url)), "TASK_STATE_WORKING"),
        ("board", look(format!("{}/board/signals/stream?after=0", mesh.url)), "agent.joined"),
        ("registry", look(format!("{}/registry/watch", mesh.url)), "slow-02"),
        ("A2A over HTTP", rest.header("a2a-version", "1.0"), "TASK_STATE_WORKING"),
        // It has not said yet whether it makes a task of it, so nothing was heard before.
        ("A2A over JSON-RPC", rpc.header("a2a-version", "1.0"), "TASK_STATE_WORKING"),
    ] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream", "{name}: {answer:?}");
        streams.push((name, last, answer));
    }
    eventually("both at work", async || {
        let tasks =
            [get(&format!("{}/a2a/tasks", house.url)).await, get(&format!("{}/a2a/tasks", direct.url)).await];
        let are_at_work = |tasks: &serde_json::Value, count| {
            let tasks = tasks["tasks"].as_array().into_iter().flatten();
            tasks.filter(|task| state(task) == "working").count() == count
        };
        (are_at_work(&tasks[0], 2) && are_at_work(&tasks[1], 1)).then_some(())
    })
    .await;
    let begun = Instant::now();
    mesh.signal("TERM");
    for (name, last, answer) in streams {
        let text = answer.text().await.unwrap_or_else(|error| panic!("{name} was cut: {error:?}"));
        assert!(text.contains(last) && text.ends_with("\n\n"), "{name}: {text}");
    }
    assert_eq!(mesh.ended().await, 0, "{}", mesh.log());
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_clean_stop_closes_the_store() {
    let mut mesh = Process::up(
        "agents: [{ agent: a-1, open: true, brain: { echo: {} } }, { agent: a-2, brain: { echo: {} } }]",
    )
    .await;
    let task = mesh.agent("a-1").send(json!({ "description": "x" })).await;
    mesh.agent("a-1").task_in(&task, &["completed"]).await;
    mesh.signal("TERM");
    assert_eq!(mesh.ended().await, 0, "{}", mesh.log());
    let store = mesh.data.join("store.sqlite");
    assert!(
        store.exists() && !mesh.dir().join("store.sqlite-wal").exists(),
        "the log is moved into the file"
    );
}
