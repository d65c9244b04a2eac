//! Who speaks is proven by a key of its own (DESIGN §8): an agent with the join secret and its own key can act as nobody else,
//! and the loss, the rotation and the reset of a key lose no task.

use crate::harness::{
    Answer, Process,
    bidder::{self, Bidder},
    client,
    cluster::{Cluster, SECRET, gated_brain, started_turns},
    eventually, get, mesh,
    peer::Peer,
    refusal, refusal_text, test_identity,
};
use protocol::{
    a2a::card_signature::SigningKey,
    identity::{IdentityKey, Introduction, KeyCertificate},
    ids::{AgentId, Digest},
    message::MessageKind,
    problem::Reason,
    signature::{MESSAGE_ID, RECIPIENT, Secret, SignedParts},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use transport::key_ring::KeyRing;

const TEAM: &str = "
agents:
  - { agent: builder-01, skills: [build], subscribe: [task.available], brain: { echo: {} } }
  - { agent: planner-01, skills: [plan], brain: { echo: {} } }
";

/// A process of the mesh: its name in signatures, its address, and its data directory, in which the test reads its public key.
struct Target<'a> {
    id: &'static str,
    url: String,
    data: &'a Path,
}

/// An agent with the join secret and a key of its own, which is none of the mesh's.
struct Thief;

impl Thief {
    fn key(id: &str) -> IdentityKey {
        IdentityKey::new(AgentId::parse(id).unwrap(), Arc::new(SigningKey::from_seed(&[66; 32])))
    }

    /// The answer to a request that the thief signs as `id` with its own key.
    async fn call(id: &str, to: &Target<'_>, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let keys = KeyRing::new(Secret::new(SECRET.as_bytes()).unwrap(), None);
        keys.set_own(Self::key(id));
        keys.set_pinned(test_identity(to.data, to.id).public().clone(), 1);
        let me = AgentId::parse(id).unwrap();
        // A caller that proves nothing is slowed down (429).
        eventually("an answer that is no 429", async || {
            let sign = |parts: &SignedParts<'_>| keys.sign_request(&me, parts, now()).unwrap().into_pairs();
            let answer = send(to, method.clone(), path, body, sign).await;
            (answer.status != 429).then_some(answer)
        })
        .await
    }

