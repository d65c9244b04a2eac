//! Peer messages: acknowledged, deduplicated and queryable.

use crate::harness::{
    Process, call, client, eventually, file, get, peer::Peer, refusal, refusal_text, state, with,
};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

const TEAM: &str = "
agents:
  - agent: echo-01
    description: Returns what it is sent
    skills: [{ id: echo }]
    brain: { echo: {} }
";

/// A brain that appends a line to `runs` for every turn. A thousand simultaneous connections may be slow to send.
const COUNTING: &str = r#"
mesh: { limits: { headMs: 20000, ackMs: 20000 } }
agents:
  - agent: counter-01
    skills: [{ id: count }]
    bid: { maxParallel: 4 }
    brain: { exec: [sh, -c, 'echo ran >> runs; echo "{\"type\":\"done\",\"message\":\"counted\"}"'] }
"#;

fn runs(mesh: &Process) -> usize {
    std::fs::read_to_string(mesh.dir().join("runs")).unwrap_or_default().lines().count()
}

/// Posts all `bodies` at once over separate connections; returns status and answer of each.
async fn all_at_once(url: &str, bodies: Vec<Value>) -> Vec<(u16, Value)> {
    let client = client();
    let posts = bodies.into_iter().map(|body| {
        let post = client.post(format!("{url}/a2a/messages")).json(&body);
        async move {
            let answer = post.send().await.unwrap();
            (answer.status().as_u16(), answer.json().await.unwrap())
        }
    });
    join_all(posts).await
}

#[tokio::test]
async fn a_recipient_acknowledges_and_handles_a_message_once() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let request = with(
        agent.request(json!({ "taskId": "t-1", "description": "hello", "capability": "echo" })),
        json!({ "messageId": "m-1" }),
    );
    let answer = agent.post(&request).await;
    assert_eq!((answer.status, &answer.body["accepted"]), (202, &json!(true)), "{answer:?}");
    assert_eq!((&answer.body["messageId"], &answer.body["taskId"]), (&json!("m-1"), &json!("t-1")));
    assert!(answer.body["duplicate"].is_null(), "{answer:?}");
    let task = agent.task_in("t-1", &["completed"]).await;
    assert_eq!(task["contextId"], answer.body["conversationId"]);
    assert_eq!(agent.state().await["counts"]["admitted"], 1);
}

#[tokio::test]
async fn members_that_nothing_reads_are_named_in_the_answer() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let mut request = agent.request(
        json!({ "description": "hi", "capability": "echo", "priority": 3, "onBehalfOf": "user:ann" }),
    );
    request["correlationId"] = json!("c-1");
    let sent = agent.post(&request).await;
    let named: Vec<_> =
        sent.body["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str()).collect();
    let warning = |name| format!("{name}: an unknown member; it is recorded and has no effect");
    assert_eq!(sent.status, 202, "{sent:?}");
    let not_taken = "payload.onBehalfOf: only an agent acts for another; it has no effect";
    let expected = [not_taken, &*warning("correlationId"), &*warning("payload.priority")];
    assert_eq!(named, expected.map(Some));
    let known = agent.post(&agent.request(json!({ "description": "hi", "capability": "echo" }))).await;
    assert_eq!((known.status, known.body.get("warnings")), (202, None), "{known:?}");
}

#[tokio::test]
async fn a_message_without_an_id_gets_one_and_stays_queryable_by_it() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let request = agent.request(json!({ "description": "hello", "capability": "echo" }));
    let answer = agent.post(&request).await;
    let (message, task) =
        (answer.body["messageId"].as_str().unwrap(), answer.body["taskId"].as_str().unwrap());
    agent.task_in(task, &["completed"]).await;
    let seen = get(&format!("{}/a2a/messages/{message}", agent.url)).await;
    assert_eq!((&seen["messageId"], &seen["taskId"]), (&json!(message), &json!(task)), "{seen:#}");
    assert_eq!((&seen["recipient"], &seen["type"]), (&json!("echo-01"), &json!("task-request")));
    assert_eq!(seen["outcome"]["state"], "TASK_STATE_COMPLETED", "{seen:#}");
}

