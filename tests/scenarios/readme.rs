//! The README and the pages of `docs/` work as shown: commands, agent files, brains, links.

use crate::harness::{
    Process, artifact, directory,
    documentation::{blocks, files, run_commands, section},
    file, mesh, state,
};
use patterns::session;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

const README: &str = include_str!("../../README.md");
const GETTING_STARTED: &str = include_str!("../../docs/getting-started.md");
const OWN_AGENTS: &str = include_str!("../../docs/your-own-agents.md");
const BRAIN_PROTOCOL: &str = include_str!("../../docs/brain-protocol.md");

#[tokio::test]
async fn the_agent_file_and_its_brain_work_as_shown() {
    let dir = directory();
    let page = section(OWN_AGENTS, "The agent file");
    let brain = blocks(page, "sh")[0];
    assert!(brain.lines().count() <= 6, "five lines and the shebang: {brain}");
    let build = file(dir.path(), "build.sh", brain);
    std::fs::set_permissions(&build, std::fs::Permissions::from_mode(0o755)).unwrap();
    let team = file(dir.path(), "team.yaml", blocks(page, "yaml")[0]);
    let args = ["up", "--port", "0", "--profile", "fast", &team.to_string_lossy()];
    let mesh = Process::start(&dir.path().join("data"), &args).await;
    for (at, text) in ["An API for cats", "say \"hi\" to 5\\6 of {them}\n\"task\":{\"description\":\"no\"}"]
        .iter()
        .enumerate()
    {
        let task = json!({ "taskId": format!("t-{at}"), "description": text, "capability": "implement-api" });
        let task = mesh.agent("builder-07").ask(task).await;
        assert_eq!(state(&task), "completed", "{task:#}");
        assert_eq!(artifact(&task, "notes.md"), Some(format!("# Notes\n{text}")), "{task:#}");
    }
}

const ASKING: &str = "
agents:
  - agent: builder-07
    skills: [{ id: implement-api }]
    brain: { exec: [./build.sh] }
  - agent: reviewer-01
    skills: [{ id: code-review }]
    brain: { echo: {} }
";

#[tokio::test]
async fn an_answer_to_a_brain_names_the_sender_that_the_documentation_shows() {
    let dir = directory();
    let help = r#"{"type":"help","id":"h1","capability":"code-review","question":"good?"}"#;
    let brain = format!(
        "#!/bin/sh\nread -r ask\ncase \"$ask\" in\n*'\"turn\":1,'*) echo '{help}' ;;\n*) printf '%s' \"$ask\" > seen.json; echo '{{\"type\":\"done\",\"message\":\"seen\"}}' ;;\nesac\n"
    );
    let build = file(dir.path(), "build.sh", &brain);
    std::fs::set_permissions(&build, std::fs::Permissions::from_mode(0o755)).unwrap();
    let team = file(dir.path(), "team.yaml", ASKING);
    let args = ["up", "--port", "0", "--profile", "fast", &team.to_string_lossy()];
    let mesh = Process::start(&dir.path().join("data"), &args).await;
    let task = json!({ "taskId": "t-1", "description": "x", "capability": "implement-api" });
    let task = mesh.agent("builder-07").ask(task).await;
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "seen", "{task:#}");
    let seen: Value = serde_json::from_slice(&std::fs::read(dir.path().join("seen.json")).unwrap()).unwrap();
    let (ok, from) = (&seen["answers"][0]["ok"], &seen["answers"][0]["from"]);
    let shown = format!(r#""answers":[{{"id":"h1","ok":{ok},"from":{from},"#);
    assert!(BRAIN_PROTOCOL.contains(&shown), "{shown}");
}

#[tokio::test]
async fn the_first_steps_run_as_shown() {
    let dir = directory();
    let outputs =
        run_commands(section(README, "First steps"), dir.path(), Some(Process::demo().await), |_| {});
    let [answer, award, trace] = outputs.await.try_into().unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(state(&answer), "completed", "{answer:#}");
    for candidate in ["builder-01", "builder-02"] {
        assert!(award.contains(candidate) && trace.contains(candidate), "{candidate}: {award}{trace}");
    }
}

#[tokio::test]
async fn the_commands_of_getting_started_run_as_shown() {
    let dir = directory();
    let outputs = run_commands(GETTING_STARTED, dir.path(), Some(Process::demo().await), |_| {}).await;
    assert!(outputs.len() >= 9, "{outputs:?}");
    assert!(dir.path().join("library/src/main.rs").exists());
    let greeted = outputs.iter().position(|output| output.trim() == "Hello from greeter");
    assert!(greeted.is_some_and(|at| outputs[at - 1].contains("greeter")), "{outputs:?}");
    assert!(outputs.iter().any(|output| output.contains("completed")), "{outputs:?}");
}

