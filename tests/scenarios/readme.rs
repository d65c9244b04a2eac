//! What the README shows to be copied works as it stands there.

use crate::harness::{Process, artifact, directory, file, state};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

const README: &str = include_str!("../../README.md");

/// The indented lines that begin with `first`, up to the next line that is not.
fn block(first: &str) -> String {
    let lines = README.lines().skip_while(|line| line.strip_prefix("    ") != Some(first));
    let block: Vec<_> = lines.map_while(|line| line.strip_prefix("    ")).collect();
    assert!(!block.is_empty(), "the README shows no {first:?}");
    block.join("\n") + "\n"
}

#[tokio::test]
async fn the_agent_and_the_brain_of_the_readme_work_as_they_stand_there() {
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
