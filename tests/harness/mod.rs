//! Starts the real program on free ports and talks to it over real sockets. Tests wait for an observation with a
//! deadline, never for a fixed time.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![expect(unreachable_pub, reason = "`pub` marks what scenarios use")]

pub mod audit;
pub mod bidder;
pub mod cluster;
pub mod collector;
pub mod documentation;
pub mod foreign;
pub mod mcp_stub;
pub mod model_stub;
pub mod oauth_stub;
pub mod peer;
pub mod ports;
pub mod written_answers;

use protocol::{
    a2a::card_signature::SigningKey,
    identity::IdentityKey,
    ids::{AgentId, Digest},
};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use std::{
    future::Future,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long a test waits for an observation.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);

/// The identity of `id`: of its key file in the data directory `data` if there is one, else one of the test's.
pub(crate) fn test_identity(data: &Path, id: &str) -> IdentityKey {
    let seed = std::fs::read(data.join(format!("keys/{id}.ed25519"))).ok();
    let seed = seed.and_then(|seed| seed.try_into().ok());
    let seed = seed.unwrap_or_else(|| *Digest::of(format!("the test's key of {id}").as_bytes()).bytes());
    IdentityKey::new(AgentId::parse(id).unwrap(), Arc::new(SigningKey::from_seed(&seed)))
}

/// A running `mesh` process and its addresses; killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) data: PathBuf,
    pub(crate) url: String,
    pub(crate) agents: std::collections::BTreeMap<String, String>,
    args: Vec<String>,
    _dir: Option<TempDir>,
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_mesh")
}

/// A new temporary directory.
pub(crate) fn directory() -> TempDir {
    tempfile::Builder::new().prefix("mesh-test-").tempdir().unwrap()
}

/// Writes a file into `dir`.
pub(crate) fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

impl Process {
    /// Starts `mesh <args>` with its data in `data`; returns once it has written its addresses.
    pub(crate) async fn start(data: &Path, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self::run(data.to_owned(), args, None).await
    }

    /// Starts `mesh <args>` with `HOME` at `home` and the default data directory, `part` of the mesh.
    pub async fn at_home(home: &Path, part: &str, args: &[&str]) -> Self {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut command = Command::new(program());
        command.args(&args).env("HOME", home).env_remove("MESH_DATA").env_remove("MESH_JOIN");
        Self::spawn(command, home.join(".mesh/default").join(part), args, None).await
    }

    /// `args` may begin with environment variables, `NAME=value`.
    pub(crate) async fn run(data: PathBuf, args: Vec<String>, dir: Option<TempDir>) -> Self {
        let mut command = Command::new(program());
        let is_variable =
            |arg: &&String| arg.split_once('=').is_some_and(|(name, _)| name.to_uppercase() == name);
        let variables: Vec<_> = args.iter().take_while(is_variable).collect();
        command.envs(variables.iter().filter_map(|variable| variable.split_once('=')));
        command.args(args.iter().skip(variables.len())).arg("--data").arg(&data);
        Self::spawn(command, data, args, dir).await
    }

