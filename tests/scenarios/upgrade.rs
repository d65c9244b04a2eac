//! A new version of the program goes on with the work that the version before has left open. `tests/upgrade` has a data directory
//! with work in every phase, and in `work.json` what that work is and how it must end.

use crate::harness::{Process, artifact, directory, eventually, get, is_success, message, state};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, process::Command};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// What the newest version before this one has left.
const FIXTURE: &str = "v12.tar.gz";

/// Where the fixture's webhook calls. No other program uses this address of the loopback network.
const WEBHOOK: &str = "127.37.10.9:9037";

const EXTENSION: &str = protocol::task::EXTENSION;

/// A task of the fixture.
#[derive(Deserialize)]
struct Work {
    task: String,
    agent: String,
    /// What it was doing when the version before was killed.
    phase: String,
    /// What its owner says once it asks.
    answer: Option<Value>,
    /// A part of the message it ends with.
    #[serde(default)]
    message: String,
    #[serde(default)]
    artifacts: BTreeMap<String, String>,
    doer: Option<String>,
}

/// Unpacks the fixture into `dir`.
fn unpack(dir: &Path) -> Vec<Work> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/upgrade");
    let mut unpack = Command::new("python3");
    let unpack = unpack.arg(fixtures.join("unpack")).arg(fixtures.join(FIXTURE)).arg(dir);
    assert!(unpack.status().unwrap().success());
    serde_json::from_slice(&std::fs::read(dir.join("work.json")).unwrap()).unwrap()
}

/// Takes the calls of the webhook until one says that its task is completed.
async fn hear_of_the_end(listener: TcpListener) {
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (mut text, mut chunk) = (String::new(), [0; 4096]);
        while !text.contains("\r\n\r\n{") || !text.ends_with('}') {
            let read = socket.read(&mut chunk).await.unwrap();
            assert!(read > 0, "the caller left: {text}");
            text += &String::from_utf8_lossy(&chunk[..read]);
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        socket.write_all(answer).await.unwrap();
        if text.contains("TASK_STATE_COMPLETED") {
            return;
        }
    }
}

async fn answer(mesh: &Process, work: &Work, body: &Value) {
    let agent = mesh.agent(&work.agent);
    let what = format!("a question of {}", work.task);
    let question = eventually(&what, async || {
        let task = agent.task(&work.task).await;
        task["metadata"][EXTENSION]["questions"][0]["id"].as_str().map(str::to_owned)
    });
    let mut body = body.clone();
    body["questionId"] = json!(question.await);
    let answer = agent.call_on_task(Method::POST, &work.task, "/answer", Some(&body)).await;
    assert!(is_success(answer.status), "{}: {answer:?}", work.task);
}

async fn ends_well(mesh: &Process, work: &Work) {
    let Work { task: id, phase, .. } = work;
    let task = mesh.agent(&work.agent).task_in(id, &["completed", "failed", "canceled", "rejected"]).await;
    assert_eq!(state(&task), "completed", "{id}, {phase}: {task:#}");
    assert!(message(&task).contains(&work.message), "{id}, {phase}: {task:#}");
    for (name, text) in &work.artifacts {
        assert_eq!(artifact(&task, name).as_ref(), Some(text), "{id}, {phase}: {task:#}");
    }
    if let Some(doer) = &work.doer {
        assert_eq!(task["metadata"][EXTENSION]["doer"], doer.as_str(), "{id}, {phase}: {task:#}");
    }
}

async fn entries(mesh: &Process, query: &str) -> Vec<String> {
    let url = format!("{}/board/spaces/default/entries?{query}", mesh.url);
    let page = mesh.call_as_person(Method::GET, &url, None).await.body;
    let entries = page["entries"].as_array().unwrap_or_else(|| panic!("{page:#}"));
    entries.iter().map(|entry| entry["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn all_open_work_of_the_version_before_goes_on_and_ends_well() {
    let dir = directory();
    let at = dir.path().to_owned();
    let all = unpack(&at);
    let webhook = tokio::spawn(hear_of_the_end(TcpListener::bind(WEBHOOK).await.unwrap()));
    let args = ["up", "--port", "0", &at.join("team.yaml").to_string_lossy()].map(str::to_owned).to_vec();
    let mesh = Process::run(at.join("data"), args, Some(dir)).await;
    for Work { task: id, agent, phase, .. } in &all {
        let task = mesh.agent(agent).task(id).await;
        let is_open =
            ["submitted", "working", "input_required", "completed"].contains(&state(&task).as_str());
        assert!(is_open, "{id}, {phase}: {task:#}");
    }
    std::fs::write(at.join("open"), "").unwrap();
    for work in &all {
        if let Some(said) = &work.answer {
            answer(&mesh, work, said).await;
        }
    }
    for work in &all {
        ends_well(&mesh, work).await;
    }
    for subject in ["held", "asked"] {
        mesh.signal_where("acme.seen", |signal| signal["subject"] == subject).await;
    }
    webhook.await.unwrap();
    let doer = mesh.agent("doer-01");
    eventually("the delivery of the dead letter", async || {
        let letters = get(&format!("{}/a2a/dead-letters", doer.url)).await;
        (letters["deadLetters"] == json!([])).then_some(())
    })
    .await;
    for id in mesh.agents.keys() {
        eventually(&format!("no open conversation at {id}"), async || {
            (mesh.agent(id).state().await["conversations"] == json!({})).then_some(())
        })
        .await;
        let ready = get(&format!("{}/readyz", mesh.agents[id])).await;
        assert!(ready.get("parked").is_none(), "{ready:#}");
    }

    // What had ended before is shown as it was, and so is what a task did before the upgrade.
    let finished = doer.task("t-finished").await;
    assert_eq!((state(&finished).as_str(), message(&finished).as_str()), ("completed", "finished before"));
    assert_eq!(artifact(&finished, "old.txt").as_deref(), Some("made before"));
    for (agent, task) in
        [("doer-01", "t-finished"), ("doer-01", "t-checkpoints"), ("manager-01", "t-awarded")]
    {
        let (code, shown, errors) = mesh.as_person(&["trace", task, "--at", &mesh.agents[agent]]).await;
        assert!(code == 0 && shown.contains(agent), "{task}: {shown} {errors}");
    }
    assert_eq!(entries(&mesh, "kind=decision").await, ["Use SQLite."]);
    assert_eq!(entries(&mesh, "kind=finding").await, ["port 80 is taken"]);
    assert_eq!(entries(&mesh, "kind=proposal&status=pending").await.len(), 2);
    let log = mesh.log();
    for problem in ["rules_changed", "panicked", "can't be read"] {
        assert!(!log.contains(problem), "{log}");
    }
}
