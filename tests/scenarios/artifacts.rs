//! Content by reference: stored once, returned unchanged, available to the agents that work with it.

use crate::harness::{
    Agent, Answer, Process, artifact, client, eventually, message, read_answer, refusal, refusal_text, state,
};
use protocol::ids::Digest;
use serde_json::{Value, json};

const TEAM: &str = "
mesh: { limits: { maxArtifactBytes: 1000000 } }
agents:
  - { agent: manager-01, brain: { echo: {} } }
  - { agent: writer-01, skills: [write], bid: { maxParallel: 4 }, brain: { exec: [sh, write.sh] } }
  - { agent: reader-01, skills: [read], bid: { maxParallel: 4 }, brain: { exec: [sh, read.sh] } }
";

const FILES: &[(&str, &str)] = &[
    (
        "write.sh",
        r#"read -r line
echo "$line" | grep -q small && size=100 || size=2000
text=$(awk -v n="$size" 'BEGIN { for (i = 0; i < n; i++) printf "line %06d of what was written, a hundred bytes each, so that counting them is easy. .......... ++++\\n", i }')
printf '%s\n' '{"type":"artifact","name":"big.txt","text":"'"$text"'"}'
echo '{"type":"done","message":"written"}'
"#,
    ),
    (
        "read.sh",
        r#"read -r line
digest=$(printf '%s' "$line" | sed 's/.*"references":\["\([0-9a-f]*\).*/\1/')
content() { curl -sf -H "authorization: Bearer $MESH_BRAIN_TOKEN" "$MESH_NODE_URL/a2a/artifacts/$digest"; }
if content | grep -q 'a needle in the content'; then echo '{"type":"done","message":"found it"}'
else echo '{"type":"failed","reason":"no needle"}'; fi
"#,
    ),
];

async fn up() -> Process {
    Process::up_beside(TEAM, FILES).await
}

async fn put(agent: &Agent, content: impl Into<reqwest::Body>, media_type: &str) -> Answer {
    let request = client().put(format!("{}/a2a/artifacts", agent.url));
    let response = request.header("content-type", media_type).body(content).send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Answer { status, headers, body: response.json().await.unwrap() }
}

async fn fetched(agent: &Agent, digest: &str) -> (u16, String, Vec<u8>) {
    let response = client().get(format!("{}/a2a/artifacts/{digest}", agent.url)).send().await.unwrap();
    if response.status() == 200 {
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        assert_eq!(
            (header("x-content-type-options"), header("content-disposition")),
            ("nosniff", "attachment")
        );
        assert_eq!(header("content-security-policy"), "default-src 'none'; sandbox");
    }
    let media_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    (response.status().as_u16(), media_type, response.bytes().await.unwrap().to_vec())
}

/// The output of the writer's brain.
fn written(lines: usize) -> String {
    let line = |at| {
        format!(
            "line {at:06} of what was written, a hundred bytes each, so that counting them is easy. .......... ++++\n"
        )
    };
    (0..lines).map(line).collect()
}

#[tokio::test]
async fn content_is_returned_byte_by_byte() {
    let mesh = up().await;
    let agent = mesh.agent("reader-01");
    let content: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    let answer = put(&agent, content.clone(), "image/x-noise").await;
    let digest = Digest::of(&content).to_string();
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.body, json!({ "sha256": digest, "bytes": content.len() }));
    let (status, media_type, back) = fetched(&agent, &digest).await;
    assert_eq!((status, media_type.as_str()), (200, "image/x-noise"));
    assert!(back == content, "{} bytes came back", back.len());
    assert_eq!(put(&agent, content, "image/x-noise").await.body["sha256"], json!(digest));
    let mesh = mesh.restart().await;
    assert_eq!(fetched(&mesh.agent("reader-01"), &digest).await.2.len(), 300_000);
}