    /// The answer to an exchange of keys, which only the join secret signs.
    async fn join(to: &Target<'_>, introduction: &Introduction) -> Answer {
        let secret = Secret::new(SECRET.as_bytes()).unwrap();
        let me = introduction.identity.id();
        let sign = |parts: &SignedParts<'_>| secret.sign_request(me, parts, now(), None).into_pairs();
        send(to, Method::POST, "/join", Some(&json!(introduction)), sign).await
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

async fn send(
    to: &Target<'_>,
    method: Method,
    path: &str,
    body: Option<&Value>,
    sign: impl FnOnce(&SignedParts<'_>) -> [(&'static str, String); 3],
) -> Answer {
    let text = body.map(Value::to_string).unwrap_or_default();
    let message_id = body.map(|body| body["messageId"].as_str().unwrap_or("m-1"));
    let digest = Digest::of(text.as_bytes());
    let parts =
        SignedParts { method: method.as_str(), path_and_query: path, recipient: to.id, message_id, digest };
    let headers = sign(&parts);
    let mut request = client().request(method, format!("{}{path}", to.url)).header(RECIPIENT, to.id);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if let Some(id) = message_id {
        request = request.header(MESSAGE_ID, id).header("content-type", "application/json").body(text);
    }
    crate::harness::read_answer(request.send().await.unwrap()).await
}

/// Every signed route of an agent, a board and a registry. `{id}` is the one as whom the thief acts.
const ROUTES: [(&str, &str, &str); 37] = [
    ("builder-01", "POST", "/a2a/messages"),
    ("builder-01", "GET", "/a2a/messages/m-1"),
    ("builder-01", "GET", "/a2a/messages/m-1/trace"),
    ("builder-01", "GET", "/a2a/tasks"),
    ("builder-01", "GET", "/a2a/tasks/t-1"),
    ("builder-01", "GET", "/a2a/tasks/t-1/events"),
    ("builder-01", "GET", "/a2a/tasks/t-1/award"),
    ("builder-01", "GET", "/a2a/tasks/t-1/trace"),
    ("builder-01", "POST", "/a2a/tasks/t-1/cancel"),
    ("builder-01", "POST", "/a2a/tasks/t-1/answer"),
    ("builder-01", "GET", "/a2a/conversations/c-1/trace"),
    ("builder-01", "GET", "/a2a/traces/0af7651916cd43dd8448eb211c80319c/reactions"),
    ("builder-01", "PUT", "/a2a/artifacts"),
    ("builder-01", "GET", "/a2a/artifacts/00"),
    ("builder-01", "GET", "/a2a/dead-letters"),
    ("builder-01", "POST", "/a2a/rpc"),
    ("builder-01", "POST", "/keys/builder-01/rotate"),
    ("board", "POST", "/board/signals"),
    ("board", "GET", "/board/signals"),
    ("board", "GET", "/board/signals/stream"),
    ("board", "POST", "/board/claims/t-1"),
    ("board", "GET", "/board/claims/t-1"),
    ("board", "POST", "/board/claims/t-1/renew"),
    ("board", "POST", "/board/claims/t-1/complete"),
    ("board", "PUT", "/board/token"),
    ("board", "PUT", "/board/key-records"),
    ("board", "POST", "/keys/board/rotate"),
    ("registry", "POST", "/registry/agents"),
    ("registry", "PUT", "/registry/agents/{id}/heartbeat"),
    ("registry", "POST", "/registry/agents/{id}/suspicion"),
    ("registry", "DELETE", "/registry/agents/{id}?incarnation=1"),
    ("registry", "GET", "/registry/token"),
    ("registry", "GET", "/registry/key-records"),
    ("registry", "POST", "/keys/registry/rotate"),
    ("registry", "POST", "/registry/keys/{id}/change"),
    ("registry", "POST", "/registry/keys/{id}/reset"),
    ("registry", "POST", "/registry/agents/{id}/forget"),
];

#[tokio::test]
async fn an_agent_with_the_join_secret_acts_as_nobody_but_itself() {
    let cluster = Cluster::start().await;
    let node = cluster.node("node", TEAM).await;
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    let mut gone = Bidder::join(&cluster.registry, "gone-01", "dig", json!({})).await;
    gone.leave().await;
    let mallory = bidder::wire_with(Thief::key("mallory-01"), SECRET);
    let card = bidder::card("mallory-01", "http://127.0.0.1:1", "dig", &json!({}));
    bidder::register(&cluster.registry.url, &mallory, &card, "1").await.unwrap();
    let target = |id: &'static str| match id {
        "board" => Target { id, url: cluster.board.url.clone(), data: &cluster.board.data },
        "registry" => Target { id, url: cluster.registry.url.clone(), data: &cluster.registry.data },
        id => Target { id, url: node.agent(id).url, data: &node.data },
    };
    // What it could say if it were believed is accepted from itself: the requests are right but for who signs them.
    let request = |from: &str, kind: MessageKind| {
        json!({ "messageId": format!("{from}-{}", kind.wire()), "fromAgentId": from, "toAgentId": "builder-01", "type": kind.wire(),
            "payload": { "taskId": "t-1", "description": "x", "capability": "build", "seq": 1, "state": "completed", "epoch": 1,
                "leaseMs": 60_000, "task": { "description": "x" }, "reason": "x", "bidBy": "2030-01-01T00:00:00Z", "cost": 1, "eta": 1,
                "question": "x", "answer": "x", "questionId": "q", "signal": "help.needed" } })
    };
    let builder = target("builder-01");
    eventually("mallory known", async || {
        let body = request("mallory-01", MessageKind::TaskRequest);
        let url = format!("{}/a2a/messages", builder.url);
        let id = body["messageId"].as_str().unwrap();
        let call = transport::http_client::ClientRequest::post(&url, "builder-01", body.to_string().into());
        mallory.json::<Value>(call.message_id(id)).await.ok()
    })
    .await;