#[tokio::test]
async fn an_id_used_under_several_names_is_listed_under_each() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let url = format!("{}/a2a/messages/m-1", agent.url);
    // More than one page by one user; messages of agents under that id are not listed.
    let peer = mesh.client_as("peer-01");
    let others = with(
        agent.request(json!({ "description": "peer", "capability": "echo" })),
        json!({ "fromAgentId": "peer-01", "messageId": "m-1" }),
    );
    assert_eq!(peer.post(&agent, &others).await.status, 202);
    assert_eq!(refusal(&call(Method::GET, &url, None).await), (404, "message_not_found".into()));
    for n in 0..70 {
        let request = with(
            agent
                .request(json!({ "taskId": format!("t-{n}"), "description": "hello", "capability": "echo" })),
            json!({ "messageId": "m-1", "fromAgentId": format!("label-{n}") }),
        );
        assert_eq!(agent.post(&request).await.status, 202);
        if n == 0 {
            let seen = get(&url).await;
            assert_eq!((&seen["taskId"], &seen["others"]), (&json!("t-0"), &Value::Null), "{seen:#}");
            assert!(seen["fromAgentId"].is_null(), "the usual answer: {seen:#}");
        }
    }
    let seen = get(&url).await;
    assert_eq!((&seen["taskId"], &seen["fromAgentId"]), (&json!("t-69"), &json!("label-69")), "{seen:#}");
    let named = seen["others"].as_array().unwrap().iter().map(|other| {
        (other["fromAgentId"].as_str().unwrap().to_owned(), other["taskId"].as_str().unwrap().to_owned())
    });
    let expected: Vec<_> = (0..69).rev().map(|n| (format!("label-{n}"), format!("t-{n}"))).collect();
    assert_eq!(named.collect::<Vec<_>>(), expected);

    let one = get(&format!("{url}?fromAgentId=label-3")).await;
    assert_eq!((&one["taskId"], &one["others"]), (&json!("t-3"), &Value::Null), "{one:#}");
    for (name, expected) in [("peer-01", (404, "message_not_found")), ("a%20b", (400, "invalid_field"))] {
        let answer = call(Method::GET, &format!("{url}?fromAgentId={name}"), None).await;
        assert_eq!(refusal(&answer), (expected.0, expected.1.to_owned()), "{name}");
    }
    let own = peer.get(&agent, "/a2a/messages/m-1").await.body;
    assert_eq!((&own["type"], &own["others"]), (&json!("task-request"), &Value::Null), "{own:#}");
}

#[tokio::test]
async fn messages_of_others_with_the_same_id_do_not_hide_your_own() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let request = |from: &str| {
        with(
            agent.request(json!({ "description": "hello", "capability": "echo" })),
            json!({ "messageId": "m-1", "fromAgentId": from }),
        )
    };
    for n in 0..64 {
        let peer = format!("peer-{n}");
        assert_eq!(mesh.client_as(&peer).post(&agent, &request(&peer)).await.status, 202);
    }
    assert_eq!(agent.post(&request("me")).await.status, 202);
    let seen = get(&format!("{}/a2a/messages/m-1", agent.url)).await;
    assert_eq!((&seen["accepted"], &seen["others"]), (&json!(true), &Value::Null), "{seen:#}");
}

#[tokio::test]
async fn a_repeat_gets_the_same_answer_and_other_content_is_refused() {
    let mesh = Process::up(COUNTING).await;
    let agent = mesh.agent("counter-01");
    let request = with(
        agent.request(json!({ "description": "count", "capability": "count" })),
        json!({ "messageId": "m-1" }),
    );
    let first = agent.post(&request).await;
    let task = first.body["taskId"].as_str().unwrap().to_owned();
    agent.task_in(&task, &["completed"]).await;
    let again = agent.post(&request).await;
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.body, with(first.body.clone(), json!({ "duplicate": true })));
    let other = with(request.clone(), json!({ "payload": { "description": "something else" } }));
    assert_eq!(refusal(&agent.post(&other).await), (409, "message_id_reused".into()));

    // Ids belong to a sender: the same id under another `fromAgentId` is another message.
    let stranger = with(request, json!({ "fromAgentId": "someone-else" }));
    assert_eq!(agent.post(&stranger).await.status, 202);
    eventually("two runs", async || (runs(&mesh) == 2).then_some(())).await;
}

#[tokio::test]
async fn the_same_message_a_thousand_times_at_once_is_taken_once() {
    let mesh = Process::up(COUNTING).await;
    let agent = mesh.agent("counter-01");
    let request = with(
        agent.request(json!({ "description": "count", "capability": "count" })),
        json!({ "messageId": "m-1" }),
    );
    let answers = all_at_once(&agent.url, vec![request; 1_000]).await;
    assert_eq!(by_status(&answers), BTreeMap::from([(200, 999), (202, 1)]));
    let ids =
        |member: &str| answers.iter().map(|(_, answer)| answer[member].to_string()).collect::<BTreeSet<_>>();
    assert_eq!((ids("messageId").len(), ids("taskId").len(), ids("conversationId").len()), (1, 1, 1));
    let task = answers[0].1["taskId"].as_str().unwrap();
    agent.task_in(task, &["completed"]).await;
    assert_eq!(runs(&mesh), 1);
}

