//! What the terminal shows of a running mesh: `mesh top`, `mesh inbox --watch`, what `mesh up` says next, completions and man pages.

use super::{ask_prompt::Terminal, task_filters::Watched};
use crate::harness::{Process, directory, eventually, mesh};
use serde_json::{Value, json};

const TEAM: &str = "
agents:
  - { agent: front-01, open: true, skills: [front], bid: { maxParallel: 3 }, brain: { scripted: script.yaml } }
";
const SCRIPT: &str = "
turns:
  - { when: { contains: hang }, hang: true }
  - { when: { turn: 1 }, say: [{ type: question, id: q, text: red or blue? }] }
  - { end: { done: painted } }
";

async fn up() -> Process {
    Process::up_beside(TEAM, &[("script.yaml", SCRIPT)]).await
}

#[tokio::test]
async fn top_shows_agents_and_open_tasks_as_tables_json_and_on_a_screen() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    front.send(json!({ "taskId": "t-1", "description": "hang on" })).await;
    front.send(json!({ "taskId": "t-2", "description": "paint it" })).await;
    front.task_in("t-2", &["input_required"]).await;
    front.task_in("t-1", &["working"]).await;
    let (code, out, errors) = mesh.as_person(&["top", "--once"]).await;
    assert_eq!(code, 0, "{errors}");
    let line = |part: &str| {
        out.lines().find(|line| line.starts_with(part)).unwrap_or_else(|| panic!("{part}: {out}"))
    };
    assert!(
        out.starts_with("1 of 1 agent well, 1 of 3 places taken, 2 open tasks, 1 waiting for a person"),
        "{out}"
    );
    assert!(line("front-01").contains("1/3") && line("front-01").contains("ok"), "{out}");
    assert!(line("t-2").contains("person") && line("t-2").contains("paint it (red or blue?)"), "{out}");
    let (_, out, errors) = mesh.as_person(&["top", "--json"]).await;
    let overview: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{errors}"));
    assert_eq!(
        (&overview["agents"][0]["queue"], &overview["tasks"][0]["waitsFor"]),
        (&json!(0), &json!("person"))
    );
    assert_eq!(overview["problems"], json!([]), "{overview:#}");
    let (code, _, errors) = mesh.as_person(&["top"]).await;
    assert!(code == 2 && errors.contains("--once"), "{errors}");
    let token = mesh.data.join("token").to_string_lossy().into_owned();
    let mut terminal = Terminal::sized(("40", "140"), &["top", "--url", &mesh.url, "--token", &token]);
    terminal.shows("front-01").await;
    terminal.shows("q quits").await;
    terminal.types("\tj\r");
    terminal.shows("requester").await;
    terminal.types("q");
    let (code, shown) = terminal.ends().await;
    assert!(code == 0 && shown.contains("\u{1b}[?1049l"), "{code}: {shown:?}");
}

#[tokio::test]
async fn tasks_beyond_the_places_of_an_agent_are_in_its_queue_and_do_not_run() {
    let mesh = up().await;
    let front = mesh.agent("front-01");
    for number in 1..=5 {
        front.send(json!({ "taskId": format!("t-{number}"), "description": "hang on" })).await;
    }
    eventually("three that run and two that wait", async || {
        let (_, out, _) = mesh.as_person(&["top", "--json"]).await;
        let load = serde_json::from_str::<Value>(&out).ok()?["agents"][0].clone();
        ((&load["running"], &load["queue"]) == (&json!(3), &json!(2))).then_some(())
    })
    .await;
    let (_, out, _) = mesh.as_person(&["top", "--once"]).await;
    assert!(out.contains("3 of 3 places taken") && out.contains("3/3"), "{out}");
}

#[tokio::test]
async fn a_watched_inbox_says_when_questions_open_and_close() {
    let mesh = up().await;
    let token = mesh.data.join("token").to_string_lossy().into_owned();
    let watched = Watched::start(&mesh, "inbox", &["inbox", "--watch"]);
    let terminal = Terminal::start(&["inbox", "--watch", "--url", &mesh.url, "--token", &token]);
    terminal.shows("nothing waits for you").await;
    mesh.agent("front-01").send(json!({ "taskId": "t-1", "description": "paint it" })).await;
    watched.prints(&["opened", "t-1", "front-01", "red or blue?"]).await;
    terminal.shows("\u{7}").await;
    terminal.shows("red or blue?").await;
    let (code, _, errors) = mesh.as_person(&["answer", "t-1", "red"]).await;
    assert_eq!(code, 0, "{errors}");
    watched.prints(&["closed", "t-1", "red or blue?"]).await;
    terminal.shows("nothing waits for you").await;
}

#[tokio::test]
async fn a_mesh_says_at_its_start_what_to_do_next() {
    let mesh = up().await;
    let said = eventually("the next steps", async || {
        let log = mesh.log();
        log.contains("next, in another terminal").then_some(log)
    })
    .await;
    let line = |part: &str| {
        said.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {said}"))
    };
    assert!(line("the console is at").contains(&mesh.url), "{said}");
    // The command works as it is said.
    let command = line("next, in another terminal: ").split("terminal: mesh ").nth(1).unwrap().trim();
    assert_eq!(command, format!("ask \"What can you do?\" --url {}", mesh.url));
    let words = ["ask", "What can you do?", "--url", &mesh.url, "--no-wait"];
    let (code, _, errors) = self::mesh(&words, &[]);
    assert_eq!(code, 0, "{errors}");
    let console = line("the console is at").split('`').nth(1).unwrap().strip_prefix("mesh ").unwrap();
    let words: Vec<_> = console.split(' ').chain(["--no-open"]).collect();
    let (code, link, errors) = self::mesh(&words, &[]);
    assert!(code == 0 && link.starts_with(&mesh.url), "{console}: {link}{errors}");
}

#[test]
fn shells_complete_and_man_shows_every_verb() {
    for (shell, part) in
        [("bash", "complete -F _mesh"), ("zsh", "#compdef mesh"), ("fish", "complete -c mesh")]
    {
        let (code, script, errors) = mesh(&["completions", shell], &[]);
        assert!(code == 0 && script.contains(part) && script.contains("waiting-for"), "{shell}: {errors}");
    }
    let dir = directory();
    let pages = dir.path().join("man");
    let (code, _, errors) = mesh(&["man", pages.to_str().unwrap()], &[]);
    assert_eq!(code, 0, "{errors}");
    let page = |name: &str| {
        std::fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(
        page("mesh.1").contains("mesh\\-tasks(1)") && page("mesh-tasks-cancel.1").contains("\\-\\-where")
    );
    assert!(page("mesh-top.1").contains("\\-\\-once"));
}
