//! The process of an agent speaks for itself over plain HTTP: curl and a page of Python, with the token of the agent.

use crate::harness::{
    Answer, Process, call, directory,
    documentation::{blocks, section, shell, success},
    eventually, file, get, message, refusal, state,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
};

const DOCS: &str = include_str!("../../docs/your-own-agents.md");

const TEAM: &str = r#"
agents:
  - agent: painter-01
    skills: [paint]
    brain: { peer: {} }
  - agent: painter-02
    skills: [paint]
    bid: { cost: 9, eta: 1h }
    brain: { echo: {} }
  - agent: reviewer-01
    skills: [code-review]
    brain: { echo: {} }
  - agent: desk-01
    skills: [desk]
    brain: { echo: {} }
"#;

fn page() -> &'static str {
    section(DOCS, "Any language, over plain HTTP")
}

/// The output lines of a process that runs until it is dropped.
struct Lines {
    child: Child,
    lines: Receiver<String>,
}

impl Lines {
    fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok).filter(|line| !line.trim().is_empty()) {
                drop(sender.send(line));
            }
        });
        Self { child, lines }
    }

    /// The next turn.
    async fn turn(&self) -> Value {
        let line = eventually("a turn", async || self.lines.try_recv().ok()).await;
        serde_json::from_str(line.strip_prefix("data: ").unwrap_or(&line)).unwrap()
    }

    async fn ended(&mut self) {
        let child = std::sync::Mutex::new(&mut self.child);
        eventually("the end of a stream", async || child.lock().unwrap().try_wait().unwrap()).await;
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The process of painter-01, which calls with curl.
struct Painter {
    node: String,
    token: String,
}

impl Painter {
    async fn of(mesh: &Process) -> Self {
        let (code, token, errors) = mesh.as_person(&["token", "agent", "painter-01"]).await;
        assert_eq!(code, 0, "{errors}");
        assert!(errors.is_empty() && token.starts_with("mesh-peer-"), "{errors}");
        Self { node: mesh.agents["painter-01"].clone(), token: token.trim().to_owned() }
    }

    fn curl(&self, args: &[&str], path: &str) -> Command {
        let mut command = Command::new("curl");
        let token = format!("authorization: Bearer {}", self.token);
        command.args(["-sN", "-H", &token]).args(args).arg(format!("{}{path}", self.node));
        command
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let body = body.map(Value::to_string);
        let mut args = vec!["-X", method, "-w", "\n%{http_code}"];
        args.extend(body.iter().flat_map(|body| ["--json", body]));
        let output = self.curl(&args, path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        let body = serde_json::from_str(body).unwrap_or(Value::String(body.to_owned()));
        Answer { status: status.parse().unwrap(), headers: Default::default(), body }
    }

    fn register(&self, body: Value) -> Answer {
        self.call("PUT", "/a2a/peer", Some(&body))
    }

    fn stream(&self) -> Lines {
        Lines::of(self.curl(&[], "/a2a/peer/turns"))
    }

    fn answer(&self, turn: &Value, mut line: Value) -> Answer {
        line["key"] = turn["key"].clone();
        self.call("POST", "/a2a/peer/lines", Some(&line))
    }

    fn done(&self, turn: &Value) {
        let line = json!({ "type": "done", "message": format!("painted {}", turn["task"]["description"]) });
        let answer = self.answer(turn, line);
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    fn send(&self, to: &str, payload: Value) -> String {
        let message = json!({ "toAgentId": to, "type": "task-request", "key": null, "payload": payload });
        let answer = self.call("POST", "/a2a/messages", Some(&message));
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.body["taskId"].as_str().unwrap().to_owned()
    }

    async fn task_in(&self, id: &str, expected: &str) -> Value {
        eventually(&format!("task {id} {expected}"), async || {
            let task = self.call("GET", &format!("/a2a/tasks/{id}"), None).body;
            (state(&task) == expected).then_some(task)
        })
        .await
    }
}

/// Waits until the registry shows why painter-01 waits, or with an empty text that it does not.
async fn waits_for(mesh: &Process, why: &str) {
    eventually(&format!("painter-01 waits: {why:?}"), async || {
        let agents = get(&format!("{}/registry/agents", mesh.url)).await;
        let agents = agents["agents"].as_array().cloned().unwrap_or_default();
        let entry = agents.iter().find(|entry| entry["card"]["agentId"] == "painter-01")?.clone();
        let shown = entry["card"]["waitsFor"].as_str().unwrap_or_default();
        let is_shown = if why.is_empty() { shown.is_empty() } else { shown.contains(why) };
        (is_shown && entry["accepting"] == why.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_curls_of_the_documentation_run_as_shown() {
    let mesh = Process::up(blocks(page(), "yaml")[0]).await;
    let (dir, person) = (directory(), mesh.person());
    let envs = person.each_ref().map(|(name, value)| (*name, value.as_str()));
    let node = mesh.agents["painter-01"].trim_start_matches("http://").to_owned();
    let lines: Vec<_> = blocks(page(), "sh").iter().flat_map(|block| block.lines()).collect();
    let lines: Vec<_> = lines.iter().map(|line| line.replace("localhost:8001", &node)).collect();
    let [token, register, turns, answer, send] = lines.try_into().unwrap();
    success(dir.path(), &token, &envs);
    let card: Value = serde_json::from_str(&success(dir.path(), &register, &envs)).unwrap();
    assert_eq!((&card["card"]["skills"][0]["id"], &card["heartbeatMs"]), (&json!("paint"), &json!(2_000)));
    waits_for(&mesh, "").await;

    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {turns}")]).current_dir(dir.path());
    let stream = Lines::of(command);
    let task = mesh.agent("painter-01").send(json!({ "description": "a cat", "capability": "paint" })).await;
    let turn = stream.turn().await;
    assert_eq!(turn["task"]["description"], "a cat");
    success(dir.path(), &answer.replace("painter-01:…:1:0", turn["key"].as_str().unwrap()), &envs);
    let task = mesh.agent("painter-01").task_in(&task, &["completed"]).await;
    assert_eq!(message(&task), "a painted cat");

    let task: Value = serde_json::from_str(&success(dir.path(), &send, &envs)).unwrap();
    assert_eq!(state(&task), "completed", "{task:#}");
    assert!(task.to_string().contains("Is it good?"), "its echo: {task:#}");
    assert!(!shell(dir.path(), "grep mesh-peer- data/log", &[]).status.success());
    assert!(!mesh.log().contains(std::fs::read_to_string(dir.path().join("painter.token")).unwrap().trim()));
}

/// The page of Python with the token of `painter`.
fn python(dir: &Path, painter: &Painter) -> Lines {
    let program = blocks(page(), "python")[0];
    assert!(program.lines().count() <= 45 && !program.contains("mesh_agent"), "{program}");
    let program = file(dir, "painter.py", program);
    let mut command = Command::new("python3");
    command.arg(program).env("NODE", &painter.node).env("TOKEN", &painter.token).stderr(Stdio::null());
    Lines::of(command)
}

#[tokio::test]
async fn the_page_of_python_wins_by_its_card_and_sends_within_its_only_turn() {
    let (mesh, dir) = (Process::up(TEAM).await, directory());
    waits_for(&mesh, "its peer has not registered yet").await;
    let asked = json!({ "description": "a dog", "capability": "paint" });
    let task = mesh.agent("reviewer-01").ask(asked.clone()).await;
    assert_eq!(message(&task), "echoed what was said", "painter-01 takes no work yet: {task:#}");

    let painter = Painter::of(&mesh).await;
    let _python = python(dir.path(), &painter);
    waits_for(&mesh, "").await;
    // What the others know follows the registry.
    let task = eventually("an award to painter-01", async || {
        let task = mesh.agent("desk-01").ask(asked.clone()).await;
        message(&task).contains("a painting of").then_some(task)
    })
    .await;
    assert_eq!(message(&task), "a painting of a dog; the view of others: echoed what was said");
    // What is sent within a turn has the path of its task, so agents that ask each other make no loop.
    let task = mesh.agent("reviewer-01").ask(asked.clone()).await;
    assert!(message(&task).contains("reviewer-01: it is on the path of this task"), "{task:#}");
    let help = json!({ "fromAgentId": "me", "toAgentId": "painter-01", "messageId": "h-1", "type": "help-request", "payload": { "question": "a cow" } });
    assert_eq!(mesh.agent("painter-01").post(&help).await.status, 202);
    eventually("the answer to a question", async || {
        let asked = get(&format!("{}/a2a/messages/h-1", painter.node)).await;
        asked["outcome"].to_string().contains("a painting of a cow").then_some(())
    })
    .await;
    assert_eq!(painter.call("DELETE", "/a2a/peer", None).status, 204);
    // The page registers with its next heartbeat.
    waits_for(&mesh, "").await;
}

const ASKING: &str = r#"
turns:
  - when: { capability: choose, turn: 1 }
    say: [{ type: question, id: color, text: "Red or blue?" }]
  - when: { capability: choose, turn: 2 }
    end: { done: chosen }
  - when: { capability: hold }
    end: hang
"#;

#[tokio::test]
async fn a_killed_node_keeps_the_token_the_turn_and_what_the_process_has_sent() {
    let team = format!(
        "{TEAM}  - agent: clerk-01\n    skills: [choose, hold]\n    bid: {{ maxParallel: 9 }}\n    brain: {{ scripted: answers.yaml }}\n"
    );
    let mesh = Process::up_beside(&team, &[("answers.yaml", ASKING)]).await;
    let painter = Painter::of(&mesh).await;
    assert_eq!(painter.register(json!({ "skills": ["paint", "draw"] })).status, 200);
    let stream = painter.stream();
    let painted = mesh.agent("painter-01").send(json!({ "description": "a cat" })).await;
    let turn = stream.turn().await;
    let note = painter.answer(&turn, json!({ "type": "checkpoint", "data": "half" }));
    assert_eq!(note.status, 204, "{note:?}");
    let chosen = painter.send("capability:choose", json!({ "taskId": "t-choose", "description": "a color" }));
    painter.task_in(&chosen, "input_required").await;

    let mesh = mesh.restart().await;
    let painter = Painter { node: mesh.agents["painter-01"].clone(), ..painter };
    waits_for(&mesh, "its peer has not registered yet").await;
    let early = painter.call("POST", "/a2a/peer/heartbeat", None);
    assert_eq!(refusal(&early), (409, "peer_not_registered".to_owned()));
    assert_eq!(painter.register(json!({})).body["card"]["skills"][0]["id"], "paint", "of the file");
    assert_eq!(painter.call("POST", "/a2a/peer/heartbeat", None).status, 204);
    let stream = painter.stream();
    let again = stream.turn().await;
    assert_eq!((&again["key"], &again["checkpoints"]), (&turn["key"], &json!(["half"])), "{again:#}");
    painter.done(&again);
    let painted = mesh.agent("painter-01").task_in(&painted, &["completed"]).await;
    assert_eq!(message(&painted), "painted \"a cat\"");

    let task = painter.task_in(&chosen, "input_required").await;
    assert!(message(&task).contains("Red or blue?"), "{task:#}");
    let answer = painter.call("POST", "/a2a/tasks/t-choose/answer", Some(&json!({ "text": "red" })));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(message(&painter.task_in(&chosen, "completed").await), "chosen");
    let held = painter.send("clerk-01", json!({ "description": "hold it", "capability": "hold" }));
    painter.task_in(&held, "working").await;
    let cancel =
        painter.call("POST", &format!("/a2a/tasks/{held}/cancel"), Some(&json!({ "reason": "late" })));
    assert_eq!(cancel.status, 200, "{cancel:?}");
    painter.task_in(&held, "canceled").await;
    eventually("the end at the doer", async || {
        (mesh.agent("clerk-01").state().await["running"] == 0).then_some(())
    })
    .await;
    let repeated = json!({ "messageId": "m-1", "toAgentId": "nobody-01", "type": "task-request", "payload": { "description": "x" } });
    let first = painter.call("POST", "/a2a/messages", Some(&repeated));
    let second = painter.call("POST", "/a2a/messages", Some(&repeated));
    assert_eq!((first.status, second.status), (202, 200), "{first:?} {second:?}");
    assert_eq!(first.body["taskId"], second.body["taskId"]);
    let failed = painter.task_in(first.body["taskId"].as_str().unwrap(), "failed").await;
    assert!(message(&failed).contains("nobody-01"), "{failed:#}");
}

#[tokio::test]
async fn a_silent_process_is_shown_as_waiting_and_its_work_goes_on_when_it_is_back() {
    let mesh = Process::up(TEAM).await;
    let painter = Painter::of(&mesh).await;
    assert_eq!(painter.register(json!({ "cost": 0.1, "eta": "1s" })).status, 200);
    let stream = painter.stream();
    let task = mesh.agent("painter-01").send(json!({ "description": "a cat" })).await;
    let first = stream.turn().await;
    drop(stream);
    waits_for(&mesh, "its peer is silent since").await;
    mesh.agent("painter-01").task_in(&task, &["working"]).await;
    let late = painter.answer(&first, json!({ "type": "done", "message": "too late" }));
    assert_eq!(refusal(&late), (404, "turn_not_found".to_owned()));
    let other = mesh.agent("reviewer-01").ask(json!({ "description": "a dog", "capability": "paint" })).await;
    assert_eq!(message(&other), "echoed what was said", "painter-02 has it: {other:#}");

    assert_eq!(painter.call("POST", "/a2a/peer/heartbeat", None).status, 204);
    waits_for(&mesh, "").await;
    let stream = painter.stream();
    let again = stream.turn().await;
    assert_ne!(again["key"], first["key"], "another turn");
    painter.done(&again);
    let task = mesh.agent("painter-01").task_in(&task, &["completed"]).await;
    assert_eq!(message(&task), "painted \"a cat\"");
    assert_eq!(painter.call("DELETE", "/a2a/peer", None).status, 204);
    waits_for(&mesh, "its peer has said goodbye").await;
}

#[tokio::test]
async fn a_later_stream_replaces_the_earlier_one_and_bad_lines_change_nothing() {
    let mesh = Process::up(TEAM).await;
    let painter = Painter::of(&mesh).await;
    let unregistered = painter.call("GET", "/a2a/peer/turns", None);
    assert_eq!(refusal(&unregistered), (409, "peer_not_registered".to_owned()));
    assert_eq!(painter.register(json!({ "maxParallel": 2 })).status, 200);
    let mut first = painter.stream();
    let task = mesh.agent("painter-01").send(json!({ "description": "a cat" })).await;
    let turn = first.turn().await;
    let second = Lines::of(painter.curl(&["-H", "accept: text/event-stream"], "/a2a/peer/turns"));
    first.ended().await;
    assert_eq!(second.turn().await["key"], turn["key"], "the open turn again");
    let other = mesh.agent("painter-01").send(json!({ "description": "a dog" })).await;
    let next = second.turn().await;
    assert_eq!(next["task"]["description"], "a dog", "two at once: {next:#}");

    for (key, reason) in
        [(None, (400, "invalid_field")), (Some("painter-01:none:1:0"), (404, "turn_not_found"))]
    {
        let mut message =
            json!({ "toAgentId": "reviewer-01", "type": "task-request", "payload": { "description": "x" } });
        if let Some(key) = key {
            message["key"] = json!(key);
        }
        let answer = painter.call("POST", "/a2a/messages", Some(&message));
        assert_eq!(refusal(&answer), (reason.0, reason.1.to_owned()), "{answer:?}");
    }
    for (line, reason) in [
        (json!({ "type": "shout", "key": turn["key"] }), (400, "invalid_field")),
        (json!({ "type": "wait" }), (400, "invalid_field")),
        (json!({ "type": "wait", "key": "painter-01:none:1:0" }), (404, "turn_not_found")),
    ] {
        let answer = painter.call("POST", "/a2a/peer/lines", Some(&line));
        assert_eq!(refusal(&answer), (reason.0, reason.1.to_owned()), "{line}");
    }
    let (key, lines) = (&turn["key"], "application/x-ndjson");
    let body = format!(
        "{}\n{}\n",
        json!({ "type": "artifact", "name": "a.txt", "text": "hello", "key": key }),
        json!({ "type": "done", "key": key })
    );
    let header = format!("content-type: {lines}");
    let sent =
        painter.curl(&["-H", &header, "--data-binary", &body, "-w", "%{http_code}"], "/a2a/peer/lines");
    let sent = { sent }.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&sent.stdout), "204");
    painter.done(&next);
    mesh.agent("painter-01").task_in(&other, &["completed"]).await;
    let task = mesh.agent("painter-01").task_in(&task, &["completed"]).await;
    assert_eq!(crate::harness::artifact(&task, "a.txt").as_deref(), Some("hello"), "{task:#}");

    // A turn that asks another agent goes on with its answer.
    let task = mesh.agent("painter-01").send(json!({ "description": "a fox" })).await;
    let turn = second.turn().await;
    let help = json!({ "type": "help", "id": "h", "capability": "code-review", "question": "good?" });
    assert_eq!(painter.answer(&turn, help).status, 204);
    assert_eq!(painter.answer(&turn, json!({ "type": "wait" })).status, 204);
    let turn = second.turn().await;
    assert_eq!((&turn["turn"], &turn["answers"][0]["ok"]), (&json!(2), &json!(true)), "{turn:#}");
    painter.done(&turn);
    mesh.agent("painter-01").task_in(&task, &["completed"]).await;
}

#[tokio::test]
async fn a_token_is_good_for_its_agent_at_its_node_only_until_there_is_another() {
    let dir = directory();
    let brain = format!(
        "#!/bin/sh\nread -r ask\necho \"$MESH_BRAIN_TOKEN\" > {}/token\necho '{{\"type\":\"done\",\"message\":\"m\"}}'\n",
        dir.path().display()
    );
    let brain = file(dir.path(), "brain.sh", &brain);
    let team = format!("{TEAM}  - agent: shell-01\n    brain: {{ exec: [sh, {}] }}\n", brain.display());
    let (mesh, elsewhere) = (Process::up(&team).await, Process::up(TEAM).await);
    let painter = Painter::of(&mesh).await;
    assert_eq!(painter.register(json!({})).status, 200);
    let abroad = Painter { node: elsewhere.agents["painter-01"].clone(), token: painter.token.clone() };
    assert_eq!(refusal(&abroad.register(json!({}))), (401, "unauthenticated".to_owned()));
    let services = Painter { node: elsewhere.url.clone(), token: painter.token.clone() };
    assert_eq!(services.call("GET", "/registry/agents", None).status, 401);

    for (method, path) in
        [("GET", "/state"), ("GET", "/a2a/dead-letters"), ("POST", "/a2a/rpc"), ("POST", "/a2a/peer/token")]
    {
        assert_eq!(painter.call(method, path, Some(&json!({}))).status, 403, "{method} {path}");
    }
    assert_eq!(painter.call("GET", "/a2a/card", None).body["agentId"], "painter-01");
    mesh.agent("shell-01").ask(json!({ "description": "x" })).await;
    let token = std::fs::read_to_string(dir.path().join("token")).unwrap().trim().to_owned();
    let shell = Painter { node: painter.node.clone(), token };
    let message =
        json!({ "toAgentId": "reviewer-01", "type": "task-request", "payload": { "description": "x" } });
    for (method, path, body) in [
        ("PUT", "/a2a/peer", json!({})),
        ("GET", "/a2a/peer/turns", json!({})),
        ("POST", "/a2a/messages", message.clone()),
    ] {
        assert_eq!(refusal(&shell.call(method, path, Some(&body))), (403, "forbidden".to_owned()), "{path}");
    }
    let nobody = call(Method::PUT, &format!("{}/a2a/peer", painter.node), Some(&json!({}))).await;
    assert_eq!(refusal(&nobody), (403, "forbidden".to_owned()), "the local user is no peer");
    let made = call(
        Method::POST,
        &format!("{}/a2a/peer/token", painter.node),
        Some(&json!({ "agentId": "painter-01" })),
    )
    .await;
    assert_eq!(refusal(&made), (403, "forbidden".to_owned()), "without the person's token");

    let own = mesh.agents["reviewer-01"].clone();
    for (body, field) in [
        (json!({ "endpoint": "http://192.0.2.1:9000/" }), "endpoint"),
        (json!({ "endpoint": "http://example.org/" }), "endpoint"),
        (json!({ "endpoint": own }), "endpoint"),
        (json!({ "skills": [{ "id": "no space" }] }), "skills[0].id"),
    ] {
        let answer = painter.register(body.clone());
        assert_eq!(refusal(&answer), (400, "invalid_field".to_owned()), "{body}");
        assert_eq!(answer.body["error"]["details"][0]["metadata"]["field"], field, "{answer:?}");
    }
    let as_other = json!({ "fromAgentId": "reviewer-01", "toAgentId": "painter-02", "type": "task-request", "payload": { "description": "x" } });
    for (body, reason) in [
        (as_other, (403, "sender_not_proven")),
        (
            json!({ "toAgentId": "reviewer-01", "type": "task-cancel", "payload": { "taskId": "t" } }),
            (403, "forbidden"),
        ),
        (
            json!({ "toAgentId": "reviewer-01", "type": "task-request", "payload": { "description": "x", "acceptedModes": ["a/b"] } }),
            (400, "invalid_field"),
        ),
    ] {
        let answer = painter.call("POST", "/a2a/messages", Some(&body));
        assert_eq!(refusal(&answer), (reason.0, reason.1.to_owned()), "{body}");
    }

    let (code, _, errors) = mesh.as_person(&["token", "agent", "reviewer-01"]).await;
    assert!(code != 0 && errors.contains("brain: { peer: {} }"), "{code}: {errors}");
    let second = Painter::of(&mesh).await;
    waits_for(&mesh, "new token").await;
    assert_eq!(refusal(&painter.register(json!({}))), (401, "unauthenticated".to_owned()));
    assert_eq!(second.register(json!({})).status, 200);
    let kept = std::fs::read_to_string(mesh.data.join("keys/painter-01.peer")).unwrap();
    assert!(!kept.contains(&second.token) && !mesh.log().contains(&second.token));
}
