//! Files of messages and results: kept beside the store, named within the mesh, and read by those who may see the task.

use crate::harness::{Agent, Process, artifact, client, cluster::Cluster, eventually, file, message, state};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::{ids::Digest, task::EXTENSION};
use serde_json::{Value, json};
use std::path::Path;

/// Says what it has got, and hands it on.
const BRAIN: &str = r#"
import base64, hashlib, json, os, sys, urllib.request
turn = json.loads(sys.stdin.readline())
parts = [part for artifact in turn["task"].get("artifacts", []) for part in artifact["parts"]]
def content(part):
    if "raw" in part:
        return base64.b64decode(part["raw"])
    headers = {"authorization": "Bearer " + os.environ["MESH_BRAIN_TOKEN"]}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(urllib.request.Request(part["url"], headers=headers)).read()
if "forge" in turn["task"]["description"]:
    forged = turn["task"]["description"].split()[-1]
    print(json.dumps({"type": "artifact", "name": "forged", "url": forged}))
elif "make" in turn["task"]["description"]:
    print(json.dumps({"type": "artifact", "name": "made", "raw": base64.b64encode(b"\xff" * 150000).decode()}))
else:
    seen = " ".join(hashlib.sha256(content(part)).hexdigest() for part in parts)
    print(json.dumps({"type": "artifact", "name": "seen", "text": seen}))
    print(json.dumps({"type": "artifact", "artifact": {"artifactId": "copy", "parts": parts}}))
print(json.dumps({"type": "done", "message": "seen"}))
"#;

const TEAM: &str = "
mesh:
  limits: { keepTasksMs: KEPT, keepJournalsMs: KEPT, keepArtifactsMs: KEPT, sweepMs: 100 }
  callers: [{ user: alice, apiKey: alices-own-key-0001 }, { user: bob, apiKey: bobs-own-key-00001 }]
agents:
  - { agent: front-01, skills: [look], brain: { exec: [python3, brain.py] } }
  - { agent: back-01, skills: [paint], brain: { exec: [python3, brain.py] } }
";

const ALICE: &str = "alices-own-key-0001";
const BOB: &str = "bobs-own-key-00001";

async fn up(kept: &str) -> Process {
    Process::up_beside(&TEAM.replace("KEPT", kept), &[("brain.py", BRAIN)]).await
}

/// Content that is no text, of this many bytes.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

fn part(content: &[u8]) -> Value {
    json!({ "raw": STANDARD.encode(content), "mediaType": "image/png", "filename": "a.png" })
}

fn message_with(text: &str, parts: Vec<Value>) -> Value {
    let parts: Vec<_> = std::iter::once(json!({ "text": text })).chain(parts).collect();
    json!({ "message": { "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": parts } })
}

async fn rpc(agent: &Agent, key: &str, method: &str, params: Value) -> (u16, Value) {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = client().post(format!("{}/a2a/rpc", agent.url)).header("a2a-version", "1.0");
    let request = if key.is_empty() { request } else { request.header("x-api-key", key) };
    let response = request.json(&body).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn task(agent: &Agent, key: &str, params: Value) -> Value {
    let (status, answer) = rpc(agent, key, "SendMessage", params).await;
    let task = answer["result"]["task"].clone();
    assert!(status == 200 && task.is_object(), "{status} {answer:.500}");
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task:.800}");
    task
}

async fn fetched(url: &str, key: &str) -> (u16, Vec<u8>) {
    let response = client().get(url).header("x-api-key", key).send().await.unwrap();
    (response.status().as_u16(), response.bytes().await.unwrap().to_vec())
}

fn found<'a>(task: &'a Value, name: &str) -> &'a Value {
    let artifacts = task["artifacts"].as_array().unwrap();
    artifacts
        .iter()
        .find(|made| made["artifactId"] == name)
        .unwrap_or_else(|| panic!("no {name}: {task:.900}"))
}

/// All files below a folder.
fn files_in(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { files_in(&path) } else { 1 })
        .sum()
}

