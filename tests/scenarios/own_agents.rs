//! What `mesh init` writes runs as docs/your-own-agents.md shows it, in every language.

use crate::harness::{
    Process, artifact, directory,
    documentation::{self, run_commands, section, shell, success, up},
    eventually, file, mesh, message,
    model_stub::{ModelStub, says},
    state,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

const EXTENSION: &str = protocol::task::EXTENSION;
const DOCS: &str = include_str!("../../docs/your-own-agents.md");

fn init(dir: &Path, name: &str, language: &str) {
    if language == "--rust" {
        std::os::unix::fs::symlink(rust_project(), dir.join(name)).unwrap();
    } else {
        success(dir, &format!("mesh init {name} {language}"), &[]);
    }
}

/// The id of the agent in Rust.
const RUST: &str = "words-rs";

/// The project in Rust as `mesh init` writes it, built. It is one for all tests and stays, so that its dependencies are compiled
/// once; cargo takes this workspace's versions and no network.
fn rust_project() -> &'static Path {
    static PROJECT: OnceLock<PathBuf> = OnceLock::new();
    PROJECT.get_or_init(|| {
        // target/debug/mesh
        let projects = Path::new(env!("CARGO_BIN_EXE_mesh")).ancestors().nth(2).unwrap().join("init");
        let project = projects.join(RUST);
        std::fs::create_dir_all(project.join(".cargo")).unwrap();
        success(&projects, &format!("mesh init {RUST} --rust --force"), &[]);
        file(&project.join(".cargo"), "config.toml", "[net]\noffline = true\n[profile.dev]\ndebug = false\n");
        let versions = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock");
        std::fs::copy(versions, project.join("Cargo.lock")).unwrap();
        let said = success(&project, "cargo build", &[]);
        assert!(!said.contains("warning"), "{said}");
        project
    })
}

/// The languages whose interpreter is installed, with an agent's name; says which are skipped.
fn languages() -> Vec<(&'static str, &'static str)> {
    let all = [
        ("py", "--python", "python3"),
        ("sh", "--shell", "sh"),
        ("js", "--node", "node"),
        (RUST, "--rust", "cargo"),
    ];
    let installed = all.into_iter().filter(|(_, language, program)| {
        let is_there = Command::new(program).arg("--version").output().is_ok();
        if !is_there {
            eprintln!("skipped: {program} is not installed, so {language} is not tried");
        }
        is_there
    });
    installed.map(|(name, language, _)| (name, language)).collect()
}