    for victim in ["planner-01", "gone-01", "registry", "board"] {
        for kind in MessageKind::ALL {
            let body = request(victim, *kind);
            let answer = Thief::call(victim, &builder, Method::POST, "/a2a/messages", Some(&body)).await;
            assert_eq!(refusal(&answer), (401, "unauthenticated".to_owned()), "{victim} {kind:?}");
            // Under its own signature, the name is not believed either.
            let url = format!("{}/a2a/messages", builder.url);
            let id = body["messageId"].as_str().unwrap().to_owned();
            let call =
                transport::http_client::ClientRequest::post(&url, "builder-01", body.to_string().into());
            let problem = mallory.json::<Value>(call.message_id(&id)).await.unwrap_err();
            let is_refused =
                [Reason::SenderNotProven, Reason::InvalidField, Reason::Forbidden].contains(&problem.reason);
            assert!(is_refused, "{victim} {kind:?}: {problem}");
        }
        for (at, method, path) in ROUTES {
            let (method, path) =
                (Method::from_bytes(method.as_bytes()).unwrap(), path.replace("{id}", victim));
            let body =
                (method != Method::GET && method != Method::DELETE).then(|| json!({ "incarnation": 1 }));
            let answer = Thief::call(victim, &target(at), method.clone(), &path, body.as_ref()).await;
            assert_eq!(answer.status, 401, "{victim} {method} {path}: {answer:?}");
        }
    }

    // No process takes the thief's key for another id.
    let certificate: KeyCertificate = serde_json::from_value(
        get(&format!("{}/registry/agents/mallory-01", cluster.registry.url)).await["key"].clone(),
    )
    .unwrap();
    let pinned: KeyCertificate = serde_json::from_value(
        get(&format!("{}/registry/agents/planner-01", cluster.registry.url)).await["key"].clone(),
    )
    .unwrap();
    for victim in ["planner-01", "gone-01", "registry", "board"] {
        for at in ["registry", "board", "builder-01"] {
            for certificate in [None, Some(certificate.clone()), Some(pinned.clone())] {
                let identity = Thief::key(victim).public().as_ref().clone();
                let answer = Thief::join(
                    &target(at),
                    &Introduction { identity, certificate, callers: None, history: Default::default() },
                )
                .await;
                assert!([409, 503].contains(&answer.status), "{victim} at {at}: {answer:?}");
            }
        }
    }
    // Nor a name that looks like another's.
    for name in ["Planner-01", "BUILDER-01"] {
        let identity = Thief::key(name).public().as_ref().clone();
        let introduction =
            Introduction { identity, certificate: None, callers: None, history: Default::default() };
        let answer = Thief::join(&target("registry"), &introduction).await;
        assert_eq!(refusal(&answer), (409, "agent_id_taken".to_owned()));
    }
    // A statement that its own key signed replaces no key.
    let change =
        protocol::identity::KeyChange::new(&Thief::key("planner-01"), Thief::key("planner-01").public());
    let url = format!("{}/registry/keys/planner-01/change", cluster.registry.url);
    let call =
        transport::http_client::ClientRequest::post(&url, "registry", json!(change).to_string().into());
    let problem = mallory.bytes(call).await.unwrap_err();
    assert_eq!(problem.reason, Reason::AgentIdTaken, "{problem}");
    // Nor does a person without the token.
    let reset =
        client().post(format!("{}/registry/keys/planner-01/reset", cluster.registry.url)).json(&json!({}));
    let answer = crate::harness::read_answer(reset.send().await.unwrap()).await;
    assert_eq!(refusal(&answer), (403, "forbidden".to_owned()));
    assert!(refusal_text(&answer).contains("mesh token"), "{answer:?}");

    let done = node.agent("planner-01").ask(json!({ "description": "x", "capability": "build" })).await;
    assert_eq!(crate::harness::state(&done), "completed", "the mesh works: {done:#}");
}