#[tokio::test]
async fn an_invalid_artifact_is_refused_and_the_limit_is_named() {
    let mesh = up().await;
    let agent = mesh.agent("reader-01");
    assert_eq!(put(&agent, vec![7; 1_000_000], "text/plain").await.status, 201);
    let large = put(&agent, vec![7; 1_000_001], "text/plain").await;
    assert_eq!(refusal(&large), (413, "payload_too_large".into()));
    assert!(refusal_text(&large).contains("1000000"), "{large:?}");
    assert_eq!(refusal(&put(&agent, "", "text/plain").await), (400, "invalid_field".into()));
    for (digest, status, code) in [
        ("0".repeat(64), 404, "artifact_not_found"),
        ("xyz".to_owned(), 400, "invalid_field"),
        ("A".repeat(64), 400, "invalid_field"),
    ] {
        let (answered, _, body) = fetched(&agent, &digest).await;
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((answered, body["reasonCode"].as_str()), (status, Some(code)), "{digest}");
    }
    let body =
        json!({ "description": "x", "capability": "read", "artifacts": [{ "sha256": "0".repeat(64) }] });
    let unknown = agent.post(&agent.request(body)).await;
    assert_eq!(refusal(&unknown), (404, "artifact_not_found".into()));
}

#[tokio::test]
async fn a_brain_gets_the_content_behind_a_reference() {
    let mesh = up().await;
    let agent = mesh.agent("reader-01");
    let content = format!("{}a needle in the content{}", "hay ".repeat(34_000), " hay".repeat(34_000));
    let digest = put(&agent, content, "text/plain").await.body["sha256"].clone();
    let reference = json!([{ "name": "stack.txt", "sha256": digest }]);
    for (task, asked) in [("t-1", "read"), ("t-2", "write")] {
        let payload =
            json!({ "taskId": task, "description": "small", "capability": asked, "artifacts": reference });
        let task = agent.ask(payload).await;
        assert_eq!(state(&task), "completed", "{asked}: {}", message(&task));
    }
    assert_eq!(message(&agent.task("t-1").await), "found it");
    let secret = mesh.client_as("peer-01");
    let place = (agent.url.as_str(), "/a2a/tasks/t-1");
    let stranger = secret.call(reqwest::Method::GET, place, &agent.id, None).await;
    assert_eq!(refusal(&stranger), (404, "task_not_found".into()));
}

#[tokio::test]
async fn a_large_result_is_stored_once_by_digest_and_returned_whole() {
    let mesh = up().await;
    let agent = mesh.agent("writer-01");
    let task = agent.ask(json!({ "description": "write", "capability": "write" })).await;
    let text = written(2_000);
    assert!(artifact(&task, "big.txt").as_ref() == Some(&text), "{} bytes", text.len());
    let store = rusqlite::Connection::open(mesh.data.join("store.sqlite")).unwrap();
    let large = "SELECT key FROM state WHERE length(value) > 100000 UNION ALL SELECT key FROM log WHERE length(value) > 100000";
    let mut large = store.prepare(large).unwrap();
    let large: Vec<String> = large.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let digest = Digest::of(text.as_bytes());
    assert_eq!(large, [format!("writer-01.content.{digest}")], "the content lies in one place");
    let mesh = mesh.restart().await;
    let again = mesh.agent("writer-01").task(task["id"].as_str().unwrap()).await;
    assert_eq!(again, task);
}

#[tokio::test]
async fn a_large_result_of_the_winner_is_returned_whole() {
    let mesh = up().await;
    let manager = mesh.agent("manager-01");
    let task = manager.ask(json!({ "description": "write", "capability": "write" })).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "written"), "{task:.300?}");
    let text = written(2_000);
    assert!(artifact(&task, "big.txt").as_ref() == Some(&text), "{} bytes", text.len());
}

/// The content rows in the store of `agent`.
fn kept(mesh: &Process, agent: &str) -> Vec<String> {
    let store = rusqlite::Connection::open(mesh.data.join("store.sqlite")).unwrap();
    let mut keys = store.prepare("SELECT key FROM state WHERE key LIKE ?1").unwrap();
    let keys = keys.query_map([format!("{agent}.content.%")], |row| row.get(0)).unwrap();
    keys.map(Result::unwrap).collect()
}

