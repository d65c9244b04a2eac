//! Records name the principal that they come from, and whoever acts on one acts for that principal (DESIGN §8).

use crate::harness::{
    Agent, Answer, Process, artifact, bidder::Bidder, client, eventually, is_success, refusal, refusal_text,
    state, with,
};
use reqwest::Method;
use serde_json::{Value, json};

/// Two users with a credential, a watcher that reacts to signals by a request to the worker, and builders of open tasks.
const TEAM: &str = r#"
mesh:
  callers: [{ user: anna, apiKey: annas-own-key-0001 }, { user: bert, apiKey: berts-own-key-0001 }]
agents:
  - agent: watcher-01
    skills: [watch]
    subscribe: ["acme.*"]
    brain:
      exec:
        - sh
        - -c
        - |
          read -r line
          case $line in *'"answers":[{'*) printf '{"type":"done","message":"seen"}\n'; exit;; esac
          subject=$(printf '%s' "$line" | sed 's/.*"subject":"\([^"]*\)".*/\1/')
          printf '{"type":"delegate","id":"d","to":"capability:work","description":"%s"}\n' "$subject"
  - { agent: worker-01, skills: [work], brain: { echo: {} } }
  - { agent: builder-01, skills: [build], subscribe: [task.available], brain: { echo: {} } }
  - { agent: relay-01, skills: [relay], brain: { echo: {} } }
"#;

/// A user and the API key.
#[derive(Clone, Copy)]
struct User(&'static str, Option<&'static str>);

const ANNA: User = User("anna", Some("annas-own-key-0001"));
const BERT: User = User("bert", Some("berts-own-key-0001"));
const LOCAL: User = User("local", None);