#[tokio::test]
async fn the_doctor_names_what_does_not_match_with_its_remedy() {
    let cluster = Cluster::start().await;
    let node = cluster.node("node", TEAM).await;
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    let (registry, join) = (&cluster.registry.url, cluster.path("join").to_string_lossy().into_owned());
    let doctor = |data: &Path, join: &str| {
        mesh(&["doctor", "--json", "--url", registry, "--data", &data.to_string_lossy(), "--join", join], &[])
    };
    let (code, out, errors) = doctor(&node.data, &join);
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["ok"], true);
    for subject in ["builder-01", "planner-01", "registry", "board", "join secret"] {
        assert!(out.contains(subject), "{subject}: {out}");
    }
    // A key file that is lost, another key, and a pin of another registry.
    let dir = crate::harness::directory();
    let keys = dir.path().join("keys");
    std::fs::create_dir(&keys).unwrap();
    crate::harness::file(&keys, "builder-01.ed25519", &"x".repeat(32));
    crate::harness::file(&keys, "planner-01.seal", &"x".repeat(32));
    crate::harness::file(
        &keys,
        "registry.pinned",
        &json!(Thief::key("registry").public().as_ref()).to_string(),
    );
    let other = crate::harness::file(dir.path(), "join", &"x".repeat(64)).to_string_lossy().into_owned();
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = keys.join("builder-01.ed25519");
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let (code, out, errors) = doctor(dir.path(), &join);
    assert!(code == 1 && errors.contains("2 of"), "{code} {errors} {out}");
    let pin = format!("mesh keys reset registry --data {}", dir.path().display());
    for finding in ["a process that has stopped left this file", "planner-01.ed25519 is missing", &pin] {
        assert!(out.contains(finding), "{finding}: {out}");
    }
    assert!(
        !out.contains("keys reset builder-01") && !out.contains("keys reset planner-01"),
        "they run: {out}"
    );
    // The data of another mesh: nothing is to be reset.
    let (code, out, errors) = doctor(dir.path(), &other);
    assert!(code == 1 && errors.contains("2 of"), "{code} {errors} {out}");
    for remedy in ["is the data of another mesh", "--join names the file"] {
        assert!(out.contains(remedy), "{remedy}: {out}");
    }
    assert!(!out.contains("keys reset"), "{out}");
    let (code, _, errors) = doctor(&dir.path().join("none"), &join);
    assert!(code != 0 && errors.contains("does not exist"), "{code} {errors}");
    // The board is a part of the mesh, too.
    drop(node);
    let mut board = cluster.board;
    board.kill();
    let (code, out, _) = mesh(&["doctor", "--json", "--url", &cluster.registry.url], &[("HOME", "/nowhere")]);
    assert!(code == 1 && out.contains("\"board\""), "{code} {out}");
}

/// Runs `mesh keys` with the person's token of the mesh.
pub(super) fn keys(registry: &Process, words: &[&str]) -> (i32, String, String) {
    let token = registry.data.join("token").to_string_lossy().into_owned();
    let args = [&["keys"][..], words, &["--url", &registry.url, "--token", &token]].concat();
    mesh(&args, &[])
}

/// A planner that gives its task to a builder, which works until the test opens its gate.
pub(super) async fn task_under_way(cluster: &Cluster) -> (Process, Process, String) {
    let brain = gated_brain(cluster.dir.path(), "builder-01");
    let builder =
        format!("agents: [{{ agent: builder-01, skills: [build], brain: {{ exec: [sh, '{brain}'] }} }}]");
    let builder = cluster.node("builder", &builder).await;
    let planner =
        cluster.node("planner", "agents: [{ agent: planner-01, skills: [plan], brain: { echo: {} } }]").await;
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    let task = planner.agent("planner-01").send(json!({ "description": "x", "capability": "build" })).await;
    eventually("the turn has started", async || {
        (!started_turns(cluster.dir.path()).is_empty()).then_some(())
    })
    .await;
    (builder, planner, task)
}

pub(super) fn open_gate(cluster: &Cluster) {
    std::fs::write(cluster.path("open"), "").unwrap();
}