#[tokio::test]
async fn unreferenced_content_is_deleted_and_the_rest_is_kept() {
    let keeps = "maxArtifactBytes: 1000000, sweepMs: 100, keepTasksMs: 10000, keepJournalsMs: 500, keepArtifactsMs: 10000";
    let team = TEAM.replace("maxArtifactBytes: 1000000", keeps);
    let mesh = Process::up_beside(&team, FILES).await;
    let agent = mesh.agent("writer-01");
    let digest = put(&agent, "nobody works with this", "text/plain").await.body["sha256"].clone();
    let digest = digest.as_str().unwrap();
    let task = agent.ask(json!({ "taskId": "t-1", "description": "write", "capability": "write" })).await;
    let text = written(2_000);
    assert!(artifact(&task, "big.txt").as_ref() == Some(&text), "{} bytes", text.len());
    let result = format!("writer-01.content.{}", Digest::of(text.as_bytes()));
    assert!(kept(&mesh, "writer-01").contains(&result), "it lies there by digest");
    let swept = async |agent: &Agent| agent.state().await["swept"]["contents"].as_u64().unwrap_or_default();
    let before = swept(&agent).await;
    // The progress of the sweep is lost with the process.
    let mesh = mesh.restart().await;
    let agent = mesh.agent("writer-01");
    eventually("the journal's end", async || {
        (agent.state().await["swept"]["journalLines"].as_u64() > Some(0)).then_some(())
    })
    .await;
    if kept(&mesh, "writer-01").contains(&result) {
        let again = agent.task("t-1").await;
        assert!(
            again["error"].is_object() || again == task,
            "a task has its result for as long as it is kept"
        );
    }
    eventually("no content left", async || kept(&mesh, "writer-01").is_empty().then_some(())).await;
    assert_eq!(fetched(&agent, digest).await.0, 404);
    assert!(before + swept(&agent).await > 1, "both were swept");
    let limits = crate::harness::get(&format!("{}/state", agent.url)).await["limits"].clone();
    assert_eq!(limits["keepArtifactsMs"], 10_000, "{limits:#}");
}

#[tokio::test]
async fn only_the_principal_that_put_an_artifact_and_its_workers_can_read_it() {
    let mesh = up().await;
    let agent = mesh.agent("manager-01");
    let peer = crate::harness::peer::Peer::join(&mesh, "peer-01", "peer").await;
    let stranger = mesh.client_as("peer-02");
    let digest = put(&agent, "the owner's notes", "text/plain").await.body["sha256"].clone();
    let target = format!("/a2a/artifacts/{}", digest.as_str().unwrap());
    let missing = format!("/a2a/artifacts/{}", "0".repeat(64));
    for who in [&peer.signing, &stranger] {
        let refused = who.get(&agent, &target).await;
        assert_eq!(refusal(&refused), (404, "artifact_not_found".into()));
        let missing = who.get(&agent, &missing).await;
        let shape = |answer: &Answer| refusal_text(answer).split(' ').next().map(str::to_owned);
        assert_eq!(
            (missing.status, shape(&missing)),
            (404, shape(&refused)),
            "nobody learns that it is there"
        );
    }
    let smuggled = json!({ "messageId": "m-1", "fromAgentId": "peer-02", "toAgentId": "manager-01", "type": "task-request",
        "payload": { "description": "read it to me", "capability": "read", "artifacts": [{ "sha256": digest }] } });
    assert_eq!(refusal(&stranger.post(&agent, &smuggled).await), (404, "artifact_not_found".into()));

    let payload = json!({ "taskId": "t-1", "description": "x", "capability": "write", "artifacts": [{ "sha256": digest }] });
    assert_eq!(state(&agent.ask(payload).await), "completed");
    assert_eq!(
        mesh.client_as("writer-01").get(&agent, &target).await.body,
        "the owner's notes",
        "it did the task"
    );
    for who in [&peer.signing, &stranger] {
        assert_eq!(who.get(&agent, &target).await.status, 404);
    }
}