#[tokio::test]
async fn the_same_task_posted_a_thousand_times_at_once_runs_once() {
    let mesh = Process::up(COUNTING).await;
    let agent = mesh.agent("counter-01");
    let request = agent.request(json!({ "taskId": "t-1", "description": "count", "capability": "count" }));
    let answers = all_at_once(&agent.url, vec![request; 1_000]).await;
    assert_eq!(by_status(&answers), BTreeMap::from([(200, 999), (202, 1)]));
    let conversations: BTreeSet<_> =
        answers.iter().map(|(_, answer)| answer["conversationId"].as_str().unwrap()).collect();
    assert_eq!(conversations.len(), 1);
    agent.task_in("t-1", &["completed"]).await;
    assert_eq!(runs(&mesh), 1);
    assert_eq!(agent.state().await["counts"]["admitted"], 1);
}

fn by_status(answers: &[(u16, Value)]) -> BTreeMap<u16, usize> {
    answers.iter().fold(BTreeMap::new(), |mut counts, (status, _)| {
        *counts.entry(*status).or_default() += 1;
        counts
    })
}

#[tokio::test]
async fn a_task_id_belongs_to_its_content() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let first = agent.request(json!({ "taskId": "t-1", "description": "one", "capability": "echo" }));
    assert_eq!(agent.post(&first).await.status, 202);
    let other = agent.request(json!({ "taskId": "t-1", "description": "two", "capability": "echo" }));
    assert_eq!(refusal(&agent.post(&other).await), (409, "task_id_reused".into()));
    agent.task_in("t-1", &["completed"]).await;
    assert_eq!(refusal(&agent.post(&other).await), (409, "task_id_reused".into()));
    let again = agent.post(&first).await;
    assert_eq!((again.status, &again.body["duplicate"]), (200, &json!(true)), "{again:?}");
}

#[tokio::test]
async fn a_silent_recipient_is_a_504_and_its_late_acknowledgement_is_counted() {
    let mesh = Process::up(&format!("mesh: {{ limits: {{ ackMs: 1000 }} }}{TEAM}")).await;
    let agent = mesh.agent("echo-01");
    agent.ask(json!({ "description": "warm up", "capability": "echo" })).await;
    let store = rusqlite::Connection::open(mesh.data.join("store.sqlite")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();

    let request = with(
        agent.request(json!({ "taskId": "t-1", "description": "hello", "capability": "echo" })),
        json!({ "messageId": "m-1" }),
    );
    let started = Instant::now();
    let answer = agent.post(&request).await;
    let waited = started.elapsed().as_millis();
    assert_eq!(refusal(&answer), (504, "gateway_timeout".into()));
    assert!(waited >= 900, "{waited} ms");
    assert!(refusal_text(&answer).contains("/a2a/messages/m-1"), "{answer:?}");
    let seen = get(&format!("{}/a2a/messages/m-1", agent.url)).await;
    assert_eq!((&seen["messageId"], &seen["accepted"]), (&json!("m-1"), &json!(false)), "{seen:#}");

    store.execute_batch("ROLLBACK").unwrap();
    agent.task_in("t-1", &["completed"]).await;
    eventually("the late acknowledgement", async || {
        (agent.state().await["counts"]["lateAcks"] == 1).then_some(())
    })
    .await;
    let seen = get(&format!("{}/a2a/messages/m-1", agent.url)).await;
    assert_eq!((&seen["accepted"], &seen["taskId"]), (&json!(true), &json!("t-1")), "{seen:#}");
    let again = agent.post(&request).await;
    assert_eq!((again.status, &again.body["duplicate"]), (200, &json!(true)), "{again:?}");
}

#[tokio::test]
async fn a_silent_peer_delays_no_one_else_and_gets_its_message_later() {
    let mesh = Process::up_beside(
        &ASKING.replace("PEER", "mute-01"),
        &[("script.yaml", &DELEGATING.replace("PEER", "mute-01"))],
    )
    .await;
    let mute = Peer::join(&mesh, "mute-01", "silence").await;
    mute.answer_with(crate::harness::peer::NO_ANSWER);
    let asker = mesh.agent("asker-01");
    let task = asker.send(json!({ "description": "delegate it" })).await;
    mute.wait_for("task-request").await;
    let other = asker.ask(json!({ "description": "something short" })).await;
    assert_eq!(state(&other), "completed");
    assert_eq!(state(&asker.task(&task).await), "working");
    mute.answer_with(202);
    let first = mute.wait_for("task-request").await;
    let response = json!({
        "messageId": "r-1", "fromAgentId": "mute-01", "toAgentId": "asker-01", "type": "task-response",
        "conversationId": first["replyConversationId"], "inReplyTo": first["messageId"],
        "payload": { "taskId": first["payload"]["taskId"], "seq": 1, "state": "TASK_STATE_COMPLETED", "message": "at last" },
    });
    let heard = mute.signing.post(&asker, &response).await;
    assert_eq!(heard.status, 202, "{heard:?}");
    asker.task_in(&task, &["completed"]).await;
    let ids: BTreeSet<_> = mute.received().iter().map(|message| message["messageId"].to_string()).collect();
    assert_eq!(ids.len(), 1, "every try carries the same id: {:#?}", mute.received());
}

const ASKING: &str = "
agents:
  - agent: asker-01
    open: true
    bid: { maxParallel: 4 }
    brain: { scripted: script.yaml }
";

const DELEGATING: &str = "
turns:
  - when: { contains: short }
    end: { done: that was easy }
  - when: { turn: 1 }
    say: [{ type: delegate, id: d, to: PEER, description: do it }]
  - when: { turn: 2 }
    end: { done: it came back }
";

#[tokio::test]
async fn a_payload_may_be_a_string_that_holds_json() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let payload = json!({ "taskId": "t-1", "description": "hello", "capability": "echo" });
    let request = with(agent.request(Value::Null), json!({ "payload": payload.to_string() }));
    assert_eq!(agent.post(&request).await.status, 202);
    agent.task_in("t-1", &["completed"]).await;
    let again = agent.post(&agent.request(payload)).await;
    assert_eq!((again.status, &again.body["duplicate"]), (200, &json!(true)), "the same task: {again:?}");
    let broken = with(agent.request(Value::Null), json!({ "payload": "{\"description\": " }));
    assert_eq!(refusal(&agent.post(&broken).await), (400, "malformed_json".into()));
}