#[tokio::test]
async fn a_key_that_is_lost_and_reset_loses_no_task() {
    let cluster = Cluster::start().await;
    let (builder, mut planner, task) = task_under_way(&cluster).await;
    // The owner of the task loses its key.
    planner.kill();
    std::fs::remove_file(planner.data.join("keys/planner-01.ed25519")).unwrap();
    let (code, errors) = planner.run_to_end();
    assert!(code == 77 && errors.contains("mesh keys reset planner-01"), "{code} {errors}");
    open_gate(&cluster);
    let (code, _, errors) =
        mesh(&["keys", "reset", "planner-01", "--url", &cluster.registry.url], &[("HOME", "/nowhere")]);
    assert!(code == 6 && errors.contains("token"), "{code} {errors}");
    let (code, out, errors) = keys(&cluster.registry, &["reset", "planner-01"]);
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    planner.revive().await;
    planner.agent("planner-01").task_in(&task, &["completed"]).await;
    assert_eq!(started_turns(cluster.dir.path()).len(), 1, "the work was done once");
    drop(builder);
}

#[tokio::test]
async fn a_reset_while_its_agent_runs_loses_no_task() {
    let cluster = Cluster::start().await;
    let (builder, planner, task) = task_under_way(&cluster).await;
    for (id, node) in [("builder-01", &builder), ("planner-01", &planner)] {
        let file = node.data.join(format!("keys/{id}.ed25519"));
        let old = std::fs::read(&file).unwrap();
        let (code, out, errors) = keys(&cluster.registry, &["reset", id]);
        assert_eq!((code, errors.as_str()), (0, ""), "{out}");
        // What was reset may have been stolen: the agent gets another key by itself.
        eventually("a new key", async || (std::fs::read(&file).unwrap() != old).then_some(())).await;
        let pinned = |entry: &Value| entry["key"]["number"].is_u64();
        cluster.registry.entry_where(id, pinned).await;
    }
    open_gate(&cluster);
    planner.agent("planner-01").task_in(&task, &["completed"]).await;
    assert_eq!(started_turns(cluster.dir.path()).len(), 1);
    drop(builder);
}

#[tokio::test]
async fn a_rotation_while_a_task_runs_loses_nothing() {
    let cluster = Cluster::start().await;
    let (builder, planner, task) = task_under_way(&cluster).await;
    let key_of = |id: &str| {
        keys(&cluster.registry, &["ls"]).1.lines().find(|line| line.starts_with(id)).unwrap().to_owned()
    };
    for id in ["builder-01", "planner-01", "builder-01"] {
        let before = key_of(id);
        let (code, out, errors) = keys(&cluster.registry, &["rotate", id]);
        assert_eq!((code, errors.as_str()), (0, ""), "{out}");
        assert_ne!(key_of(id), before);
    }
    open_gate(&cluster);
    planner.agent("planner-01").task_in(&task, &["completed"]).await;
    assert_eq!(started_turns(cluster.dir.path()).len(), 1);
    // Both keep their new keys.
    let (builder, planner) = (builder.restart().await, planner.restart().await);
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    let again = planner.agent("planner-01").ask(json!({ "description": "y", "capability": "build" })).await;
    assert_eq!(crate::harness::state(&again), "completed");
    drop(builder);
}

#[tokio::test]
async fn a_rotation_that_a_crash_interrupts_is_finished_at_the_next_start() {
    let cluster = Cluster::start().await;
    let mut node = cluster.node("node", TEAM).await;
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    let (keys_dir, old) =
        (node.data.join("keys"), std::fs::read(node.data.join("keys/builder-01.ed25519")).unwrap());
    let (code, ..) = keys(&cluster.registry, &["rotate", "builder-01"]);
    assert_eq!(code, 0);
    // As if the process had ended after the registry's commit and before its own.
    node.kill();
    std::fs::rename(keys_dir.join("builder-01.ed25519"), keys_dir.join("builder-01.ed25519.next")).unwrap();
    std::fs::write(keys_dir.join("builder-01.ed25519"), old).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(keys_dir.join("builder-01.ed25519"), std::fs::Permissions::from_mode(0o600))
        .unwrap();
    node.revive().await;
    eventually("the new key in use", async || {
        (!keys_dir.join("builder-01.ed25519.next").exists()).then_some(())
    })
    .await;
    let is_back = |entry: &Value| entry["card"]["endpoint"] == json!(node.agents["builder-01"]);
    cluster.registry.entry_where("builder-01", is_back).await;
    let done = node.agent("planner-01").ask(json!({ "description": "x", "capability": "build" })).await;
    assert_eq!(crate::harness::state(&done), "completed");
}

