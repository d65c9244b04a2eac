//! A service as a brain: its answer is a stream of lines, checkpoints are acknowledged, and failures that pass are waited for.

use crate::harness::{Process, call, client, directory, eventually, file, message, state};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

const DOCS: &str = include_str!("../../docs/brain-protocol.md");
const SECRET: &str = "a secret of the service";

/// What a turn does is said by the word of its task. `seen` gets a line for each request and each closed connection.
const SERVICE: &str = r#"
import base64, hashlib, hmac, json, os, threading, time, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["BRAIN_SECRET"].encode()
recorded, tries, change = {}, {}, threading.Condition()

def see(text):
    with open("seen", "a") as seen:
        seen.write(text + "\n")

class Turns(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        line = json.loads(body)
        key, task = line["key"], line["key"].rsplit(":", 2)[0]
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
        token = hmac.new(SECRET, b"task " + task.encode(), hashlib.sha256).digest()
        token = base64.urlsafe_b64encode(token).decode().rstrip("=")
        good = self.headers["webhook-signature"] == "v1," + digest
        good = good and self.headers["authorization"] == "Bearer " + token
        see(f"{line['type']} {'signed' if good else 'forged'} {self.headers['mesh-outbound'] is not None}")
        if line["type"] == "recorded":
            with change:
                recorded[key] = line["checkpoints"]
                change.notify_all()
            self.send_response(204)
            self.end_headers()
            return
        word, self.reference = line["task"]["description"], line["task"].get("descriptionRef")
        if self.reference:
            word = "large"
        tries[task] = tries.get(task, 0) + 1
        if tries[task] <= {"busy": 1, "outage": 5}.get(word, 0):
            self.send_response(503)
            self.send_header("retry-after", "1" if word == "busy" else "0")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        is_stream = word != "lines"
        self.send_response(404 if word == "refuse" else 200)
        self.send_header("content-type", "Text/Event-Stream; charset=utf-8" if is_stream else "application/x-ndjson")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        self.before, self.after = (b"data: ", b"\n\n") if is_stream else (b"", b"\n")
        try:
            self.work(word, line, tries[task])
        except OSError:
            see("closed")

    def work(self, word, line, tries):
        key, notes = line["key"], line.get("checkpoints", [])
        self.say(type="status", message="at it")
        if word == "find" and not line.get("answers"):
            self.say(type="find", id="f", text="port")
            if tries == 2:
                self.say(type="wait")
            return
        if word == "outage" and tries == 6:
            return
        if word == "hang":
            while True:
                time.sleep(0.05)
                self.wfile.write(b": still here\n\n")
                self.wfile.flush()
        if word == "break" and not notes:
            self.say(type="checkpoint", data="half")
            with change:
                change.wait_for(lambda: recorded.get(key) == 1)
            see("breaks")
            return
        if word == "broken":
            return
        if word == "large":
            token = {"authorization": "Bearer " + self.headers["mesh-brain-token"]}
            request = urllib.request.Request(self.reference["url"], headers=token)
            word = len(urllib.request.urlopen(request).read())
        self.say(type="usage", model="m", inputTokens=3, outputTokens=4)
        self.say(type="done", message=f"did {word} after {notes}")

    def say(self, **line):
        self.wfile.write(self.before + json.dumps(line).encode() + self.after)
        self.wfile.flush()

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Turns)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// A service that runs until it is dropped.
struct Service {
    child: Child,
    port: u16,
}