    /// The same with a limit of open files.
    pub async fn run_with_files(files: &str, data: PathBuf, args: Vec<String>, dir: Option<TempDir>) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\"")]).arg(program());
        command.args(&args).arg("--data").arg(&data);
        Self::spawn(command, data, args, dir).await
    }

    async fn spawn(mut command: Command, data: PathBuf, args: Vec<String>, dir: Option<TempDir>) -> Self {
        std::fs::create_dir_all(&data).unwrap();
        drop(std::fs::remove_file(data.join("run.json")));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(data.join("log")).unwrap();
        if !args.iter().any(|arg| arg.starts_with("RUST_LOG=")) {
            command.env("RUST_LOG", std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned()));
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let started = Instant::now();
        let run = loop {
            if let Some(run) = std::fs::read(data.join("run.json"))
                .ok()
                .and_then(|text| serde_json::from_slice::<Value>(&text).ok())
            {
                break run;
            }
            if let Some(status) = child.try_wait().unwrap() {
                panic!("mesh {args:?} ended with {status}: {}", log_of(&data));
            }
            assert!(started.elapsed() < DEADLINE, "mesh {args:?} does not start: {}", log_of(&data));
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let agents = run["agents"].as_object().unwrap().iter();
        let agents = agents.map(|(id, url)| (id.clone(), url.as_str().unwrap().to_owned())).collect();
        let url = run["url"].as_str().unwrap_or_default().to_owned();
        Self { child, data, url, agents, args, _dir: dir }
    }

    /// Starts `mesh up` with the team in `yaml` and the fast profile, on free ports.
    pub(crate) async fn up(yaml: &str) -> Self {
        Self::up_with(&[], &[], Some(yaml)).await
    }

    /// The same with environment variables, `NAME=value`.
    pub async fn up_in(environment: &[String], yaml: &str) -> Self {
        Self::up_with(&texts(environment), &[], Some(yaml)).await
    }

    /// The same with environment variables and further arguments; `yaml` is `None` for the demo team.
    pub async fn up_with(environment: &[&str], more: &[&str], yaml: Option<&str>) -> Self {
        Self::up_at(directory(), environment, more, yaml).await
    }

    async fn up_at(dir: TempDir, environment: &[&str], more: &[&str], yaml: Option<&str>) -> Self {
        let team = yaml.map(|yaml| file(dir.path(), "team.yaml", yaml).to_string_lossy().into_owned());
        let args = environment.iter().chain(&["up", "--port", "0", "--profile", "fast"]).chain(more);
        let args = args.map(|arg| (*arg).to_owned()).chain(team).collect();
        Self::run(dir.path().join("data"), args, Some(dir)).await
    }

    /// The same as the user with this uid; only root may.
    pub async fn up_as(uid: u32, environment: &[(&str, &str)], yaml: &str) -> Self {
        use std::os::unix::{fs::chown, process::CommandExt as _};
        let dir = directory();
        let (team, data) = (file(dir.path(), "team.yaml", yaml), dir.path().join("data"));
        std::fs::create_dir(&data).unwrap();
        [dir.path(), &data].iter().for_each(|dir| chown(dir, Some(uid), Some(uid)).unwrap());
        let mut command = Command::new(program());
        command.args(["up", "--port", "0", "--profile", "fast", "--data"]).arg(&data).arg(&team);
        command.envs(environment.iter().copied()).uid(uid).gid(uid);
        Self::spawn(command, data, Vec::new(), Some(dir)).await
    }

    /// The same with more files beside the team file.
    pub async fn up_beside(yaml: &str, files: &[(&str, &str)]) -> Self {
        let dir = directory();
        for (name, text) in files {
            file(dir.path(), name, text);
        }
        Self::up_at(dir, &[], &[], Some(yaml)).await
    }

    /// The directory of the team file.
    pub fn dir(&self) -> &Path {
        self.data.parent().unwrap()
    }

    /// Starts `mesh up` with the demo team, on free ports.
    pub(crate) async fn demo() -> Self {
        Self::demo_in(&[]).await
    }

    /// The same with environment variables, `NAME=value`.
    pub(crate) async fn demo_in(environment: &[String]) -> Self {
        Self::up_with(&texts(environment), &[], None).await
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process (SIGKILL).
    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Sends a signal by name (`STOP`, `CONT`, `TERM`).
    pub(crate) fn signal(&self, name: &str) {
        let status =
            Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status().unwrap();
        assert!(status.success());
    }

    /// Waits for the process to exit; returns the exit code.
    pub(crate) async fn ended(&mut self) -> i32 {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(started.elapsed() < DEADLINE, "it does not end: {}", log_of(&self.data));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Kills the process and starts it again on the same data; its ports may change.
    pub(crate) async fn restart(mut self) -> Self {
        self.kill();
        let dir = self._dir.take();
        let (data, args) = (self.data.clone(), self.args.clone());
        drop(self);
        Self::run(data, args, dir).await
    }

    /// An agent of this process.
    pub(crate) fn agent(&self, id: &str) -> Agent {
        let url = self.agents.get(id).unwrap_or_else(|| panic!("no agent {id} in {:?}", self.agents));
        Agent { token: self.token(), ..Agent::at(id, url) }
    }

    /// Calls `url` with the person's token.
    pub(crate) async fn call_as_person(&self, method: Method, url: &str, body: Option<&Value>) -> Answer {
        let request = client().request(method, url).bearer_auth(self.token().unwrap());
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        read_answer(request.send().await.unwrap()).await
    }

    /// The variables by which a command is the person's of this mesh.
    pub(crate) fn person(&self) -> [(&'static str, String); 2] {
        let token = self.data.join("token").to_string_lossy().into_owned();
        [("MESH_URL", self.url.clone()), ("MESH_TOKEN_FILE", token)]
    }

    /// Runs a command of the person.
    pub(crate) async fn as_person(&self, args: &[&str]) -> (i32, String, String) {
        let (args, envs): (Vec<String>, _) =
            (args.iter().map(|arg| (*arg).to_owned()).collect(), self.person());
        let run = move || {
            let args: Vec<_> = args.iter().map(String::as_str).collect();
            mesh(&args, &envs.each_ref().map(|(name, value)| (*name, value.as_str())))
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    /// The person's token, if the process has one.
    pub(crate) fn token(&self) -> Option<String> {
        Some(std::fs::read_to_string(self.data.join("token")).ok()?.trim().to_owned())
    }

    pub(crate) fn log(&self) -> String {
        log_of(&self.data)
    }

    /// The signals of a type on the board.
    pub(crate) async fn signals(&self, kind: &str) -> Vec<Value> {
        let answer = get(&format!("{}/board/signals?type={kind}&limit=1000", self.url)).await;
        answer["signals"].as_array().cloned().unwrap_or_default()
    }

    /// Waits for a signal of this type that matches.
    pub(crate) async fn signal_where(&self, kind: &str, matches: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("a signal {kind}"), async || {
            self.signals(kind).await.into_iter().find(|signal| matches(signal))
        })
        .await
    }
}

impl Drop for Process {
    /// Kills it, and replays the journals it leaves: one that differs from its replay fails the test.
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            return eprintln!("--- log of mesh {:?}\n{}", self.args, self.log());
        }
        if let Err(error) = audit::replay_journals(&self.data, self.agents.keys()) {
            panic!("{error}");
        }
    }
}

fn log_of(data: &Path) -> String {
    let text = std::fs::read_to_string(data.join("log")).unwrap_or_default();
    let from = text.len().saturating_sub(6_000);
    text.get(from..).unwrap_or(&text).to_owned()
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

pub(crate) fn client() -> Client {
    transport::http_client::tls::client().no_proxy().timeout(DEADLINE).build().unwrap()
}

pub(crate) async fn read_answer(response: reqwest::Response) -> Answer {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let text = response.text().await.unwrap();
    Answer { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

pub(crate) async fn get(url: &str) -> Value {
    let answer = read_answer(client().get(url).send().await.unwrap()).await;
    answer.body
}

/// The text at `url`.
pub async fn text(url: &str) -> String {
    client().get(url).send().await.unwrap().text().await.unwrap()
}

pub(crate) async fn call(method: Method, url: &str, body: Option<&Value>) -> Answer {
    let request = client().request(method, url);
    let request = match body {
        Some(body) => request.json(body),
        None => request,
    };
    read_answer(request.send().await.unwrap()).await
}

/// An agent. Messages to it are the local user's; tasks are read with the person's token, if that is known.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) url: String,
    pub(crate) id: String,
    pub(crate) token: Option<String>,
}

impl Agent {
    /// The agent at `url`, whose tasks are read without a token.
    pub(crate) fn at(id: &str, url: &str) -> Self {
        Self { url: url.to_owned(), id: id.to_owned(), token: None }
    }

    /// The same, with its tasks read with the token that `process` has.
    pub(crate) fn seen_by_the_person_of(self, process: &Process) -> Self {
        Self { token: process.token(), ..self }
    }

    /// Posts raw bytes as a message.
    pub(crate) async fn post_raw(&self, body: impl Into<reqwest::Body>, headers: &[(&str, &str)]) -> Answer {
        let mut request = client().post(format!("{}/a2a/messages", self.url)).body(body);
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        read_answer(request.send().await.unwrap()).await
    }

    /// Posts an envelope.
    pub(crate) async fn post(&self, envelope: &Value) -> Answer {
        self.post_raw(envelope.to_string(), &[]).await
    }

    /// A task request from the user `me`, for this agent.
    pub(crate) fn request(&self, payload: Value) -> Value {
        json!({ "fromAgentId": "me", "toAgentId": self.id, "type": "task-request", "payload": payload })
    }

    /// Sends a task and waits for its end in the same request; returns the task. The person asks, with the token if there is one: else
    /// nobody is shown how a session ends, and no task is given what spaces know.
    pub(crate) async fn ask(&self, payload: Value) -> Value {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![("prefer", "wait=250")];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let answer = self.post_raw(self.request(payload).to_string(), &headers).await;
        assert_eq!(answer.status, 200, "the task did not end: {:#}", answer.body);
        answer.body
    }

    /// Sends a task of the person without waiting; returns its id.
    pub(crate) async fn send(&self, payload: Value) -> String {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.as_deref().map(|bearer| ("authorization", bearer)).into_iter().collect();
        let answer = self.post_raw(self.request(payload).to_string(), &headers).await;
        assert!(answer.status == 202 || answer.status == 200, "{answer:?}");
        answer.body["taskId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn task(&self, id: &str) -> Value {
        self.call_on_task(Method::GET, id, "", None).await.body
    }

    /// Calls `path` below a task.
    pub(crate) async fn call_on_task(
        &self,
        method: Method,
        id: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let mut request = client().request(method, format!("{}/a2a/tasks/{id}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        read_answer(request.send().await.unwrap()).await
    }

    pub(crate) async fn award(&self, id: &str) -> Value {
        get(&format!("{}/a2a/tasks/{id}/award", self.url)).await["award"].clone()
    }

    pub(crate) async fn state(&self) -> Value {
        get(&format!("{}/state", self.url)).await["agents"][&self.id].clone()
    }

    /// Waits until the task is in one of these states; returns it.
    pub(crate) async fn task_in(&self, id: &str, states: &[&str]) -> Value {
        eventually(&format!("task {id} in {states:?}"), async || {
            let task = self.task(id).await;
            states.contains(&state(&task).as_str()).then_some(task)
        })
        .await
    }
}

/// `base` overridden by the members of `more`.
pub fn with(mut base: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        base[name] = value.clone();
    }
    base
}

/// Checks the shape of a refusal; returns its status and `reasonCode`.
pub fn refusal(answer: &Answer) -> (u16, String) {
    let error = &answer.body["error"];
    assert_eq!(error["code"], answer.status, "{answer:?}");
    let code = answer.body["reasonCode"].as_str().unwrap_or_else(|| panic!("no reasonCode: {answer:?}"));
    assert_eq!(error["details"][0]["reason"], code.to_uppercase(), "{answer:?}");
    assert!(!error["message"].as_str().unwrap().is_empty(), "{answer:?}");
    (answer.status, code.to_owned())
}

/// The same for a response.
pub async fn refusal_of_status(response: reqwest::Response) -> (u16, String) {
    refusal(&read_answer(response).await)
}

/// The message of a refusal.
pub fn refusal_text(answer: &Answer) -> String {
    answer.body["error"]["message"].as_str().unwrap_or_default().to_owned()
}

/// The state of a task, in lower case.
pub(crate) fn state(task: &Value) -> String {
    task["status"]["state"].as_str().unwrap_or("?").trim_start_matches("TASK_STATE_").to_lowercase()
}

/// The status message of a task.
pub(crate) fn message(task: &Value) -> String {
    task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// The text of an artifact of a task.
pub(crate) fn artifact(task: &Value, name: &str) -> Option<String> {
    let artifact = task["artifacts"].as_array()?.iter().find(|artifact| artifact["artifactId"] == name)?;
    Some(artifact["parts"].as_array()?.iter().filter_map(|part| part["text"].as_str()).collect())
}

/// Calls `observe` until it returns something; fails after the deadline.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, observe: impl Fn() -> F) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = observe().await {
            return found;
        }
        assert!(started.elapsed() < DEADLINE, "never seen: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Reads a stream to its end; returns the id and data of each event.
pub(crate) async fn stream(url: &str, last: Option<&str>) -> Vec<(String, Value)> {
    let mut request = client().get(url);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let text = request.send().await.unwrap().text().await.unwrap();
    let events = text.split("\n\n").filter_map(|event| {
        let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some((line("id:")?.to_owned(), serde_json::from_str(line("data:")?).ok()?))
    });
    events.collect()
}

/// Runs `mesh <args>` to its end; returns exit code, output and errors.
pub(crate) fn mesh(args: &[&str], envs: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(program());
    command.args(args).stdin(Stdio::null());
    for (name, value) in envs {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

pub(crate) fn is_success(status: u16) -> bool {
    StatusCode::from_u16(status).is_ok_and(|status| status.is_success())
}

/// Receives one webhook call and answers with `status`; returns the call.
pub async fn receive_notification(listener: &tokio::net::TcpListener, status: u16) -> (String, Value) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut chunk = [0; 4096];
        let read = socket.read(&mut chunk).await.unwrap();
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str::<Value>(body)
        {
            break (head.to_ascii_lowercase(), body);
        }
        assert!(read > 0, "the sender left");
    };
    let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    socket.write_all(answer.as_bytes()).await.unwrap();
    (head, body)
}