#[tokio::test]
async fn a_file_of_ten_megabytes_reaches_the_brain_and_comes_back_by_its_url() {
    let mesh = up("100000000").await;
    let agent = mesh.agent("front-01");
    let content = noise(10_000_000);
    let digest = Digest::of(&content).to_string();
    let done = task(&agent, ALICE, message_with("look", vec![part(&content)])).await;
    assert_eq!(found(&done, "seen")["parts"][0]["text"], json!(digest));
    let mesh = mesh.restart().await;
    let agent = mesh.agent("front-01");
    let (_, got) = rpc(&agent, ALICE, "GetTask", json!({ "id": done["id"] })).await;
    let (_, listed) = rpc(&agent, ALICE, "ListTasks", json!({ "includeArtifacts": true })).await;
    for task in [&got["result"], &listed["result"]["tasks"][0]] {
        let sent = &task["history"][0]["parts"][1];
        assert_eq!((&sent["mediaType"], &sent["filename"]), (&json!("image/png"), &json!("a.png")));
        for part in [sent, &found(task, "copy")["parts"][0]] {
            let url = part["url"].as_str().unwrap_or_else(|| panic!("{part:.300}"));
            assert!(url.starts_with(&agent.url) && url.ends_with(&digest), "{url}");
            let (status, body) = fetched(url, ALICE).await;
            assert!(status == 200 && body == content, "{status}, {} bytes", body.len());
            assert_eq!(fetched(url, BOB).await.0, 404, "another caller may not");
        }
        assert!(task.to_string().len() < 20_000, "no content in it");
    }
    let shown = client().get(format!("{}/a2a/tasks/{}", agent.url, done["id"].as_str().unwrap()));
    let shown: Value = shown.header("x-api-key", ALICE).send().await.unwrap().json().await.unwrap();
    assert!(shown.to_string().contains(&digest) && !shown.to_string().contains("mesh-blob"), "{shown:.500}");
}

#[tokio::test]
async fn files_of_every_size_arrive_as_they_were_sent() {
    let mesh = up("100000000").await;
    let agent = mesh.agent("front-01");
    let sizes = [1, 24_575, 24_576, 24_577, 30_000, 32_768, 32_769, 400_000];
    let contents: Vec<_> = sizes.into_iter().map(noise).collect();
    let digests: Vec<_> = contents.iter().map(|content| Digest::of(content).to_string()).collect();
    let done =
        task(&agent, ALICE, message_with("look", contents.iter().map(|one| part(one)).collect())).await;
    assert_eq!(found(&done, "seen")["parts"][0]["text"], json!(digests.join(" ")));
    let few = message_with("look", vec![part(&contents[4])]);
    let done = task(&agent, ALICE, few).await;
    assert_eq!(found(&done, "seen")["parts"][0]["text"], json!(digests[4]));
    let many = (0..65).map(|_| part(&contents[5])).collect();
    let (_, refused) = rpc(&agent, ALICE, "SendMessage", message_with("look", many)).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("64 files"), "{refused:.300}");
}

#[tokio::test]
async fn results_have_small_files_whole() {
    let mesh = up("100000000").await;
    let agent = mesh.agent("front-01");
    let done = task(&agent, ALICE, message_with("make one", vec![])).await;
    assert_eq!(found(&done, "made")["parts"][0]["raw"], json!(STANDARD.encode([255; 150_000])));
    let (_, listed) = rpc(&agent, ALICE, "ListTasks", json!({ "includeArtifacts": true })).await;
    let url = found(&listed["result"]["tasks"][0], "made")["parts"][0]["url"].as_str().unwrap().to_owned();
    assert_eq!(fetched(&url, ALICE).await, (200, vec![255; 150_000]));
    let stream = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": message_with("make two", vec![]) });
    let request = client().post(format!("{}/a2a/rpc", agent.url)).header("a2a-version", "1.0");
    let events = request.header("x-api-key", ALICE).json(&stream).send().await.unwrap().text().await.unwrap();
    assert!(
        events.contains(&STANDARD.encode([255; 150_000])) && !events.contains("mesh-blob"),
        "{events:.500}"
    );
}