impl Service {
    fn start(dir: &Path, code: &str) -> Self {
        let path = file(dir, "service.py", code);
        let mut command = Command::new("python3");
        command.arg(path).current_dir(dir).env("BRAIN_SECRET", SECRET).env("PORT", "0");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn up(service: &Service, members: &str) -> Process {
    let team = format!(
        "mesh: {{ outside: {{ allow: [127.0.0.0/8] }} }}
agents: [{{ agent: solo-01, open: true, brain: {{ http: {{ url: 'http://127.0.0.1:{}/turns', secret: '{SECRET}' }} }}{members} }}]",
        service.port
    );
    Process::up(&team).await
}

fn work(id: &str, word: &str) -> Value {
    json!({ "taskId": id, "description": word })
}

fn seen(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("seen")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_service_of_the_documentation_checks_the_signature_and_does_tasks() {
    let dir = directory();
    let code = DOCS.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let service = Service::start(dir.path(), code);
    let mesh = up(&service, "").await;
    let task = mesh.agent("solo-01").ask(work("t-1", "it")).await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "did it"), "{task:#}");
    let forged = client().post(format!("http://127.0.0.1:{}/turns", service.port));
    let forged = forged.body(r#"{"type":"turn"}"#).send().await.unwrap();
    assert_eq!(forged.status().as_u16(), 401);
}

#[tokio::test]
async fn a_service_answers_by_events_or_lines_and_every_request_is_signed_and_marked() {
    let dir = directory();
    let service = Service::start(dir.path(), SERVICE);
    let mesh = up(&service, "").await;
    let solo = mesh.agent("solo-01");
    for word in ["events", "lines"] {
        let task = solo.ask(work(&format!("t-{word}"), word)).await;
        assert_eq!(message(&task), format!("did {word} after []"), "{task:#}");
        let used = &task["metadata"][protocol::task::EXTENSION]["usage"];
        assert_eq!((&used["inputTokens"], &used["outputTokens"]), (&json!(3), &json!(4)), "{task:#}");
    }
    assert_eq!(seen(dir.path()), ["turn signed True", "turn signed True"]);
    let task = solo.ask(work("t-large", &"x".repeat(50_000))).await;
    assert_eq!(message(&task), "did 50000 after []", "a large text comes by reference: {task:#}");
    let refused = solo.ask(work("t-refused", "refuse")).await;
    assert_eq!(state(&refused), "failed");
    assert!(message(&refused).contains("the service answered 404"), "{refused:#}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_begun_again_with_its_recorded_checkpoints() {
    let dir = directory();
    let service = Service::start(dir.path(), SERVICE);
    let mut mesh = up(&service, "").await;
    let task = mesh.agent("solo-01").ask(work("t-1", "break")).await;
    assert_eq!(message(&task), "did break after ['half']", "{task:#}");
    let requests = seen(dir.path());
    let expected = ["turn signed True", "recorded signed True", "breaks", "turn signed True"];
    assert_eq!(requests, expected);
    // What was asked before the break is asked again.
    let task = mesh.agent("solo-01").ask(work("t-find", "find")).await;
    assert_eq!(message(&task), "did find after []", "{task:#}");
    // A busy service is asked again when it says, also by a node that was killed meanwhile.
    mesh.agent("solo-01").send(work("t-2", "busy")).await;
    let solo = mesh.agent("solo-01");
    eventually("it pauses", async || message(&solo.task("t-2").await).contains("pauses until").then_some(()))
        .await;
    mesh.kill();
    let mesh = mesh.restart().await;
    let task = mesh.agent("solo-01").task_in("t-2", &["completed", "failed"]).await;
    assert_eq!(message(&task), "did busy after []", "{task:#}");
}

#[tokio::test]
async fn refusals_of_a_busy_service_do_not_count_as_breaks() {
    let dir = directory();
    let service = Service::start(dir.path(), SERVICE);
    let mesh = up(&service, "").await;
    let task = mesh.agent("solo-01").ask(work("t-1", "outage")).await;
    assert_eq!(message(&task), "did outage after []", "{task:#}");
}

#[tokio::test]
async fn a_stopped_turn_closes_its_request_and_a_silent_service_is_cut() {
    let dir = directory();
    let service = Service::start(dir.path(), SERVICE);
    let mesh = up(&service, ", bounds: { idle: 8s }").await;
    let solo = mesh.agent("solo-01");
    solo.send(work("t-1", "hang")).await;
    eventually("it hangs", async || (message(&solo.task("t-1").await) == "at it").then_some(())).await;
    call(Method::POST, &format!("{}/a2a/tasks/t-1/cancel", solo.url), Some(&json!({}))).await;
    assert_eq!(state(&solo.task_in("t-1", &["canceled", "completed", "failed"]).await), "canceled");
    let closed = async |count: usize| {
        eventually("the connection closes", async || {
            (seen(dir.path()).iter().filter(|line| *line == "closed").count() == count).then_some(())
        })
        .await;
    };
    closed(1).await;
    let silent = solo.ask(work("t-2", "hang")).await;
    assert!(message(&silent).contains("reported nothing for 8000 ms"), "{silent:#}");
    closed(2).await;
}

#[tokio::test]
async fn a_service_at_an_address_that_is_not_allowed_stops_the_start_with_the_remedy() {
    let dir = directory();
    let team = "agents: [{ agent: a, brain: { http: { url: 'http://127.0.0.1:1/' } } }]";
    let team = file(dir.path(), "team.yaml", team);
    let data = dir.path().join("data");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
    command.args(["up", "--port", "0", "--data"]).arg(data).arg(team);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("outside: { allow:"), "{text}");
}
