//! `mesh tasks` by filters: the list, the tree, what changes, and what is done with many tasks at once.

use super::ask_prompt::Terminal;
use crate::harness::{
    Process, call, directory,
    documentation::{files, run_commands},
    eventually, file, get, mesh, refusal, refusal_text, state,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const TEAM: &str = "
agents:
  - { agent: front-01, open: true, skills: [front, tell], bid: { maxParallel: 8 }, brain: { scripted: script.yaml } }
  - { agent: asker-01, open: true, skills: [ask], bid: { maxParallel: 8 }, brain: { scripted: asker.yaml } }
";
const SCRIPT: &str = "
turns:
  - { when: { contains: hang }, hang: true }
  - { when: { contains: Greet }, say: [{ type: artifact, name: hello.txt, text: hello }], end: { done: said } }
  - { when: { contains: break }, end: { failed: it broke } }
  - { when: { contains: give it away, turn: 1 }, say: [{ type: delegate, id: d, to: asker-01, description: paint it }] }
  - { end: { done: all is well } }
";
const ASKER: &str = "
turns:
  - { when: { turn: 1 }, say: [{ type: question, id: q, text: red or blue? }] }
  - { end: { done: painted } }
";

async fn up() -> Process {
    Process::up_beside(TEAM, &[("script.yaml", SCRIPT), ("asker.yaml", ASKER)]).await
}

#[tokio::test]
async fn the_commands_of_the_page_work_as_shown() {
    let dir = directory();
    let page = include_str!("../../docs/command-line.md");
    for (name, text) in files(page) {
        file(dir.path(), name, text);
    }
    let outputs = run_commands(page, dir.path(), None, |_| {}).await;
    for part in
        ["t-1", "count the words", "no open task of yours matches", "is sent again as t-", "1 agent well"]
    {
        let is_there = outputs.iter().any(|output| output.contains(part));
        assert!(is_there, "{part}: {outputs:#?}");
    }
    assert!(dir.path().join("man1/mesh-tasks-cancel.1").exists());
}

/// A command of the person that goes on and writes its output to a file.
pub(super) struct Watched(Child, PathBuf);

impl Watched {
    pub(super) fn start(mesh: &Process, name: &str, args: &[&str]) -> Self {
        let path = mesh.dir().join(name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh"));
        command.args(args).envs(mesh.person()).stdin(Stdio::null());
        Self(command.stdout(Stdio::from(File::create(&path).unwrap())).spawn().unwrap(), path)
    }

    /// Waits until it has printed a line with all of `parts`.
    pub(super) async fn prints(&self, parts: &[&str]) -> String {
        let is_it = |line: &&str| parts.iter().all(|part| line.contains(part));
        let path: &Path = &self.1;
        eventually(&format!("{parts:?} in {}", path.display()), async || {
            std::fs::read_to_string(path).unwrap().lines().find(is_it).map(str::to_owned)
        })
        .await
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The ids of the tasks that a command lists.
async fn listed(mesh: &Process, args: &[&str]) -> Vec<String> {
    let (code, out, errors) = mesh.as_person(&[&["tasks", "ls", "--json"], args].concat()).await;
    assert_eq!(code, 0, "{args:?}: {errors}");
    let list: Value = serde_json::from_str(&out).unwrap();
    let mut ids: Vec<_> = list["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["taskId"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

/// t-1 is done, t-2 has failed, t-3 works, t-4 waits for a person and its part, which another agent does, asks.
async fn with_tasks() -> Process {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    front.ask(json!({ "taskId": "t-1", "description": "Greet everybody" })).await;
    front.ask(json!({ "taskId": "t-2", "description": "break it" })).await;
    front.send(json!({ "taskId": "t-3", "description": "hang on", "capability": "front" })).await;
    front.task_in("t-3", &["working"]).await;
    front.send(json!({ "taskId": "t-4", "description": "give it away" })).await;
    front.task_in("t-4", &["input_required"]).await;
    mesh
}

#[tokio::test]
async fn every_filter_selects_in_the_list_and_at_the_route() {
    let mesh = with_tasks().await;
    let mine = ["--requester", "me"];
    for (filter, expected) in [
        (&["--state", "ended"][..], &["t-1", "t-2"][..]),
        (&["--state", "open"], &["t-3", "t-4"]),
        (&["--state", "failed"], &["t-2"]),
        (&["--capability", "front"], &["t-3"]),
        (&["--waiting-for", "person"], &["t-4"]),
        (&["--text", "GREET"], &["t-1"]),
        (&["--text", "t-2"], &["t-2"]),
        (&["--space", "default"], &["t-1", "t-2", "t-3", "t-4"]),
        (&["--space", "other"], &[]),
        (&["--since", "1h"], &["t-1", "t-2", "t-3", "t-4"]),
        (&["--until", "1h"], &[]),
        (&["--min-cost", "0.01"], &[]),
        (&["--agent", "front-01", "--state", "ended", "--text", "break"], &["t-2"]),
    ] {
        assert_eq!(listed(&mesh, &[filter, &mine].concat()).await, expected, "{filter:?}");
    }
    // The part is the agent's task: it is listed for it, and not among what the person has requested.
    let parts = listed(&mesh, &["--requester", "agent:front-01"]).await;
    assert_eq!(parts.len(), 1, "{parts:?}");
    assert!(listed(&mesh, &["--agent", "asker-01", "--requester", "me"]).await.is_empty());
    let front = mesh.agent("front-01");
    let list = get(&format!("{}/a2a/tasks?state=failed&text=BREAK", front.url)).await;
    assert_eq!(list["tasks"].as_array().map(Vec::len), Some(1), "{list}");
    let artifacts = async |query: &str| {
        let list = get(&format!("{}/a2a/tasks?text=greet{query}", front.url)).await;
        list["tasks"][0]["artifacts"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((artifacts("").await, artifacts("&includeArtifacts=false").await), (1, 0));
    for (query, field) in [("state=odd", "state"), ("since=soon", "since"), ("minCost=much", "minCost")] {
        let answer = call(Method::GET, &format!("{}/a2a/tasks?{query}", front.url), None).await;
        assert_eq!(refusal(&answer), (400, "invalid_field".to_owned()), "{query}: {answer:?}");
        assert!(refusal_text(&answer).starts_with(field), "{answer:?}");
    }
    let (code, _, errors) = mesh.as_person(&["tasks", "ls", "--state", "odd"]).await;
    assert!(code == 2 && errors.contains("open, waiting"), "{errors}");
}

#[tokio::test]
async fn a_tree_has_each_part_under_its_whole_and_the_newest_task_is_the_persons_own() {
    let mesh = with_tasks().await;
    let (code, out, errors) = mesh.as_person(&["tasks", "ls", "--tree"]).await;
    assert_eq!(code, 0, "{errors}");
    let lines: Vec<_> = out.lines().collect();
    let whole = lines.iter().position(|line| line.starts_with("t-4 ")).unwrap_or_else(|| panic!("{out}"));
    assert!(lines[whole + 1].starts_with("  ") && lines[whole + 1].contains("paint it"), "{out}");
    // The part was created last.
    let (_, shown, _) = mesh.as_person(&["tasks", "show", "-", "--json"]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["id"], "t-4", "{shown:#}");
}

#[tokio::test]
async fn a_part_is_not_listed_as_its_doers_own_where_its_whole_is_behind_the_end_of_the_list() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    front.send(json!({ "taskId": "t-1", "description": "paint it", "capability": "ask" })).await;
    front.task_in("t-1", &["input_required"]).await;
    front.ask(json!({ "taskId": "t-2", "description": "Greet everybody" })).await;
    assert_eq!(listed(&mesh, &[]).await, ["t-1", "t-2"]);
    assert_eq!(listed(&mesh, &["--limit", "1"]).await, ["t-2"]);
    assert_eq!(listed(&mesh, &["--limit", "1", "--agent", "asker-01"]).await, ["t-1"]);
}

#[tokio::test]
async fn a_watched_list_has_a_line_for_each_change() {
    let mesh = with_tasks().await;
    let open = ["tasks", "ls", "--state", "open", "--requester", "me", "--watch"];
    let watched = Watched::start(&mesh, "open", &open);
    watched.prints(&["t-4", "input-required"]).await;
    let as_json = Watched::start(&mesh, "json", &[&open[..], &["--json"]].concat());
    as_json.prints(&["t-3", "TASK_STATE_WORKING"]).await;
    let mut terminal = Terminal::start(&[&open[..], &["--url", &mesh.url]].concat());
    terminal.shows("t-3").await;
    let (code, _, errors) = mesh.as_person(&["tasks", "cancel", "t-3"]).await;
    assert_eq!(code, 0, "{errors}");
    watched.prints(&["t-3", "canceled"]).await;
    as_json.prints(&["t-3", "TASK_STATE_CANCELED"]).await;
    let again =
        mesh.as_person(&["ask", "--no-wait", "--to", "front-01", "--task-id", "t-5", "hang on"]).await;
    assert_eq!(again.0, 0, "{again:?}");
    watched.prints(&["t-5", "working"]).await;
    terminal.shows("t-5").await;
    terminal.types("\u{3}");
    let (code, shown) = terminal.ends().await;
    assert!(code == 130 && shown.contains("\u{1b}[?1049l"), "{code}: {shown:?}");
}

#[tokio::test]
async fn many_tasks_are_canceled_or_sent_again_after_they_were_shown() {
    let mesh = with_tasks().await;
    let state_of = async |id: &str| state(&mesh.agent("front-01").task(id).await);
    // Without a terminal nothing is done unless it is said.
    let cancel = ["tasks", "cancel", "--where", "state=open", "--where", "text=hang"];
    let (code, out, errors) = mesh.as_person(&cancel).await;
    assert!(
        code == 2 && out.contains("t-3") && !out.contains("t-4") && errors.contains("--yes"),
        "{out}{errors}"
    );
    let (code, out, errors) = mesh.as_person(&[&cancel[..], &["--dry-run"]].concat()).await;
    assert!(code == 0 && out.contains("t-3") && errors.contains("would cancel 1 task"), "{out}{errors}");
    assert_eq!(state_of("t-3").await, "working");
    let (code, out, errors) = mesh.as_person(&[&cancel[..], &["--yes"]].concat()).await;
    assert_eq!((code, out.trim()), (0, "t-3 canceled"), "{errors}");
    let (code, out, _) = mesh.as_person(&[&cancel[..], &["--yes"]].concat()).await;
    assert_eq!((code, out.trim()), (0, "no open task of yours matches"));
    // A new task, whose thread is the old one.
    let (code, out, errors) =
        mesh.as_person(&["tasks", "retry", "--where", "state=failed", "--yes", "--json"]).await;
    assert_eq!(code, 0, "{errors}");
    let sent: Value = serde_json::from_str(out.trim()).unwrap();
    assert_eq!(sent["taskId"], "t-2", "{sent}");
    let new = sent["newTaskId"].as_str().unwrap();
    let again = mesh.agent("front-01").task_in(new, &["failed"]).await;
    assert_eq!(again["metadata"]["urn:agent-mesh:ext:task:v1"]["description"], "break it", "{again:#}");
    let (code, out, errors) = mesh.as_person(&["tasks", "retry", "t-1"]).await;
    assert!(code == 0 && out.contains("t-1 is sent again as t-"), "{out}{errors}");
    for (wrong, named) in [
        (&["tasks", "cancel"][..], "<TASK>"),
        (&["tasks", "cancel", "t-1", "--where", "state=open"], "--where"),
        (&["tasks", "retry", "--where", "odd=1"], "waiting-for, requester"),
        (&["tasks", "retry", "t-1", "--yes"], "--yes"),
    ] {
        let (code, _, errors) = mesh.as_person(wrong).await;
        assert!(code == 2 && errors.contains(named), "{wrong:?}: {errors}");
    }
}

#[tokio::test]
async fn on_a_terminal_a_person_is_asked_first_and_a_failure_is_the_exit_code() {
    let mesh = with_tasks().await;
    let args = ["tasks", "cancel", "--where", "state=working", "--url", &mesh.url];
    let mut terminal = Terminal::start(&args);
    terminal.shows("cancel 1 task? y or n: ").await;
    terminal.types("n\n");
    let (code, shown) = terminal.ends().await;
    assert!(code == 3 && shown.contains("nothing is done"), "{code}: {shown}");
    let mut terminal = Terminal::start(&args);
    terminal.shows("y or n: ").await;
    // Meanwhile it has ended.
    let (code, _, errors) = self::mesh(&["tasks", "cancel", "t-3", "--url", &mesh.url], &[]);
    assert_eq!(code, 0, "{errors}");
    terminal.types("y\n");
    let (code, shown) = terminal.ends().await;
    assert!(code == 1 && shown.contains("t-3: ") && shown.contains("1 of 1 task failed"), "{code}: {shown}");
}

#[tokio::test]
async fn a_task_that_is_sent_again_has_its_artifacts_and_what_its_result_must_pass() {
    let mesh =
        Process::up("agents: [{ agent: echo-01, open: true, skills: [say], brain: { echo: {} } }]").await;
    let echo = mesh.agent("echo-01");
    let demand = json!({ "schema": { "type": "object" } });
    let notes = json!([{ "artifactId": "notes", "name": "notes.txt", "parts": [{ "text": "remember" }] }]);
    let request = json!({
        "taskId": "t-1", "description": "x", "capability": "say", "accept": demand, "inlineArtifacts": notes,
    });
    assert_eq!(state(&echo.ask(request).await), "failed");
    let (code, out, errors) = mesh.as_person(&["tasks", "retry", "t-1", "--json"]).await;
    assert_eq!(code, 0, "{errors}");
    let sent: Value = serde_json::from_str(out.trim()).unwrap();
    let again = echo.task_in(sent["taskId"].as_str().unwrap(), &["completed", "failed"]).await;
    assert_eq!(state(&again), "failed", "its result is checked as that of the first: {again:#}");
    assert!(crate::harness::message(&again).contains("refused"), "{again:#}");
}
