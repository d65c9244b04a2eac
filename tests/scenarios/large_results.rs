//! A payload too large for one message goes by reference between processes; one that is refused fails the task at once.

use crate::harness::{Process, artifact, cluster::Cluster, eventually, file, message, refusal, state};
use serde_json::{Value, json};

/// The lines of a result of more than one mebibyte.
const LINES: usize = 11_000;

fn line(at: usize) -> String {
    format!(
        "line {at:06} of what was written, a hundred bytes each, so that counting them is easy. .......... ++++\n"
    )
}

fn written() -> String {
    (0..LINES).map(line).collect()
}

/// A brain that writes the result once `<dir>/open` exists.
fn writer(cluster: &Cluster) -> String {
    let script = format!(
        r#"read -r line
while [ ! -e '{dir}/open' ]; do [ -d '{dir}' ] || exit 1; sleep 0.03; done
awk -v n={LINES} 'BEGIN {{
  for (i = 0; i < n; i++) {{
    if (i % 1000 == 0) printf "{{\"type\":\"artifact\",\"name\":\"big.txt\",\"append\":%s,\"text\":\"", i ? "true" : "false"
    printf "line %06d of what was written, a hundred bytes each, so that counting them is easy. .......... ++++\\n", i
    if (i % 1000 == 999) print "\"}}"
  }}
}}'
echo '{{"type":"done","message":"written"}}'
"#,
        dir = cluster.dir.path().display()
    );
    let script = file(cluster.dir.path(), "write.sh", &script);
    let brain = format!("brain: {{ exec: [sh, {}] }}", script.display());
    format!("agents:\n  - {{ agent: writer-01, skills: [write], {brain} }}\n")
}

const MANAGER: &str = "agents:\n  - { agent: manager-01, skills: [manage], brain: { echo: {} } }\n";

async fn two_processes(manager: &str) -> (Cluster, Process, Process) {
    let cluster = Cluster::start().await;
    let writer = writer(&cluster);
    let writer = cluster.node("writer", &writer).await;
    let manager = cluster.node("manager", &format!("{MANAGER}{manager}")).await;
    cluster.wait_for_agents(&["writer-01", "manager-01"]).await;
    (cluster, manager, writer)
}

fn write(task: &str) -> Value {
    json!({ "taskId": task, "description": "write", "capability": "write" })
}

fn open(cluster: &Cluster) {
    file(cluster.dir.path(), "open", "");
}

#[tokio::test]
async fn a_result_of_one_mebibyte_arrives_whole_from_another_process() {
    let (cluster, manager, _writer) = two_processes("").await;
    open(&cluster);
    let task = manager.agent("manager-01").ask(write("t-1")).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "written"), "{task:.300?}");
    let text = artifact(&task, "big.txt").unwrap();
    assert!(text.len() > 1 << 20 && text == written(), "{} bytes came", text.len());
}

#[tokio::test]
async fn a_large_result_arrives_despite_kills() {
    let (cluster, mut manager, mut writer) = two_processes("").await;
    let asked = manager.agent("manager-01");
    asked.send(write("t-1")).await;
    eventually("it is at work", async || {
        let task = writer.agent("writer-01").state().await;
        (task["running"] == 1).then_some(())
    })
    .await;
    manager.kill();
    open(&cluster);
    let waits = |state: &Value| state["outbox"]["manager-01"].as_u64() > Some(0) && state["running"] == 0;
    eventually("the result waits", async || waits(&writer.agent("writer-01").state().await).then_some(()))
        .await;
    writer.revive().await;
    eventually("it waits again", async || waits(&writer.agent("writer-01").state().await).then_some(()))
        .await;
    manager.revive().await;
    let task = manager.agent("manager-01").task_in("t-1", &["completed", "failed"]).await;
    assert_eq!(state(&task), "completed", "{task:.300?}");
    assert!(artifact(&task, "big.txt") == Some(written()));
    // The content that carried the result is deleted.
    let readers = || {
        let store = rusqlite::Connection::open(manager.data.join("store.sqlite")).unwrap();
        let mut rows =
            store.prepare("SELECT value FROM state WHERE key LIKE 'manager-01.artifact.%'").unwrap();
        let rows = rows.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap().map(Result::unwrap);
        rows.map(|row| serde_json::from_slice::<Value>(&row).unwrap()["readers"].clone()).collect::<Vec<_>>()
    };
    eventually("no reader is left", async || readers().iter().all(|all| *all == json!([])).then_some(()))
        .await;
}

#[tokio::test]
async fn a_result_that_the_requester_cannot_take_fails_the_task_at_once() {
    // No piece of the result fits into a message, and the whole is larger than an artifact.
    let small =
        "mesh: { limits: { maxBodyBytes: 65536, maxArtifactBytes: 300000 }, auction: { rounds: 1 } }\n";
    let (cluster, manager, writer) = two_processes(small).await;
    open(&cluster);
    let task = manager.agent("manager-01").ask(write("t-1")).await;
    assert_eq!(state(&task), "failed", "{task:.300?}");
    assert!(message(&task).contains("could not be handed over"), "{}", message(&task));
    assert!(message(&task).contains("300000"), "it names the limit: {}", message(&task));
    let letters = crate::harness::get(&format!("{}/a2a/dead-letters", writer.agent("writer-01").url)).await;
    assert!(letters.to_string().contains("payload_too_large"), "{letters:#}");
}

#[tokio::test]
async fn only_the_sending_agent_can_refer_to_its_payload() {
    let mesh = Process::up("agents:\n  - { agent: echo-01, skills: [echo], brain: { echo: {} } }\n").await;
    let agent = mesh.agent("echo-01");
    let put = |text: &'static str| {
        crate::harness::client().put(format!("{}/a2a/artifacts", agent.url)).body(text).send()
    };
    let put: Value = put(r#"{"description":"said by a user"}"#).await.unwrap().json().await.unwrap();
    let message = |id: &str, from: &str, reference: &Value| json!({ "messageId": id, "fromAgentId": from, "toAgentId": "echo-01", "type": "task-request", "payloadRef": reference });
    let by_user = agent.post(&message("m-1", "me", &put["sha256"])).await;
    assert_eq!(refusal(&by_user), (403, "forbidden".into()));
    let peer = mesh.client_as("peer-01");
    let foreign = peer.post(&agent, &message("m-2", "peer-01", &put["sha256"])).await;
    assert_eq!(refusal(&foreign), (404, "artifact_not_found".into()), "another's content is no payload");
    let malformed = peer.post(&agent, &message("m-3", "peer-01", &json!("xyz"))).await;
    assert_eq!(refusal(&malformed), (400, "invalid_field".into()));
    let both = crate::harness::with(message("m-4", "peer-01", &put["sha256"]), json!({ "payload": {} }));
    assert_eq!(refusal(&peer.post(&agent, &both).await), (400, "invalid_field".into()));
}
