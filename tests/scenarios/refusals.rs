//! Refusals: their status and message; a refused request has no effect.

use crate::harness::{
    Agent, Answer, Process, call, client, directory, eventually, file, get,
    peer::{Peer, now},
    refusal, refusal_text, state, with,
};
use reqwest::Method;
use serde_json::{Value, json};

const TEAM: &str = "
agents:
  - agent: echo-01
    description: Returns what it is sent
    skills: [{ id: echo }]
    brain: { echo: {} }
  - agent: echo-02
    skills: [{ id: shout }]
    brain: { echo: {} }
";

fn echo(agent: &Agent) -> Value {
    agent.request(json!({ "description": "hello", "capability": "echo" }))
}

fn is(answer: &Answer, status: u16, code: &str) {
    assert_eq!(refusal(answer), (status, code.to_owned()), "{answer:?}");
}

#[tokio::test]
async fn an_unknown_a_remote_and_a_departed_recipient_have_different_answers() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let to = |id: &str| with(echo(&agent), json!({ "toAgentId": id }));
    let unknown = agent.post(&to("nobody-01")).await;
    is(&unknown, 404, "agent_not_found");
    assert!(refusal_text(&unknown).contains("nobody-01"), "{unknown:?}");

    let peer = Peer::join(&mesh, "peer-01", "anything").await;
    let elsewhere = agent.post(&to("peer-01")).await;
    is(&elsewhere, 421, "registered_elsewhere");
    assert_eq!(elsewhere.body["error"]["details"][0]["metadata"]["endpoint"], json!(peer.url));
    assert!(refusal_text(&elsewhere).contains(&peer.url), "{elsewhere:?}");

    peer.leave(&mesh).await;
    let departed = agent.post(&to("peer-01")).await;
    is(&departed, 410, "agent_departed");
    assert!(refusal_text(&departed).contains("peer-01"), "{departed:?}");

    let answer = agent.post(&to("echo-02")).await;
    assert_eq!(answer.status, 202, "agents of one node answer at any of its ports: {answer:?}");
}

#[tokio::test]
async fn the_size_limit_counts_bytes_and_is_named() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let limit = get(&format!("{}/state", agent.url)).await["limits"]["maxBodyBytes"].as_u64().unwrap();
    assert_eq!(limit, 262_144);
    let limit = usize::try_from(limit).unwrap();
    let body = |bytes: usize| {
        let head = r#"{"fromAgentId":"me","toAgentId":"echo-01","type":"task-request","payload":{"capability":"echo","description":""#;
        let tail = r#""}}"#;
        let room = bytes - head.len() - tail.len();
        let text = format!("{head}{}{}{tail}", "ü".repeat(room / 2), "x".repeat(room % 2));
        assert_eq!(text.len(), bytes);
        text
    };
    let fits = agent.post_raw(body(limit), &[]).await;
    assert_eq!(fits.status, 202, "{fits:?}");
    let task = agent.task_in(fits.body["taskId"].as_str().unwrap(), &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed");
    let too_large = agent.post_raw(body(limit + 1), &[]).await;
    is(&too_large, 413, "payload_too_large");
    assert!(refusal_text(&too_large).contains("262144"), "{too_large:?}");
    is(&agent.post_raw(body(257 * 1024), &[]).await, 413, "payload_too_large");
}

#[tokio::test]
async fn an_unknown_type_is_answered_with_the_valid_ones() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let answer = agent.post(&with(echo(&agent), json!({ "type": "task-reqest" }))).await;
    is(&answer, 400, "unknown_type");
    for valid in ["task-request", "help-response", "award-decline", "broadcast", "no-bid"] {
        assert!(refusal_text(&answer).contains(valid), "{valid}: {answer:?}");
    }
}