#[tokio::test]
async fn agents_of_every_language_win_tasks_of_another_agent_by_contract_net() {
    let dir = directory();
    let languages = languages();
    for (name, language) in &languages {
        init(dir.path(), name, language);
    }
    let manager = "agents: [{ agent: manager-01, brain: { echo: {} } }]";
    let mut files = vec![file(dir.path(), "manager.yaml", manager)];
    files.extend(languages.iter().map(|(name, _)| format!("{name}/{name}.yaml").into()));
    let files: Vec<_> = files.iter().map(|file| file.as_path()).collect();
    let mesh = up(dir.path(), &files).await;
    let manager = mesh.agent("manager-01");
    let text = "the quick\n\"brown\" \\ fox";
    for (name, _) in &languages {
        let id = format!("t-{name}");
        let request =
            json!({ "taskId": id, "capability": name, "description": format!("Count this: {text}") });
        let task = manager.ask(request).await;
        assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "5 words"), "{task:#}");
        let report = artifact(&task, "report.md").unwrap();
        let proof = if *name == "sh" { "echoed what was said" } else { text };
        assert_eq!(report, format!("# 5 words\n\n{proof}\n"), "{name}");
        let award = manager.award(&id).await;
        assert_eq!(award["rounds"][0]["candidates"][0]["agent"], *name, "{award:#}");
        mesh.signal_where("task.claimed", |signal| {
            signal["taskId"] == id.as_str() && signal["subject"] == *name
        })
        .await;
    }
    // A large text comes by reference; the libraries read it.
    for (name, _) in languages.iter().filter(|(name, _)| *name != "sh") {
        let text = format!("Count: {}", "word ".repeat(8_000));
        let request = json!({ "taskId": format!("t-{name}-large"), "capability": name, "description": text });
        assert_eq!(message(&manager.ask(request).await), "8000 words", "{name}");
    }
    let task =
        manager.ask(json!({ "taskId": "t-any", "capability": "count-words", "description": "x: a b" }));
    assert_eq!(message(&task.await), "2 words");
    let award = manager.award("t-any").await;
    let candidates = award["rounds"][0]["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), languages.len(), "all bid: {award:#}");
}

#[tokio::test]
async fn an_agent_of_every_language_asks_a_person_for_what_is_missing() {
    let dir = directory();
    let languages = languages();
    for (name, language) in &languages {
        init(dir.path(), name, language);
    }
    let files: Vec<_> = languages.iter().map(|(name, _)| format!("{name}/{name}.yaml")).collect();
    let running = up(dir.path(), &files.iter().map(Path::new).collect::<Vec<_>>()).await;
    for (name, _) in &languages {
        let (agent, id) = (running.agent(name), format!("t-{name}"));
        agent.send(json!({ "taskId": id, "capability": name, "description": "Count" })).await;
        let asked = agent.task_in(&id, &["input_required", "failed"]).await;
        assert_eq!(message(&asked), "Which text shall I count?", "{asked:#}");
        let (code, _, errors) = mesh(&["answer", &id, "say \"hi\" to\nall", "--url", &running.url], &[]);
        assert_eq!(code, 0, "{errors}");
        let task = agent.task_in(&id, &["completed", "failed"]).await;
        assert_eq!((state(&task).as_str(), message(&task).as_str()), ("completed", "4 words"), "{task:#}");
    }
}

/// Uses what the written brain does not.
const THOROUGH: &str = r#"
import os
import mesh_agent as agent

@agent.turn
def work(turn):
    if turn.question:
        return "asked: " + turn.question.question
    print("printed by the brain")
    os.system("echo printed by a child")
    draft = turn.once("draft", lambda: open("calls", "a").write("call\n"))
    check, go = turn.together(
        agent.Delegate("check", "capability:proofread", "a draft", input={"n": 1}),
        agent.Ask("go", "Go on?", kind="choice", options=["yes", "no"]),
    )
    if go.text == "no":
        raise ValueError("not today")
    turn.usage("m", 30, 10, cost=0.5)
    turn.log("logged by the brain")
    turn.publish("acme.counted", turn.agent, refs={"n": 1})
    turn.artifact("data.json", {"checked": check.artifacts[0].data, "draft": draft})
    turn.artifact("raw.bin", b"\x00\xff", media_type="application/octet-stream")
    turn.artifact("log.txt", "one ")
    turn.artifact("log.txt", "two", append=True, last=True)
    turn.checkpoint({"step": 2}, replace=True)
    peers = [peer.id for peer in turn.peers]
    turn.done(f"turn {turn.number} beside {peers[0]}")

if __name__ == "__main__":
    agent.run()
"#;

/// The same in JavaScript; it asks the Python agent.
const THOROUGH_JS: &str = r#"
import { appendFileSync } from "node:fs";
import { run } from "./mesh-agent.mjs";

async function work(turn) {
  console.log("printed by the brain");
  const draft = await turn.once("draft", async () => { appendFileSync("calls", "call\n"); return 5; });
  const [check, go] = turn.together(
    { type: "delegate", id: "check", to: "capability:proofread", description: "a draft", input: { n: 1 } },
    { type: "question", id: "go", text: "Go on?", kind: "choice", options: ["yes", "no"] },
  );
  if (go.text === "no") throw new TypeError("not today");
  const view = turn.help("view", "words", "How?");
  turn.usage("m", 30, 10, 0.5);
  turn.log("logged by the brain");
  turn.publish("acme.counted", { subject: turn.agent, refs: { n: 1 } });
  turn.artifact("data.json", { checked: [check.artifacts[0].parts[1].data], draft });
  turn.artifact("raw.bin", Buffer.from([0, 255]), { mediaType: "application/octet-stream" });
  turn.artifact("log.txt", "one ");
  turn.artifact("log.txt", "two", { append: true, lastChunk: true });
  turn.checkpoint({ step: 2 });
  return `${view.text} in turn ${turn.turn} beside ${turn.peers[0].agentId}`;
}
run(import.meta.url, work);
"#;

/// Answers the choice of a thorough brain and checks all that it reports; `done` is its message, `error` the failure.
async fn check_thorough(running: &Process, dir: &Path, name: &str, done: &str, error: &str) {
    let agent = running.agent(name);
    let answered = async |id: &str, text: &str| {
        agent.send(json!({ "taskId": id, "capability": name, "description": "work" })).await;
        let task = agent.task_in(id, &["input_required", "failed"]).await;
        let question = task["metadata"][EXTENSION]["questions"][0]["id"].as_str().unwrap();
        let args = ["answer", id, text, "--question", question, "--url", &running.url];
        let (code, _, errors) = mesh(&args, &[]);
        assert_eq!(code, 0, "{errors}");
        agent.task_in(id, &["completed", "failed"]).await
    };
    let task = answered(&format!("{name}-1"), "yes").await;
    assert_eq!(message(&task), done, "{task:#}");
    let part = |name: &str| {
        let artifacts = task["artifacts"].as_array().unwrap();
        artifacts.iter().find(|artifact| artifact["artifactId"] == name).unwrap()["parts"][0].clone()
    };
    assert_eq!(part("data.json")["data"], json!({ "checked": [{ "n": 1 }], "draft": 5 }));
    assert_eq!(part("raw.bin")["raw"], "AP8=");
    assert_eq!(artifact(&task, "log.txt").as_deref(), Some("one two"));
    let calls = std::fs::read_to_string(dir.join(name).join("calls")).unwrap();
    assert_eq!(calls, "call\n", "once in all turns");
    let used = &task["metadata"][EXTENSION]["usage"];
    assert_eq!(*used, json!({ "inputTokens": 30, "outputTokens": 10, "cost": 0.5 }), "{task:#}");
    running.signal_where("acme.counted", |signal| signal["subject"] == name).await;
    let task = answered(&format!("{name}-2"), "no").await;
    assert_eq!((state(&task).as_str(), message(&task).as_str()), ("failed", error), "{task:#}");
}

async fn logged(running: &Process, agent: &str, text: &str) {
    let is_it = |line: &str| line.contains(&format!("agent={agent} ")) && line.contains(text);
    eventually(text, async || running.log().lines().any(is_it).then_some(())).await;
}

#[tokio::test]
async fn the_modules_report_every_kind_of_line_and_turn_an_exception_into_a_failure() {
    let dir = directory();
    init(dir.path(), "words", "--python");
    file(&dir.path().join("words"), "brain.py", THOROUGH);
    let mut files = vec![Path::new("words/words.yaml")];
    let has_node = languages().iter().any(|(name, _)| *name == "js");
    if has_node {
        init(dir.path(), "words-js", "--node");
        file(&dir.path().join("words-js"), "brain.mjs", THOROUGH_JS);
        files.push(Path::new("words-js/words-js.yaml"));
    }
    let running = up(dir.path(), &files).await;
    let (done, error) = ("turn 2 beside words-", "ValueError: not today");
    let peer = if has_node { "js" } else { "proofreader" };
    check_thorough(&running, dir.path(), "words", &format!("{done}{peer}"), error).await;
    for text in
        ["printed by the brain", "printed by a child", "logged by the brain", "Traceback (most recent"]
    {
        logged(&running, "words", text).await;
    }
    if has_node {
        let (done, error) = ("asked: How? in turn 3 beside words", "TypeError: not today");
        check_thorough(&running, dir.path(), "words-js", done, error).await;
        for text in ["printed by the brain", "logged by the brain", "at work (file:"] {
            logged(&running, "words-js", text).await;
        }
    }
}

#[test]
fn init_overwrites_nothing_without_force_and_says_what_it_wrote() {
    let dir = directory();
    let said = success(dir.path(), "mesh init 'my agents/words' --shell", &[]);
    for part in ["my agents/words/brain.sh", "mesh up 'my agents/words/words.yaml'", "sh test.sh"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let brain = file(&dir.path().join("my agents/words"), "brain.sh", "mine");
    let refused = shell(dir.path(), "mesh init 'my agents/words' --shell", &[]);
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{errors}");
    assert!(errors.contains("brain.sh") && errors.contains("--force"), "{errors}");
    assert_eq!(std::fs::read_to_string(&brain).unwrap(), "mine");
    let forced = success(dir.path(), "mesh init 'my agents/words' --shell --force --json", &[]);
    let forced: Value = serde_json::from_str(&forced).unwrap();
    assert_eq!((&forced["agent"], forced["files"].as_array().unwrap().len()), (&json!("words"), 4));
    assert_ne!(std::fs::read_to_string(&brain).unwrap(), "mine");
    for wrong in ["words", "words --python --node", "'two words' --llm", "registry --llm"] {
        let refused = shell(dir.path(), &format!("mesh init {wrong}"), &[]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
    }
}

/// The blocks of the documentation under this heading, in this language.
fn blocks(heading: &str, language: &str) -> Vec<&'static str> {
    documentation::blocks(section(DOCS, heading), language)
}

/// Runs the commands of a section in their order. `edit` changes what `mesh init` wrote.
async fn run_section(heading: &str, edit: impl Fn(&Path)) -> Vec<String> {
    let dir = directory();
    let outputs = run_commands(section(DOCS, heading), dir.path(), None, edit).await;
    assert!(outputs.len() >= 3, "{heading}: {outputs:?}");
    outputs
}

#[tokio::test]
async fn the_commands_of_the_documentation_run_as_shown() {
    let headings =
        [("--python", "Python"), ("--shell", "Shell"), ("--node", "JavaScript"), ("--rust", "Rust")];
    for (_, language) in languages() {
        let (_, heading) = headings.into_iter().find(|(flag, _)| *flag == language).unwrap();
        let edit = |dir: &Path| {
            if language == "--rust" {
                std::fs::remove_dir_all(dir.join(RUST)).unwrap();
                init(dir, RUST, language);
            }
        };
        let outputs = run_section(heading, edit).await;
        assert!(outputs.iter().any(|output| output.contains("# 4 words")), "{heading}: {outputs:?}");
    }
}

#[tokio::test]
async fn the_agent_with_a_model_runs_as_shown_and_each_commented_model_is_valid() {
    let stub = ModelStub::start(|_| says("I answer questions."));
    let edit = |dir: &Path| {
        let path = dir.join("thinker/thinker.yaml");
        let yaml = std::fs::read_to_string(&path).unwrap();
        let is_model = |line: &&str| line.trim_start().trim_start_matches("# ").starts_with("model: ");
        let (models, others): (Vec<_>, Vec<_>) = yaml.lines().partition(is_model);
        assert_eq!(models.len(), 5, "{yaml}");
        let with = |model: &str, url: &str| {
            let model = format!("llm:\n    {}", model.trim_start().trim_start_matches("# "));
            let text = others.join("\n").replace("llm:", &model);
            std::fs::write(&path, text.replace("# url: http://localhost:8080/v1", url)).unwrap();
        };
        for model in &models {
            let url = if model.contains("/") { "" } else { "url: http://localhost:8080/v1" };
            with(model, url);
            let envs = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"].map(|key| (key, "k"));
            success(dir, "mesh validate thinker/thinker.yaml", &envs);
        }
        with(models[4], &format!("url: {}", stub.url));
    };
    let outputs = run_section("A model", edit).await;
    assert!(outputs.last().unwrap().contains("I answer questions."), "{outputs:?}");
    let requests = stub.requests();
    let instructions = include_str!("../../agent-node/templates/llm/instructions.md");
    assert!(requests[0].system.contains(instructions.trim()), "{requests:?}");
}

#[tokio::test]
async fn the_brains_of_the_documentation_are_those_that_init_writes() {
    let dir = directory();
    init(dir.path(), "py", "--python");
    init(dir.path(), "js", "--node");
    let written = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
    assert_eq!(blocks("Python", "python"), [written("py/brain.py")]);
    assert_eq!(blocks("JavaScript", "js"), [written("js/brain.mjs")]);
    let rust = include_str!("../../agent-node/templates/rust/main.rs");
    assert_eq!(blocks("Rust", "rust"), [rust.strip_suffix("\n#[cfg(test)]\nmod tests;\n").unwrap()]);
    let brain = blocks("Any other language", "sh");
    file(dir.path(), "my-brain", brain[0]);
    let team = "agent: own-01\nopen: true\nbrain: { exec: [sh, my-brain] }";
    let team = file(dir.path(), "team.yaml", team);
    let running = up(dir.path(), &[&team]).await;
    let task = running.agent("own-01").ask(json!({ "description": "x" })).await;
    assert_eq!(artifact(&task, "a.txt").as_deref(), Some("hello"), "{task:#}");
}
