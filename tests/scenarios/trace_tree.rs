//! `mesh trace` shows the same tree that a backend receives, including reactions to signals.

use super::traces::ended;
use crate::harness::{
    DEADLINE, Process, client,
    cluster::Cluster,
    collector::{Collector, ReceivedSpan, is_whole},
    eventually, mesh,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const TEAM: &str = include_str!("../../agent-node/src/demo/team.yaml");
const GARDEN: &str =
    "A REST API for a community garden: plots (number:int, sunny:bool) and gardeners (name, email)";
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The id, the parent and the name of each span.
type Tree = BTreeSet<(String, String, String)>;

/// The output of `mesh trace` for a task, or its error.
fn shown(task: &str, url: &str) -> Result<Value, String> {
    let (code, shown, errors) = mesh(&["trace", task, "--json"], &[("MESH_URL", url)]);
    if code == 0 { Ok(serde_json::from_str(&shown).unwrap()) } else { Err(errors) }
}

fn tree_of(shown: &Value) -> Tree {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spans = shown["spans"].as_array().unwrap().iter();
    spans.map(|span| (text(&span["spanId"]), text(&span["parentId"]), text(&span["name"]))).collect()
}

fn tree_at(spans: &[ReceivedSpan], trace: &Value) -> Tree {
    let of = spans.iter().filter(|span| *trace == *span.trace);
    of.map(|span| (span.id.clone(), span.parent.clone(), span.name.clone())).collect()
}

/// Waits until `mesh trace` and the backend have the same spans of the task and none is missing.
async fn assert_same_tree(
    collector: &Collector,
    task: &str,
    url: &str,
    is_done: impl Fn(&[ReceivedSpan]) -> bool,
) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let differs = difference(collector, shown(task, url), &is_done);
        let Some(why) = differs else { return };
        assert!(Instant::now() < deadline, "{why}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The difference between the shown and the exported tree.
fn difference(
    collector: &Collector,
    shown: Result<Value, String>,
    is_done: impl Fn(&[ReceivedSpan]) -> bool,
) -> Option<String> {
    let shown = match shown {
        Ok(shown) => shown,
        Err(why) => return Some(why),
    };
    let spans = collector.spans();
    let (theirs, ours) = (tree_at(&spans, &shown["traceId"]), tree_of(&shown));
    let its_own: Vec<_> = spans.into_iter().filter(|span| shown["traceId"] == *span.trace).collect();
    let is_same = ours == theirs && shown["missing"].as_array().is_some_and(Vec::is_empty);
    let why = || {
        format!(
            "shown only: {:#?}\nsent only: {:#?}\nmissing: {:#}",
            ours.difference(&theirs).collect::<Vec<_>>(),
            theirs.difference(&ours).collect::<Vec<_>>(),
            shown["missing"]
        )
    };
    (!is_same || !is_done(&its_own)).then(why)
}

/// The planner's task was built and reviewed, and the reviewer has reacted to the help signal.
fn the_demo_is_over(spans: &[ReceivedSpan]) -> bool {
    is_whole(spans)
        && ended(spans, "planner-01", "delegation")
        && ended(spans, "planner-01", "contract-net")
        && ended(spans, "reviewer-01", "help-request")
        && under_a_signal(spans, "reviewer-01", "reaction", "publish help.needed")
}

fn under_a_signal(spans: &[ReceivedSpan], agent: &str, pattern: &str, signal: &str) -> bool {
    spans.iter().any(|span| {
        span.attribute("mesh.pattern") == pattern
            && span.attribute("gen_ai.agent.id") == agent
            && spans.iter().any(|above| above.id == span.parent && above.name == signal)
    })
}

/// The demo team, whose reviewer also reacts when somebody needs help.
fn team_that_reacts() -> String {
    let reviewer = "brain: { exec: [mesh, brain, reviewer] }\n";
    let reacting = format!("{reviewer}    subscribe: [help.needed]\n");
    assert!(TEAM.contains(reviewer), "{TEAM}");
    TEAM.replace(reviewer, &reacting)
}

fn demo() -> Value {
    json!({ "taskId": "t-1", "description": GARDEN })
}

#[tokio::test]
async fn mesh_trace_equals_the_exported_tree_in_one_process() {
    let collector = Collector::start();
    let mesh = Process::up_in(&collector.environment(), &team_that_reacts()).await;
    mesh.agent("planner-01").ask(demo()).await;
    assert_same_tree(&collector, "t-1", &mesh.url, the_demo_is_over).await;
}

#[tokio::test]
async fn mesh_trace_equals_the_exported_tree_over_processes_and_names_the_missing() {
    let collector = Collector::start();
    let mut cluster = Cluster::start().await;
    cluster.environment = collector.environment();
    let mut nodes = Vec::new();
    let team = team_that_reacts();
    for agent in team.split("\n  - agent: ").skip(1) {
        let name = agent.lines().next().unwrap();
        nodes.push((name, cluster.node(name, &format!("agents:\n  - agent: {agent}")).await));
    }
    let names: Vec<_> = nodes.iter().map(|(name, _)| *name).collect();
    cluster.wait_for_agents(&names).await;
    let planner = nodes.iter().find(|(name, _)| *name == "planner-01").unwrap().1.agent("planner-01");
    planner.ask(demo()).await;
    assert_same_tree(&collector, "t-1", &cluster.registry.url, the_demo_is_over).await;

    nodes.retain(|(name, _)| *name != "reviewer-01");
    let shown = shown("t-1", &cluster.registry.url).unwrap();
    let missing: Vec<_> = shown["missing"].as_array().unwrap().iter().collect();
    let set_off =
        shown["spans"].as_array().unwrap().iter().find(|span| span["name"] == "publish help.needed");
    let set_off = &set_off.unwrap()["spanId"];
    assert!(
        missing.iter().any(|part| part["agent"] == "reviewer-01" && part["spanId"] == *set_off),
        "{missing:#?}"
    );
}

#[tokio::test]
async fn the_trace_of_an_open_task_shows_every_claimer() {
    let collector = Collector::start();
    let mut cluster = Cluster::start().await;
    cluster.environment = collector.environment();
    let equal = |n: u8| {
        format!(
            "agents:\n  - {{ agent: builder-0{n}, skills: [build], subscribe: ['task.*'], brain: {{ echo: {{}} }} }}\n"
        )
    };
    let relay = "agents:\n  - { agent: relay-01, skills: [relay], brain: { echo: {} } }\n";
    let relay = cluster.node("relay", relay).await;
    let _builders = [cluster.node("b1", &equal(1)).await, cluster.node("b2", &equal(2)).await];
    cluster.wait_for_agents(&["relay-01", "builder-01", "builder-02"]).await;
    let both = |spans: &[ReceivedSpan]| {
        ["builder-01", "builder-02"].iter().all(|agent| ended(spans, agent, "open-task"))
    };
    for (task, parent) in [("o-1", Some(CALLER)), ("o-2", None)] {
        let offer = json!({
            "type": "task.available", "from": "me", "taskId": task, "capability": "build",
            "refs": { "description": "build it" },
        });
        let mut request = client().post(format!("{}/board/signals", cluster.board.url)).json(&offer);
        if let Some(parent) = parent {
            request = request.header("traceparent", parent);
        }
        assert_eq!(request.send().await.unwrap().status(), 201);
        assert_same_tree(&collector, task, &cluster.registry.url, both).await;
    }
    let offer = json!({
        "fromAgentId": "me", "toAgentId": "relay-01", "type": "broadcast",
        "payload": {
            "signal": "task.available", "taskId": "o-3", "capability": "build", "refs": { "description": "build it" },
        },
    });
    assert_eq!(relay.agent("relay-01").post(&offer).await.status, 202);
    let all = |spans: &[ReceivedSpan]| both(spans) && is_whole(spans) && ended(spans, "relay-01", "offer");
    assert_same_tree(&collector, "o-3", &cluster.registry.url, all).await;
}

#[tokio::test]
async fn only_the_publisher_of_a_signal_sees_the_reactions() {
    let team =
        "agents:\n  - { agent: watcher-01, skills: [watch], subscribe: ['acme.*'], brain: { echo: {} } }\n";
    let mesh = Process::up_in(&[], team).await;
    let signal = json!({ "type": "acme.built", "from": "me", "subject": "it" });
    let posted = client().post(format!("{}/board/signals", mesh.url)).header("traceparent", CALLER);
    assert_eq!(posted.json(&signal).send().await.unwrap().status(), 201);
    let agent = mesh.agent("watcher-01");
    let (trace, under) = (&CALLER[3..35], &CALLER[36..52]);
    let target = format!("/a2a/traces/{trace}/reactions?under={under}");
    let mine = eventually("the reaction", async || {
        let part = crate::harness::get(&format!("{}{target}", agent.url)).await;
        part["spans"].as_array().is_some_and(|spans| !spans.is_empty()).then_some(part)
    })
    .await;
    let root = &mine["spans"][0];
    assert_eq!((&root["name"], &root["parentId"]), (&json!("invoke_agent watcher-01"), &json!(under)));
    assert_eq!(root["attributes"]["peer.from"], "me");
    let stranger = mesh.client_as("stranger-01");
    let answer = stranger.call(reqwest::Method::GET, (&agent.url, &target), "watcher-01", None).await;
    assert_eq!((answer.status, &answer.body["spans"]), (200, &json!([])), "{answer:?}");
    for wrong in ["/a2a/traces/xyz/reactions", &format!("/a2a/traces/{trace}/reactions?under=1")] {
        let answer = crate::harness::call(reqwest::Method::GET, &format!("{}{wrong}", agent.url), None).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &json!(400)), "{answer:?}");
    }
}