#[tokio::test]
async fn a_registry_with_another_key_is_refused_until_a_person_resets_the_pin() {
    let mut cluster = Cluster::start().await;
    let node = cluster.node("node", TEAM).await;
    cluster.wait_for_agents(&["builder-01"]).await;
    cluster.registry.kill();
    std::fs::remove_file(cluster.registry.data.join("keys/registry.ed25519")).unwrap();
    cluster.registry.revive().await;
    let agent = node.agent("builder-01");
    eventually("the node says what to do", async || {
        let ready = get(&format!("{}/readyz", agent.url)).await;
        let why = ready["checks"]["registry"]["why"].as_str().unwrap_or_default().to_owned();
        (why.contains("registry.pinned") && why.contains("mesh keys reset registry")).then_some(())
    })
    .await;
    for data in [&node.data, &cluster.board.data] {
        let (code, out, errors) =
            mesh(&["keys", "reset", "registry", "--data", &data.to_string_lossy()], &[]);
        assert!(code == 0 && out.contains("registry.pinned"), "{code} {out} {errors}");
    }
    cluster.wait_for_agents(&["builder-01", "planner-01"]).await;
    let done = node.agent("planner-01").ask(json!({ "description": "x", "capability": "build" })).await;
    assert_eq!(crate::harness::state(&done), "completed");
}

#[tokio::test]
async fn a_signed_request_is_taken_once_and_registers_nobody_who_has_left() {
    let mesh = Process::up(TEAM).await;
    let peer = Peer::join(&mesh, "guest-01", "dig").await;
    let card = json!({ "agentId": "guest-01", "endpoint": peer.url, "skills": [{ "id": "dig" }] });
    let body = json!({ "card": card, "instance": peer.url });
    let registry = (mesh.url.as_str(), "/registry/agents");
    let registration = peer.signing.request(Method::POST, registry, "registry", Some(&body)).await;
    let send = async |request: &reqwest::RequestBuilder| {
        crate::harness::read_answer(request.try_clone().unwrap().send().await.unwrap()).await
    };
    assert!(crate::harness::is_success(send(&registration).await.status));
    peer.leave(&mesh).await;
    assert_eq!(refusal(&send(&registration).await), (401, "unauthenticated".to_owned()));
    peer.wait_until_listed(&mesh, false).await;

    let other = Peer::join(&mesh, "guest-02", "dig").await;
    let agent = mesh.agent("builder-01");
    let question = json!({
        "messageId": "q-1", "fromAgentId": "guest-02", "toAgentId": "builder-01", "type": "help-request",
        "payload": { "question": "how?" },
    });
    let target = (agent.url.as_str(), "/a2a/messages");
    let message = other.signing.request(Method::POST, target, "builder-01", Some(&question)).await;
    let (first, again) = (send(&message).await, send(&message).await);
    assert_eq!((first.status, again.status), (202, 200), "{first:?} {again:?}");
    assert_eq!(again.body["duplicate"], true, "{again:?}");

    let twice = other.signing.request(Method::GET, registry, "registry", None).await;
    let twice = twice.header("signature", "other=:AAAA:");
    assert_eq!(refusal(&send(&twice).await), (401, "unauthenticated".to_owned()));
}

#[tokio::test]
async fn a_user_sends_no_message_that_is_between_agents() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("builder-01");
    for (kind, payload) in [
        ("reject", json!({ "taskId": "t-1", "reason": "no" })),
        ("task-update", json!({ "taskId": "t-1", "seq": 1 })),
        ("award-accept", json!({ "taskId": "t-1", "epoch": 1 })),
        ("no-bid", json!({ "taskId": "t-1", "reason": "busy" })),
    ] {
        let envelope =
            json!({ "fromAgentId": "me", "toAgentId": "builder-01", "type": kind, "payload": payload });
        let refused = agent.post(&envelope).await;
        assert_eq!(refusal(&refused), (403, "forbidden".to_owned()), "{kind}: {refused:?}");
    }
}