#[tokio::test]
async fn the_agent_in_python_of_the_readme_works_as_shown() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let (dir, page) = (directory(), section(README, "An agent in Python"));
    let smallest = blocks(page, "python")[0];
    let edit = |dir: &Path| drop(file(&dir.join("words"), "brain.py", smallest));
    let outputs = run_commands(page, dir.path(), None, edit).await;
    assert!(outputs.last().unwrap().contains("5 words"), "{outputs:?}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The pages, by their paths: the README, `docs/`, `docs/seeds/`, `deploy/config/`.
fn pages() -> BTreeMap<PathBuf, String> {
    let folders =
        ["docs", "docs/seeds", "deploy/config"].map(|folder| std::fs::read_dir(root().join(folder)).unwrap());
    let files = folders.into_iter().flatten().map(|file| file.unwrap().path());
    let pages =
        files.filter(|path| path.extension().is_some_and(|it| it == "md")).chain([root().join("README.md")]);
    pages.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut is_fenced = false;
    let headings = page.lines().filter(|line| {
        is_fenced ^= line.starts_with("```");
        !is_fenced && line.starts_with('#')
    });
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        text.chars().filter(|it| it.is_alphanumeric() || "-_".contains(*it)).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_relative_link_and_anchor_of_a_page_resolves() {
    let pages = pages();
    assert!(pages.len() >= 18, "{:?}", pages.keys());
    let mut links = 0;
    for (path, page) in &pages {
        for link in page.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            links += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let target = target.canonicalize().unwrap_or_else(|error| panic!("{path:?}: {link}: {error}"));
            let found =
                anchor.is_empty() || anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor);
            assert!(found, "{path:?}: {link}: there is no such heading");
        }
    }
    assert!(links >= 60, "{links}");
}

#[test]
fn the_readme_links_to_every_page_and_is_short() {
    assert!(README.lines().count() <= 140);
    for path in pages().keys() {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        assert!(!name.starts_with("docs/") || README.contains(&format!("]({name})")), "{name}");
    }
}

/// Each row of the table names tests; each of them is a function of that file.
#[test]
fn every_test_that_a_row_of_the_seeds_names_exists() {
    let page = std::fs::read_to_string(root().join("docs/seeds/rows.md")).unwrap();
    let rows =
        page.lines().filter(|line| line.starts_with("| ") && line.contains(|it: char| it.is_ascii_digit()));
    let mut numbers = BTreeSet::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, _, tests] = cells[..] else { panic!("{row}") };
        assert!(numbers.insert(number), "{number} twice");
        let tests: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        // What is not there yet has no test.
        assert!(!tests.is_empty() || cells[2].starts_with("Not yet"), "{row}");
        for test in tests {
            let (module, name) = test.rsplit_once("::").unwrap_or_else(|| panic!("{test}"));
            let file = match module.strip_prefix("scenarios::") {
                Some(module) => format!("tests/scenarios/{}.rs", module.replace("::", "/")),
                None => module.to_owned(),
            };
            let source = std::fs::read_to_string(root().join(&file))
                .unwrap_or_else(|why| panic!("{test}: {file}: {why}"));
            assert!(source.contains(&format!("fn {name}(")), "{test}: no such function in {file}");
        }
    }
    assert!(numbers.len() >= 43, "{numbers:?}");
}

#[test]
fn every_yaml_block_of_a_page_is_valid() {
    let dir = directory();
    file(dir.path(), "researcher.md", "Read before you answer.");
    file(dir.path(), "providers.yaml", "providers: {}");
    file(dir.path(), "agents/reviewers.yaml", "agents: [{ agent: reviewer, brain: { echo: {} } }]");
    // uvx stands for the program of that name, which a machine may lack.
    for name in ["build.sh", "uvx"] {
        let program = file(dir.path(), name, "#!/bin/sh");
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let search = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let keys = [
        ("ANTHROPIC_API_KEY", "a-key"),
        ("OPENAI_API_KEY", "a-key"),
        ("TOOLS_TOKEN", "a-token"),
        ("BUILD_SECRET", "a-secret"),
        ("PATH", &search),
    ];
    let pages = pages();
    let blocks: Vec<_> = pages
        .values()
        .flat_map(|page| blocks(page, "yaml").into_iter().map(move |block| (page, block)))
        .collect();
    assert!(blocks.len() >= 8, "{blocks:?}");
    for (page, block) in blocks {
        for (name, text) in files(page) {
            file(dir.path(), name, text);
        }
        // Its name, if it is a file.
        let block =
            block.strip_prefix("# ").and_then(|named| named.split_once('\n')).map_or(block, |(_, rest)| rest);
        let indented: String = block.lines().map(|line| format!("    {line}\n")).collect();
        let yaml = match block.split_once(':').map(|(first, _)| first) {
            Some("agent" | "agents" | "include" | "mesh" | "parameters" | "providers") => block.to_owned(),
            Some("brain" | "bounds" | "subscribe") => format!("agent: a\n{block}"),
            Some("skills") => format!("agent: a\nbrain: {{ llm: {{ model: ollama/x }} }}\n{block}"),
            Some("tools") => format!("agent: a\nbrain:\n  llm:\n    model: ollama/x\n{indented}"),
            Some("turns") => {
                file(dir.path(), "answers.yaml", block);
                "agent: a\nbrain: { scripted: answers.yaml }\n".to_owned()
            }
            Some("budget" | "phases" | "preset" | "seats" | "space" | "stages") => {
                let mut graph: Value = serde_saphyr::from_str(block).unwrap();
                graph.as_object_mut().unwrap().remove("space");
                session::graph::Graph::read(Some(&graph)).unwrap_or_else(|why| panic!("{block}: {why}"));
                continue;
            }
            other => panic!("{other:?}: {block}"),
        };
        let file = file(dir.path(), "agent.yaml", &yaml);
        let file = file.to_string_lossy();
        let set: &[&str] = if yaml.starts_with("parameters:") { &["--set", "topic=whales"] } else { &[] };
        let (code, _, errors) = mesh(&[&["validate", &file][..], set].concat(), &keys);
        assert_eq!(code, 0, "{yaml}{errors}");
    }
}