#[tokio::test]
async fn unknown_members_are_tolerated_and_kept() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let request = with(
        agent.request(json!({ "description": "hello", "capability": "echo", "mood": "kept-in-payload" })),
        json!({ "messageId": "m-1", "colour": { "name": "kept-at-the-top" } }),
    );
    assert_eq!(agent.post(&request).await.status, 202);
    let seen = get(&format!("{}/a2a/messages/m-1", agent.url)).await;
    assert_eq!(seen["extra"]["colour"]["name"], "kept-at-the-top", "{seen:#}");
    assert_eq!(seen["extra"]["payload"]["mood"], "kept-in-payload", "{seen:#}");
}

#[tokio::test]
async fn a_message_to_a_capability_is_accepted_by_the_agent_that_gets_it() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let request = with(
        agent.request(json!({ "taskId": "t-1", "description": "hello" })),
        json!({ "toAgentId": "capability:echo" }),
    );
    assert_eq!(agent.post(&request).await.status, 202);
    assert_eq!(state(&agent.task_in("t-1", &["completed", "failed"]).await), "completed");
}

const FOUR: &str = "
agents:
  - { agent: orchestrator-01, open: true, brain: { scripted: script.yaml }, bid: { maxParallel: 4 } }
  - { agent: planner-01, open: true, brain: { scripted: script.yaml }, bid: { maxParallel: 4 } }
  - { agent: builder-01, open: true, brain: { scripted: script.yaml }, bid: { maxParallel: 4 } }
  - { agent: reviewer-01, open: true, brain: { scripted: script.yaml }, bid: { maxParallel: 4 } }
";

const TOPOLOGIES: &str = "
turns:
  - { when: { turn: 2 }, end: { done: all came back } }
  - when: { contains: central }
    say:
      - { type: delegate, id: p, to: planner-01, description: a leaf of the centre }
      - { type: delegate, id: b, to: builder-01, description: a leaf of the centre }
      - { type: delegate, id: r, to: reviewer-01, description: a leaf of the centre }
  - when: { contains: star with shortcuts }
    say: [{ type: delegate, id: p, to: planner-01, description: plan and pass on }]
  - when: { contains: plan and pass on }
    say: [{ type: delegate, id: b, to: builder-01, description: build and pass on }]
  - when: { contains: build and pass on }
    say: [{ type: delegate, id: r, to: reviewer-01, description: a leaf of the star }]
  - when: { contains: from the reviewer }
    say: [{ type: delegate, id: o, to: orchestrator-01, description: a leaf of the mesh }]
  - when: { contains: from the builder }
    say: [{ type: delegate, id: p, to: planner-01, description: a leaf of the mesh }]
  - { when: { contains: leaf }, end: { done: a leaf is done } }