#[tokio::test]
async fn a_mistyped_bound_or_demand_of_a_person_is_refused_by_name() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    for (member, value, named) in [
        ("budget", json!({ "tokens": 5, "token": 5 }), "payload.budget.token"),
        ("accept", json!({ "reviewr": "echo" }), "payload.accept.reviewr"),
    ] {
        let payload = with(json!({ "description": "hello", "capability": "echo" }), json!({ member: value }));
        for payload in [payload.clone(), json!(payload.to_string())] {
            let answer = agent.post(&with(echo(&agent), json!({ "payload": payload }))).await;
            is(&answer, 400, "invalid_field");
            assert!(refusal_text(&answer).contains(named), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn no_one_can_send_as_a_registered_agent() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let peer = Peer::join(&mesh, "peer-01", "anything").await;
    let from = |id: &str| with(echo(&agent), json!({ "fromAgentId": id }));
    for id in ["echo-01", "echo-02", "peer-01"] {
        is(&agent.post(&from(id)).await, 403, "sender_not_proven");
    }
    is(&peer.signing.post(&agent, &from("echo-02")).await, 403, "sender_not_proven");
    assert_eq!(peer.signing.post(&agent, &from("peer-01")).await.status, 202);
    peer.leave(&mesh).await;
    is(&agent.post(&from("peer-01")).await, 403, "sender_not_proven");
    assert_eq!(agent.post(&from("any-label")).await.status, 202);
}

#[tokio::test]
async fn a_stale_or_forged_signature_is_refused() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let signing = mesh.client_as("peer-01");
    let request = with(echo(&agent), json!({ "fromAgentId": "peer-01" }));
    let place = (agent.url.as_str(), "/a2a/messages");
    let stale = signing.call_at(now() - 3_600, Method::POST, place, "echo-01", Some(&request)).await;
    is(&stale, 401, "stale_signature");
    let elsewhere = signing.call(Method::POST, place, "echo-09", Some(&request)).await;
    is(&elsewhere, 401, "unauthenticated");
    let foreign = Process::up(TEAM).await;
    let stranger = foreign.client_as("peer-01").call(Method::POST, place, "echo-01", Some(&request)).await;
    is(&stranger, 401, "unauthenticated");
    let garbage =
        [("signature-input", "mesh=()"), ("signature", "mesh=:AAAA:"), ("mesh-recipient", "echo-01")];
    is(&agent.post_raw(request.to_string(), &garbage).await, 401, "unauthenticated");
    assert_eq!(signing.call(Method::POST, place, "echo-01", Some(&request)).await.status, 202);
}

#[tokio::test]
async fn loops_and_endless_chains_are_refused() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let along = |path: Value| with(echo(&agent), json!({ "path": path }));
    let looped = agent.post(&along(json!(["planner-01", "echo-01", "builder-01"]))).await;
    is(&looped, 422, "delegation_loop");
    assert!(refusal_text(&looped).contains("planner-01 → echo-01 → builder-01"), "{looped:?}");
    let hops = |count: usize| json!((0..count).map(|at| format!("hop-{at}")).collect::<Vec<_>>());
    let far = agent.post(&along(hops(16))).await;
    is(&far, 422, "too_many_hops");
    assert!(refusal_text(&far).contains("16"), "{far:?}");
    assert_eq!(agent.post(&along(hops(15))).await.status, 202);
}

#[tokio::test]
async fn an_agent_that_delegates_to_itself_is_stopped_at_the_first_repeat() {
    let dir = directory();
    let script = r#"#!/bin/sh
read -r ask
case "$ask" in
*'"turn":1,'*) echo '{"type":"delegate","id":"d1","to":"again-01","description":"once more"}';;
*) printf '{"type":"artifact","name":"heard","text":"%s"}\n' "$(printf '%s' "$ask" | tr -d '"\\')"; echo '{"type":"done"}';;
esac
"#;
    let brain = file(dir.path(), "again.sh", script);
    let team = format!(
        "agents:\n  - {{ agent: again-01, open: true, skills: [again], brain: {{ exec: [sh, '{}'] }} }}\n",
        brain.display()
    );
    let mesh = Process::up(&team).await;
    let task = mesh.agent("again-01").ask(json!({ "taskId": "t-1", "description": "begin" })).await;
    assert_eq!(state(&task), "completed", "{task:#}");
    let heard = task["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(heard.contains("again-01 is already on the path, and asks itself: again-01"), "{heard}");
}

#[tokio::test]
async fn an_expired_message_is_410() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let expired = agent.post(&with(echo(&agent), json!({ "expiresAt": "2020-01-01T00:00:00Z" }))).await;
    is(&expired, 410, "expired");
    assert!(refusal_text(&expired).contains("expiresAt"), "{expired:?}");
    let late = json!({ "description": "x", "capability": "echo", "deadline": "2020-01-01T00:00:00+02:00" });
    let late = agent.post(&agent.request(late)).await;
    is(&late, 410, "expired");
    assert!(refusal_text(&late).contains("deadline"), "{late:?}");
    let in_time = with(echo(&agent), json!({ "expiresAt": "2999-01-01T00:00:00Z" }));
    assert_eq!(agent.post(&in_time).await.status, 202);
}

