//! The agent file, the brain and the brain's input line that the documentation shows work as shown.

use crate::harness::{Process, artifact, directory, file, state};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const README: &str = include_str!("../../README.md");
const AGENTS: &str = include_str!("../../docs/brain-protocol.md");

/// The indented block of the README that begins with the line `first`.
fn block(first: &str) -> String {
    let lines = README.lines().skip_while(|line| line.strip_prefix("    ") != Some(first));
    let block: Vec<_> = lines.map_while(|line| line.strip_prefix("    ")).collect();
    assert!(!block.is_empty(), "the README shows no {first:?}");
    block.join("\n") + "\n"
}

#[tokio::test]
async fn the_agent_and_the_brain_of_the_readme_work_as_shown() {
    let dir = directory();
    let brain = block("#!/bin/sh");
    assert!(brain.lines().count() <= 6, "five lines and the shebang: {brain}");
    let build = file(dir.path(), "build.sh", &brain);
    std::fs::set_permissions(&build, std::fs::Permissions::from_mode(0o755)).unwrap();
    let team = file(dir.path(), "team.yaml", &block("agent: builder-07"));
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
    assert!(AGENTS.contains(&shown), "{shown}");
}