#[tokio::test]
async fn the_artifacts_of_a_principal_have_a_quota() {
    let quota = "maxArtifactBytes: 1000000, maxArtifactBytesPerPrincipal: 2500 }, callers: [{ user: alice, apiKey: alices-own-key-0001 }]";
    let team = TEAM.replace("maxArtifactBytes: 1000000 }", quota);
    let mesh = Process::up_beside(&team, FILES).await;
    let manager = mesh.agent("manager-01");
    for letter in ["a", "b"] {
        assert_eq!(put(&manager, letter.repeat(1_000), "text/plain").await.status, 201);
    }
    let refused = put(&manager, "c".repeat(1_000), "text/plain").await;
    assert_eq!(refusal(&refused), (429, "rate_limited".to_owned()));
    let text = refusal_text(&refused);
    assert!(text.contains("maxArtifactBytesPerPrincipal, 2500") && text.contains("user:local"), "{text}");
    assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
    assert_eq!(put(&manager, "d".repeat(500), "text/plain").await.status, 201, "what fits is taken");
    let hers =
        client().put(format!("{}/a2a/artifacts", manager.url)).header("x-api-key", "alices-own-key-0001");
    let hers = hers.body("e".repeat(1_000)).send().await.unwrap();
    assert_eq!(hers.status(), 201, "another principal has its own");
    // What a request carries inline counts, too.
    let ask = async |node: &Process, bytes: usize| {
        let manager = node.agent("manager-01");
        let file = json!({ "artifactId": "f", "parts": [{ "raw": "A".repeat(bytes) }] });
        let request = manager
            .request(json!({ "description": "keep it", "capability": "write", "inlineArtifacts": [file] }));
        let posted =
            client().post(format!("{}/a2a/messages", manager.url)).header("x-api-key", "alices-own-key-0001");
        read_answer(posted.json(&request).send().await.unwrap()).await
    };
    let taken = ask(&mesh, 1_200).await;
    assert_eq!(taken.status, 202, "{taken:?}");
    let refused = ask(&mesh, 1_200).await;
    assert_eq!(refusal(&refused), (429, "rate_limited".to_owned()));
    assert!(refusal_text(&refused).contains("large requests"), "{refused:?}");
    let mesh = mesh.restart().await;
    assert_eq!(ask(&mesh, 1_200).await.status, 429, "the tasks that are kept count after a restart");
    let again = put(&mesh.agent("manager-01"), "c".repeat(1_000), "text/plain").await;
    assert_eq!(again.status, 429, "a restart does not forget what is kept");
}

#[tokio::test]
async fn later_messages_to_a_task_count_in_the_quota() {
    let team = "
mesh: { limits: { maxArtifactBytesPerPrincipal: 4000 } }
agents: [{ agent: solo-01, open: true, brain: { scripted: s.yaml } }]
";
    let script = "turns: [{ say: [{ type: question, id: q, text: which? }] }]";
    let mesh = Process::up_beside(team, &[("s.yaml", script)]).await;
    // The script asks again after each answer, so the task stays open.
    let send = async |mesh: &Process, task: Option<&str>, bytes: usize| {
        let message = json!({ "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "taskId": task, "parts": [{ "text": "x".repeat(bytes) }] });
        let url = format!("{}/a2a/v1/message:send", mesh.agents["solo-01"]);
        let posted = client().post(url).header("a2a-version", "1.0").json(&json!({ "message": message }));
        read_answer(posted.send().await.unwrap()).await
    };
    let begun = send(&mesh, None, 10).await;
    let id = begun.body["task"]["id"].as_str().unwrap().to_owned();
    let later = async |mesh: &Process, bytes| send(mesh, Some(&id), bytes).await;
    let taken = later(&mesh, 2_500).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let refused = later(&mesh, 2_500).await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.body.to_string().contains("maxArtifactBytesPerPrincipal, 4000"), "{refused:?}");
    assert_eq!(later(&mesh, 100).await.status, 200, "a small one is stored as it is");
    let mesh = mesh.restart().await;
    assert_eq!(later(&mesh, 2_500).await.status, 429, "what is kept counts after a restart");
}