#[tokio::test]
async fn what_is_too_large_or_forged_is_refused() {
    let mesh = up("100000000").await;
    let agent = mesh.agent("front-01");
    let refused = async |params: Value| {
        let (status, answer) = rpc(&agent, ALICE, "SendMessage", params).await;
        (
            status,
            answer["error"]["message"]
                .as_str()
                .unwrap_or_else(|| panic!("{status} {answer:.300}"))
                .to_owned(),
        )
    };
    let large = refused(message_with("look", vec![part(&noise((10 << 20) + 1))])).await;
    assert!(large.1.contains("10485760"), "{large:?}");
    let text = refused(message_with(&"x".repeat(400_000), vec![])).await;
    assert!(text.1.contains("262144"), "{text:?}");
    let elsewhere = json!({ "data": { "raw": STANDARD.encode(noise(400_000)) } });
    assert!(refused(message_with("look", vec![elsewhere])).await.1.contains("262144"));
    let bad = json!({ "raw": "*".repeat(400_000) });
    assert!(refused(message_with("look", vec![bad])).await.1.contains("base64"));
    let of_alice = noise(100_000);
    task(&agent, ALICE, message_with("look", vec![part(&of_alice)])).await;
    let name = format!("mesh-blob:{}/100000", Digest::of(&of_alice));
    assert!(
        refused(message_with("look", vec![json!({ "url": name })])).await.1.contains("inside of the mesh")
    );
    // A brain can't name what its agent was not given by its own work.
    let forged = task(&agent, BOB, message_with(&format!("forge {name}"), vec![])).await;
    assert_eq!(found(&forged, "forged")["parts"][0]["text"], "[a file that is not here]");
    let made = task(&agent, BOB, message_with("make one", vec![])).await;
    assert!(found(&made, "made")["parts"][0]["raw"].is_string());
    let name = format!("http://x.example/a2a/artifacts/{}", Digest::of(&[255; 150_000]));
    let forged = task(&agent, ALICE, message_with(&format!("forge {name}"), vec![])).await;
    assert_eq!(found(&forged, "forged")["parts"][0]["url"], json!(name), "no file of the agent");
    eventually("no draft is left", async || {
        (files_in(&mesh.data.join("blobs").join("drafts")) == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_file_goes_to_another_agent_of_the_process_and_to_another_process() {
    let mesh = up("100000000").await;
    let content = noise(3_000_000);
    let digest = Digest::of(&content).to_string();
    let front = mesh.agent("front-01");
    let mut asked = message_with("paint", vec![part(&content)]);
    asked["message"]["metadata"] = json!({ EXTENSION: { "capability": "paint" } });
    let done = task(&front, ALICE, asked).await;
    assert_eq!(found(&done, "seen")["parts"][0]["text"], json!(digest));
    // A text that looks like the name of a file is a text.
    let mut quoting = message_with(&format!("paint mesh-blob:{}/5", "0".repeat(64)), vec![]);
    quoting["message"]["metadata"] = json!({ EXTENSION: { "capability": "paint" } });
    task(&front, ALICE, quoting).await;
    // The same bytes may be a text and a file.
    let table = "a,b,c\n".repeat(8_000);
    let mut both =
        message_with(&format!("paint {table}"), vec![json!({ "text": table }), part(table.as_bytes())]);
    both["message"]["metadata"] = json!({ EXTENSION: { "capability": "paint" } });
    let tabled = task(&front, ALICE, both).await;
    assert_eq!(found(&tabled, "seen")["parts"][0]["text"], json!(Digest::of(table.as_bytes()).to_string()));
    let url = found(&done, "copy")["parts"][0]["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&front.url), "{url}");
    assert!(fetched(&url, ALICE).await.1 == content);

    let cluster = Cluster::start().await;
    let script = file(cluster.dir.path(), "brain.py", BRAIN);
    let brain = format!("brain: {{ exec: [python3, {}] }}", script.display());
    let mut worker = cluster
        .node("worker", &format!("agents:\n  - {{ agent: worker-01, skills: [paint], {brain} }}\n"))
        .await;
    let asking = "agents:\n  - { agent: asking-01, skills: [ask], brain: { echo: {} } }\n";
    let manager = cluster.node("manager", asking).await;
    cluster.wait_for_agents(&["worker-01", "asking-01"]).await;
    let asking = manager.agent("asking-01");
    let put = client().put(format!("{}/a2a/artifacts", asking.url)).header("content-type", "image/png");
    assert_eq!(put.body(content.clone()).send().await.unwrap().status(), 201);
    let artifacts = json!([{ "name": "a.png", "sha256": digest }]);
    let body =
        json!({ "taskId": "t-1", "description": "paint", "capability": "paint", "artifacts": artifacts });
    worker.kill();
    asking.send(body).await;
    worker.revive().await;
    let done = asking.task_in("t-1", &["completed", "failed"]).await;
    assert_eq!((state(&done).as_str(), message(&done).as_str()), ("completed", "seen"), "{done:.900}");
    assert_eq!(artifact(&done, "seen"), Some(digest.clone()));
    let url = found(&done, "copy")["parts"][0]["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&asking.url), "{url}");
    let back = client().get(url).send().await.unwrap().bytes().await.unwrap();
    assert!(back == content, "{} bytes", back.len());
    let mut asked = message_with("paint", vec![part(table.as_bytes())]);
    asked["message"]["metadata"] = json!({ EXTENSION: { "capability": "paint" } });
    let done = task(&asking, "", asked).await;
    assert_eq!(found(&done, "seen")["parts"][0]["text"], json!(Digest::of(table.as_bytes()).to_string()));
}

#[tokio::test]
async fn a_file_is_gone_when_its_task_is() {
    let mesh = up("1500").await;
    let agent = mesh.agent("front-01");
    task(&agent, ALICE, message_with("look", vec![part(&noise(100_000))])).await;
    let blobs = mesh.data.join("blobs");
    assert!(files_in(&blobs) > 0);
    eventually("the file is deleted", async || (files_in(&blobs) == 0).then_some(())).await;
}