impl User {
    async fn call(self, method: Method, url: &str, body: Option<&Value>) -> Answer {
        let mut request = client().request(method, url);
        if let Some(key) = self.1 {
            request = request.header("x-api-key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        Answer { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    async fn publish(self, mesh: &Process, signal: &Value) -> Answer {
        self.call(Method::POST, &format!("{}/board/signals", mesh.url), Some(signal)).await
    }

    /// The descriptions of this user's tasks at `agent`, and their ids.
    async fn tasks(self, agent: &Agent) -> Vec<(String, String)> {
        let answer = self.call(Method::GET, &format!("{}/a2a/tasks", agent.url), None).await;
        let tasks = answer.body["tasks"].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone();
        let shown = tasks.iter().map(|task| {
            let ours = &task["metadata"][protocol::task::EXTENSION];
            (ours["description"].as_str().unwrap().to_owned(), task["id"].as_str().unwrap().to_owned())
        });
        shown.collect()
    }

    /// Waits until this user has exactly these tasks at `agent`.
    async fn has_tasks(self, agent: &Agent, descriptions: &[&str]) {
        let what = format!("{descriptions:?} of {} at {}", self.0, agent.id);
        let found = eventually(&what, async || {
            let tasks = self.tasks(agent).await;
            (tasks.len() >= descriptions.len()).then_some(tasks)
        });
        let mut found: Vec<_> = found.await.into_iter().map(|(description, _)| description).collect();
        found.sort();
        assert_eq!(found, descriptions, "{what}");
    }
}

#[tokio::test]
async fn a_reaction_acts_for_the_publisher_of_the_signal() {
    let mesh = Process::up(TEAM).await;
    let worker = mesh.agent("worker-01");
    for (user, subject) in [(ANNA, "for anna"), (BERT, "for bert"), (LOCAL, "for the local user")] {
        // The same label and id.
        let signal = json!({ "id": "1", "type": "acme.news", "from": "me", "subject": subject });
        let answer = user.publish(&mesh, &signal).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    ANNA.has_tasks(&worker, &["for anna"]).await;
    BERT.has_tasks(&worker, &["for bert"]).await;
    LOCAL.has_tasks(&worker, &["for the local user"]).await;
    let signals = mesh.signals("acme.news").await;
    let publishers: Vec<_> = signals.iter().map(|signal| signal["by"].as_str().unwrap()).collect();
    assert_eq!(publishers, ["user:anna", "user:bert", "user:local"]);
    let traces: std::collections::BTreeSet<_> = traces_of(&mesh, &[ANNA, BERT, LOCAL]).await;
    assert_eq!(traces.len(), 3, "each has a trace of its own: {traces:?}");
}

/// The trace of each user's only task at the worker.
async fn traces_of(mesh: &Process, users: &[User]) -> std::collections::BTreeSet<String> {
    let worker = mesh.agent("worker-01");
    let mut traces = std::collections::BTreeSet::new();
    for user in users {
        let [(_, task)] = &user.tasks(&worker).await[..] else { panic!("one task of {}", user.0) };
        let answer = user.call(Method::GET, &format!("{}/a2a/tasks/{task}/trace", worker.url), None).await;
        let spans = answer.body["spans"].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone();
        traces.extend(spans.iter().map(|span| span["traceId"].as_str().unwrap().to_owned()));
    }
    traces
}

#[tokio::test]
async fn two_users_with_the_same_ids_and_offers_never_meet() {
    let mesh = Process::up(TEAM).await;
    let (builder, relay, worker) =
        (mesh.agent("builder-01"), mesh.agent("relay-01"), mesh.agent("worker-01"));
    let send = async |user: User, to: &Agent, id: &str, kind: &str, payload: Value| {
        let message = json!({
            "messageId": id, "fromAgentId": "me", "toAgentId": to.id, "type": kind, "payload": payload,
        });
        let answer = user.call(Method::POST, &format!("{}/a2a/messages", to.url), Some(&message)).await;
        assert_eq!((answer.status, &answer.body["duplicate"]), (202, &Value::Null), "{answer:?}");
    };
    for user in [ANNA, BERT, LOCAL] {
        let text = |verb: &str| format!("{verb} {}", user.0);
        let offer = json!({
            "id": "1", "type": "task.available", "from": "me", "taskId": "open-1", "capability": "build",
            "refs": { "description": text("offered by") },
        });
        let answer = user.publish(&mesh, &offer).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        // Through one agent, which is the publisher on the board for all of them.
        let offer = json!({
            "signal": "task.available", "taskId": "open-2", "capability": "build",
            "refs": { "description": "the same" },
        });
        send(user, &relay, "m-1", "broadcast", offer).await;
        // Through one agent, which awards all of them to the same other agent.
        let request = json!({ "taskId": "t-1", "description": text("awarded for"), "capability": "work" });
        send(user, &relay, "m-2", "task-request", request).await;
        let request = json!({ "taskId": "t-1", "description": text("asked by"), "capability": "build" });
        send(user, &builder, "m-2", "task-request", request).await;
    }
    for user in [ANNA, BERT, LOCAL] {
        let text = |verb: &str| format!("{verb} {}", user.0);
        for (expected, task, agent) in [
            (text("offered by"), "open-1", &builder),
            ("the same".to_owned(), "open-2", &relay),
            (text("awarded for"), "t-1", &relay),
            (text("asked by"), "t-1", &builder),
        ] {
            let what = format!("{task} of {} at {} has ended", user.0, agent.id);
            let task = eventually(&what, async || {
                let answer = user.call(Method::GET, &format!("{}/a2a/tasks/{task}", agent.url), None).await;
                (is_success(answer.status) && state(&answer.body) == "completed").then_some(answer.body)
            });
            assert_eq!(artifact(&task.await, "echo"), Some(expected), "{what}");
        }
        user.has_tasks(&relay, &[&text("awarded for"), "the same"]).await;
        user.has_tasks(&builder, &[&text("asked by"), &text("offered by"), "the same"]).await;
        user.has_tasks(&worker, &[&text("awarded for")]).await;
    }
}

#[tokio::test]
async fn only_an_agent_names_the_principal_for_whom_it_publishes() {
    let mesh = Process::up(TEAM).await;
    let offer = |id: &str, more: Value| {
        let signal = json!({
            "id": id, "type": "task.available", "from": "me", "taskId": id, "capability": "build",
            "refs": { "description": id },
        });
        with(signal, more)
    };
    for (id, more) in [
        ("open-1", json!({ "refs": { "description": "x", "onBehalfOf": "user:anna" } })),
        ("open-2", json!({ "root": "user:anna" })),
    ] {
        let answer = BERT.publish(&mesh, &offer(id, more)).await;
        assert_eq!(refusal(&answer), (403, "forbidden".to_owned()), "{answer:?}");
    }
    // What a publisher says of itself has no effect.
    let answer = BERT.publish(&mesh, &offer("open-3", json!({ "by": "user:anna" }))).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    BERT.has_tasks(&mesh.agent("builder-01"), &["open-3"]).await;
    assert_eq!(ANNA.tasks(&mesh.agent("builder-01")).await, []);
}

#[tokio::test]
async fn a_user_may_use_any_label_but_a_name_that_is_or_was_an_agents_or_a_services() {
    let mesh = Process::up(TEAM).await;
    let mut guest = Bidder::join(&mesh, "Guest-01", "paint", json!({})).await;
    guest.leave().await;
    mesh.signal_where("agent.left", |signal| signal["subject"] == "Guest-01").await;
    let worker = mesh.agent("worker-01");
    let send = async |label: &str| {
        let message = with(
            worker.request(json!({ "description": "x", "capability": "work" })),
            json!({ "fromAgentId": label }),
        );
        ANNA.call(Method::POST, &format!("{}/a2a/messages", worker.url), Some(&message)).await
    };
    let publish = async |label: &str| ANNA.publish(&mesh, &json!({ "type": "acme.x", "from": label })).await;
    for taken in
        ["worker-01", "Worker-01", "RELAY-01", "guest-01", "GUEST-01", "registry", "Board", "blackboard"]
    {
        // The node learns from the registry that an agent has left; it knows the name all the time.
        for answer in [send(taken).await, publish(taken).await] {
            assert_eq!(refusal(&answer), (403, "sender_not_proven".to_owned()), "{taken}: {answer:?}");
            assert!(refusal_text(&answer).contains("label of your own"), "{answer:?}");
        }
    }
    for free in ["anna", "worker-011", "me", "Local"] {
        let answers = [send(free).await, publish(free).await];
        assert!(answers.iter().all(|answer| is_success(answer.status)), "{free}: {answers:?}");
    }
}

#[tokio::test]
async fn only_the_mesh_tells_of_the_life_of_tasks_agents_and_artifacts() {
    let mesh = Process::up(TEAM).await;
    for kind in protocol::signal::SIGNAL_TYPES
        .into_iter()
        .filter(|kind| *kind != "task.available" && *kind != "help.needed")
    {
        for user in [ANNA, LOCAL] {
            let direct = user.publish(&mesh, &json!({ "type": kind, "taskId": "t-1" })).await;
            let broadcast = json!({
                "fromAgentId": "me", "toAgentId": "relay-01", "type": "broadcast",
                "payload": { "signal": kind, "taskId": "t-1" },
            });
            let url = format!("{}/a2a/messages", mesh.agent("relay-01").url);
            let relayed = user.call(Method::POST, &url, Some(&broadcast)).await;
            for answer in [direct, relayed] {
                assert_eq!(refusal(&answer), (403, "forbidden".to_owned()), "{kind}: {answer:?}");
                assert!(refusal_text(&answer).contains("publishes"), "{answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn users_see_their_own_tasks_and_the_signals_of_their_own_tasks() {
    let mesh = Process::up(TEAM).await;
    let (worker, relay) = (mesh.agent("worker-01"), mesh.agent("relay-01"));
    let request = json!({
        "fromAgentId": "me", "toAgentId": "relay-01", "type": "task-request",
        "payload": { "taskId": "annas-1", "description": "secret", "capability": "work" },
    });
    let answer = ANNA.call(Method::POST, &format!("{}/a2a/messages", relay.url), Some(&request)).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let read = async |user: User| {
        let url = format!("{}/board/signals?taskId=annas-1&limit=1000", mesh.url);
        let signals = user.call(Method::GET, &url, None).await.body["signals"].clone();
        let kinds =
            signals.as_array().unwrap().iter().map(|signal| signal["type"].as_str().unwrap().to_owned());
        kinds.collect::<Vec<_>>()
    };
    let seen = eventually("anna sees the end of her task", async || {
        Some(read(ANNA).await).filter(|seen| seen.contains(&"task.complete".to_owned()))
    });
    assert_eq!(seen.await, ["task.claimed", "artifact.produced", "task.complete"]);
    assert_eq!(read(BERT).await, Vec::<String>::new());
    assert_eq!(read(LOCAL).await.len(), 3, "the local user sees the board");
    for (user, agent) in [BERT, LOCAL].into_iter().flat_map(|user| [(user, &worker), (user, &relay)]) {
        let tasks = format!("{}/a2a/tasks", agent.url);
        let like_missing = |task: &str, rest: &str| format!("{tasks}/{task}{rest}");
        for (method, rest) in [
            (Method::GET, ""),
            (Method::GET, "/events"),
            (Method::GET, "/award"),
            (Method::GET, "/trace"),
            (Method::POST, "/cancel"),
        ] {
            let foreign = user.call(method.clone(), &like_missing("annas-1", rest), None).await;
            let missing = user.call(method, &like_missing("annas-0", rest), None).await;
            assert_eq!(foreign.status, 404, "{} {rest}: {foreign:?}", user.0);
            let text = |answer: &Answer| answer.body.to_string().replace("annas-0", "annas-1");
            assert_eq!(text(&foreign), text(&missing), "{rest}");
        }
        assert_eq!(user.tasks(agent).await, []);
    }
    let state = BERT.call(Method::GET, &format!("{}/state", relay.url), None).await;
    assert!(state.body["limits"].is_object() && state.body["agents"].is_null(), "{state:?}");
    assert!(!relay.state().await.is_null(), "the local user sees the state of the actors");
}