#[tokio::test]
async fn what_an_agent_delegates_needs_a_peer_that_orchestrates() {
    let mesh = Process::up("agents: [{ agent: echo-01, open: delegate, brain: { echo: {} } }]").await;
    let agent = mesh.agent("echo-01");
    let answer = agent.post(&agent.request(json!({ "description": "anything" }))).await;
    is(&answer, 422, "capability_needed");
    let orchestrator = Peer::join(&mesh, "orchestrator-01", "orchestrate").await;
    let task = agent.send(json!({ "description": "anything" })).await;
    let call = orchestrator.wait_for("cfp").await;
    assert_eq!(
        (&call["payload"]["taskId"], &call["payload"]["capability"]),
        (&json!(task), &json!("orchestrate"))
    );
}

/// A message nested so many levels deep, envelope and payload included.
fn nested(levels: usize) -> String {
    let (open, close) = ("[".repeat(levels - 2), "]".repeat(levels - 2));
    format!(
        r#"{{"fromAgentId":"me","toAgentId":"echo-01","type":"task-request","payload":{{"capability":"echo","description":"x","input":{open}{close}}}}}"#
    )
}

#[tokio::test]
async fn bad_input_gets_one_clear_answer_and_costs_nothing() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let before =
        agent.ask(json!({ "taskId": "before", "description": "keep me", "capability": "echo" })).await;
    let good = echo(&agent).to_string();
    let member = |name: &str, value: Value| with(echo(&agent), json!({ name: value })).to_string();
    let payload = |name: &str, value: Value| {
        let payload = with(json!({ "description": "x", "capability": "echo" }), json!({ name: value }));
        member("payload", payload)
    };
    let cases: Vec<(Vec<u8>, &str, &str)> = vec![
        (b"".to_vec(), "malformed_json", "EOF"),
        (b"{\"fromAgentId\": \"me\"".to_vec(), "malformed_json", "EOF"),
        (b"hello".to_vec(), "malformed_json", "expected"),
        (b"[1,2,3]".to_vec(), "invalid_field", "object"),
        (b"null".to_vec(), "invalid_field", "object"),
        (format!("{good} {good}").into_bytes(), "malformed_json", "trailing"),
        ([good.as_bytes(), b"\0"].concat(), "malformed_json", "trailing"),
        (good.replace("hello", "a\0b").into_bytes(), "malformed_json", "control character"),
        (good.replace("hello", "\u{0}").into_bytes(), "malformed_json", "control character"),
        (good.replace("hello", "a\\u0000b").into_bytes(), "malformed_json", "NUL character"),
        ([&b"\xff\xfe"[..], good.as_bytes()].concat(), "malformed_json", "expected"),
        (
            good.replace("hello", "QQ")
                .into_bytes()
                .iter()
                .map(|b| if *b == b'Q' { 0xff } else { *b })
                .collect(),
            "malformed_json",
            "unicode",
        ),
        (good.replacen('{', r#"{"type":"broadcast","#, 1).into_bytes(), "malformed_json", "\"type\""),
        (
            good.replacen("{\"capability\"", r#"{"capability":"x","capability""#, 1).into_bytes(),
            "malformed_json",
            "capability",
        ),
        (nested(33).into_bytes(), "malformed_json", "32 levels"),
        (nested(129).into_bytes(), "malformed_json", "32 levels"),
        (nested(100_000).into_bytes(), "malformed_json", "32 levels"),
        (member("type", json!(7)).into_bytes(), "invalid_field", "type"),
        (member("type", Value::Null).into_bytes(), "invalid_field", "type"),
        (member("payload", json!(7)).into_bytes(), "invalid_field", "payload"),
        (member("payload", json!("[1]")).into_bytes(), "invalid_field", "payload"),
        (member("payload", json!("{\"description\":")).into_bytes(), "malformed_json", "payload: "),
        (member("payload", json!({})).into_bytes(), "invalid_field", "payload.description is required"),
        (member("fromAgentId", json!("")).into_bytes(), "invalid_field", "fromAgentId"),
        (member("fromAgentId", json!({ "id": 1 })).into_bytes(), "invalid_field", "fromAgentId"),
        (member("toAgentId", json!("../../etc/passwd")).into_bytes(), "invalid_field", "toAgentId"),
        (member("toAgentId", json!("echo\u{0}01")).into_bytes(), "malformed_json", "NUL character"),
        (member("messageId", json!("two words")).into_bytes(), "invalid_field", "messageId"),
        (member("messageId", json!("m".repeat(193))).into_bytes(), "invalid_field", "messageId"),
        (member("timestamp", json!("yesterday")).into_bytes(), "invalid_field", "timestamp"),
        (member("expiresAt", json!(1_700_000_000)).into_bytes(), "invalid_field", "expiresAt"),
        (member("path", json!("echo-01")).into_bytes(), "invalid_field", "path"),
        (member("conversationId", json!("../c")).into_bytes(), "invalid_field", "conversationId"),
        (payload("description", json!(7)).into_bytes(), "invalid_field", "description"),
        (payload("taskId", json!("../t")).into_bytes(), "invalid_field", "taskId"),
        (payload("taskId", json!("t".repeat(65))).into_bytes(), "invalid_field", "taskId"),
        (payload("deadline", json!("soon")).into_bytes(), "invalid_field", "deadline"),
        (payload("artifacts", json!("plan")).into_bytes(), "invalid_field", "artifacts"),
        (
            payload("artifacts", json!(["plan", 7])).into_bytes(),
            "invalid_field",
            "artifacts[1]: must be a name",
        ),
        (payload("artifacts", json!([{ "sha256": "../" }])).into_bytes(), "invalid_field", "64 hex digits"),
    ];
    for (body, code, words) in cases {
        let shown: String = String::from_utf8_lossy(&body).chars().take(160).collect();
        let answer = agent.post_raw(body, &[]).await;
        assert_eq!(refusal(&answer), (400, code.to_owned()), "{shown}");
        assert!(
            refusal_text(&answer).contains(words),
            "{shown}: {words:?} is missing in {:?}",
            refusal_text(&answer)
        );
        assert!(refusal_text(&answer).len() < 600, "{shown}: {}", refusal_text(&answer).len());
    }
    assert_eq!(agent.post_raw(nested(32), &[]).await.status, 202);
    for path in ["/a2a/tasks/..%2f..%2fetc", "/a2a/messages/a%00b", "/a2a/tasks/%ff", "/a2a/artifacts/..%2fx"]
    {
        let answer = call(Method::GET, &format!("{}{path}", agent.url), None).await;
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
    }
    assert_eq!(agent.task("before").await, before);
    let log = std::fs::read_to_string(mesh.data.join("log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

#[tokio::test]
async fn a_body_that_is_no_object_and_an_unknown_parameter_are_refused() {
    let mesh = Process::up(TEAM).await;
    let signal = json!(["s-1", "acme.x", "me", null, null, null, {}, "2026-01-01T00:00:00Z"]);
    let answer = call(Method::POST, &format!("{}/board/signals", mesh.url), Some(&json!([signal]))).await;
    let [listed] = answer.body.as_array().unwrap().as_slice() else { panic!("{answer:?}") };
    assert_eq!((answer.status, &listed["status"]), (200.try_into().unwrap(), &json!(400)), "{answer:?}");
    for (path, listed) in [("board/signals", json!("x")), ("board/claims/t-1", json!([60_000, "me"]))] {
        let answer = call(Method::POST, &format!("{}/{path}", mesh.url), Some(&listed)).await;
        is(&answer, 400, "invalid_field");
        assert_eq!(refusal_text(&answer), "the body must be a JSON object", "{path}");
    }
    let tasks = format!("{}/a2a/tasks", mesh.agent("echo-01").url);
    let answer = call(Method::GET, &format!("{tasks}?colour=red"), None).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(refusal_text(&answer).contains("state") && refusal_text(&answer).contains("limit"), "{answer:?}");
    assert_eq!(call(Method::GET, &format!("{tasks}?limit=3"), None).await.status, 200);
}

#[tokio::test]
async fn http_level_refusals_have_the_same_shape() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let method = call(Method::DELETE, &format!("{}/a2a/messages", agent.url), None).await;
    is(&method, 405, "method_not_allowed");
    assert_eq!(method.headers["allow"], "POST");
    is(&call(Method::GET, &format!("{}/a2a/nothing", agent.url), None).await, 404, "route_not_found");
    let good = echo(&agent).to_string();
    is(&agent.post_raw(good.clone(), &[("content-type", "text/plain")]).await, 415, "unsupported_media_type");
    is(&agent.post_raw(good.clone(), &[("content-encoding", "gzip")]).await, 415, "unsupported_media_type");
    is(&agent.post_raw(good.clone(), &[("origin", "http://localhost")]).await, 403, "foreign_origin");
    is(&agent.post_raw(good.clone(), &[("host", "evil.example")]).await, 403, "foreign_origin");
    assert_eq!(agent.post_raw(good, &[("content-encoding", "identity")]).await.status, 202);
}

#[tokio::test]
async fn an_agent_with_too_many_open_conversations_answers_retry_after() {
    let team = "
mesh: { limits: { maxOpenConversations: 4 } }
agents: [{ agent: slow-01, open: true, brain: { scripted: script.yaml } }]
";
    let mesh = Process::up_beside(team, &[("script.yaml", "turns: [{ hang: true }]")]).await;
    let agent = mesh.agent("slow-01");
    let first = agent.send(json!({ "description": "one" })).await;
    agent.send(json!({ "description": "two" })).await;
    let full = agent.post(&agent.request(json!({ "description": "three" }))).await;
    is(&full, 503, "overloaded");
    assert_eq!(full.headers["retry-after"], "1");
    assert!(refusal_text(&full).contains("2 of 4"), "{full:?}");
    let cancelled = call(Method::POST, &format!("{}/a2a/tasks/{first}/cancel", agent.url), None).await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    eventually("room again", async || {
        (agent.post(&agent.request(json!({ "description": "three" }))).await.status == 202).then_some(())
    })
    .await;
}

#[tokio::test]
async fn agents_and_the_local_user_have_no_rate_limit() {
    let mesh = Process::up(&format!("mesh: {{ limits: {{ maxRatePerSecond: 1 }} }}{TEAM}")).await;
    let agent = mesh.agent("echo-01");
    let signing = mesh.client_as("peer-01");
    let client = client();
    for _ in 0..50 {
        assert_eq!(signing.get(&agent, "/a2a/tasks").await.status, 200);
        assert_eq!(client.get(format!("{}/a2a/tasks", agent.url)).send().await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_draining_node_refuses_new_work_and_finishes_its_own() {
    let team = "agents: [{ agent: slow-01, open: true, brain: { exec: [sh, -c, 'touch begun; while [ ! -e go ]; do sleep 0.02; done; echo \"{\\\"type\\\":\\\"done\\\",\\\"message\\\":\\\"ok\\\"}\"'] } }]";
    let mut mesh = Process::up(team).await;
    let agent = mesh.agent("slow-01");
    let task = agent.send(json!({ "description": "one" })).await;
    eventually("the task to begin", async || mesh.dir().join("begun").exists().then_some(())).await;
    mesh.signal("TERM");
    let refused = eventually("a refusal", async || {
        let answer = agent.post(&agent.request(json!({ "description": "two" }))).await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    is(&refused, 503, "draining");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    std::fs::write(mesh.dir().join("go"), "").unwrap();
    assert_eq!(mesh.ended().await, 0);
    let mesh = mesh.restart().await;
    assert_eq!(state(&mesh.agent("slow-01").task(&task).await), "completed");
}

#[tokio::test]
async fn a_bid_from_a_user_is_refused() {
    let mesh = Process::up(TEAM).await;
    let agent = mesh.agent("echo-01");
    let task = agent.send(json!({ "description": "x", "capability": "echo" })).await;
    let conversation = agent.task(&task).await["contextId"].clone();
    for (kind, payload) in [
        ("bid", json!({ "taskId": task, "cost": 0, "eta": 1 })),
        ("no-bid", json!({ "taskId": task, "reason": "busy" })),
        ("reject", json!({ "taskId": task, "reason": "no" })),
    ] {
        let message = json!({ "fromAgentId": "me", "toAgentId": "echo-01", "type": kind, "conversationId": conversation, "payload": payload });
        let answer = agent.post(&message).await;
        is(&answer, 403, "forbidden");
        assert!(refusal_text(&answer).contains(&format!("agents send each other {kind}")), "{answer:?}");
    }
}