";

#[tokio::test]
async fn three_topologies_use_the_same_calls() {
    let mesh = Process::up_beside(FOUR, &[("script.yaml", TOPOLOGIES)]).await;
    for (at, what) in [
        ("orchestrator-01", "central"),
        ("orchestrator-01", "star with shortcuts"),
        ("reviewer-01", "mesh, from the reviewer"),
        ("builder-01", "mesh, from the builder"),
    ] {
        let task = mesh.agent(at).ask(json!({ "description": what })).await;
        assert_eq!(state(&task), "completed", "{what}: {task:#}");
    }
    let done = async |id: &str, what: &str| {
        let tasks = get(&format!("{}/a2a/tasks", mesh.agent(id).url)).await;
        let extension = |task: &Value| task["metadata"]["urn:agent-mesh:ext:task:v1"].clone();
        let found =
            tasks["tasks"].as_array().unwrap().iter().map(extension).find(|task| task["description"] == what);
        found.unwrap_or_else(|| panic!("{id} did not do {what}: {tasks:#}"))["path"].clone()
    };
    for id in ["planner-01", "builder-01", "reviewer-01"] {
        assert_eq!(done(id, "a leaf of the centre").await, json!(["orchestrator-01"]));
    }
    assert_eq!(done("planner-01", "plan and pass on").await, json!(["orchestrator-01"]));
    assert_eq!(done("builder-01", "build and pass on").await, json!(["orchestrator-01", "planner-01"]));
    assert_eq!(
        done("reviewer-01", "a leaf of the star").await,
        json!(["orchestrator-01", "planner-01", "builder-01"])
    );
    assert_eq!(done("orchestrator-01", "a leaf of the mesh").await, json!(["reviewer-01"]));
    assert_eq!(done("planner-01", "a leaf of the mesh").await, json!(["builder-01"]));
}

const DIGGING: &str = r#"
agents:
  - agent: digger-01
    open: true
    brain: { exec: [sh, -c, 'echo ran >> runs; echo "{\"type\":\"done\",\"message\":\"dug\"}"'] }
"#;

#[tokio::test]
async fn a_stopped_node_gets_every_message_once_when_it_continues() {
    let mesh = Process::up_beside(
        &ASKING.replace("PEER", "digger-01"),
        &[("script.yaml", &DELEGATING.replace("PEER", "digger-01"))],
    )
    .await;
    let team = file(mesh.dir(), "digger.yaml", DIGGING);
    let (join, team) = (mesh.data.join("join"), team.to_string_lossy());
    let (data, join) = (mesh.dir().join("node"), join.to_string_lossy());
    let args = ["node", "--port", "0", "--profile", "fast", "--join", &join];
    let there = ["--registry", &mesh.url, "--board", &mesh.url, &team];
    let node = Process::start(&data, &[&args[..], &there[..]].concat()).await;
    let asker = mesh.agent("asker-01");
    let known = async || {
        let peers = get(&format!("{}/state", mesh.url)).await["peers"].clone();
        peers.as_array().unwrap().contains(&json!("digger-01")).then_some(())
    };
    eventually("the digger", known).await;
    assert_eq!(state(&asker.ask(json!({ "description": "dig" })).await), "completed");

    let request = with(asker.request(json!({ "description": "hello" })), json!({ "toAgentId": "digger-01" }));
    assert_eq!(refusal(&asker.post(&request).await), (421, "registered_elsewhere".into()));

    node.signal("STOP");
    let task = asker.send(json!({ "description": "dig again" })).await;
    eventually("the message waits", async || (asker.state().await["outbox"]["digger-01"] == 1).then_some(()))
        .await;
    let other = asker.ask(json!({ "description": "something short" })).await;
    assert_eq!(state(&other), "completed", "nobody else waits");
    eventually("the digger given up", async || known().await.is_none().then_some(())).await;
    assert_eq!(state(&asker.task(&task).await), "working");
    node.signal("CONT");
    assert_eq!(state(&asker.task_in(&task, &["completed", "failed"]).await), "completed");
    let runs = std::fs::read_to_string(mesh.dir().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 2, "each task ran once");
}
