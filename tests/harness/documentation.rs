//! Runs what the documentation shows: fenced `sh` blocks are commands, in their order.

use super::{Process, eventually};
use std::{
    path::Path,
    process::{Command, Output},
};

/// The demo team's ports in the documentation.
const PORTS: [(&str, &str); 5] = [
    ("localhost:8001", "planner-01"),
    ("localhost:8002", "builder-01"),
    ("localhost:8003", "builder-02"),
    ("localhost:8004", "reviewer-01"),
    ("localhost:8005", "orchestrator-01"),
];

/// Runs a command line of the documentation in `dir`, with `mesh` on the path.
pub fn shell(dir: &Path, line: &str, envs: &[(&str, &str)]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_mesh")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(dir).env("PATH", path).envs(envs.iter().copied());
    // That of this test run is not for the cargo of a command.
    command.env_remove("CARGO_TARGET_DIR");
    command.output().unwrap()
}

/// The output of a command line that must succeed.
pub fn success(dir: &Path, line: &str, envs: &[(&str, &str)]) -> String {
    let output = shell(dir, line, envs);
    let [out, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{line}: {}\n{out}{errors}", output.status);
    out + &errors
}

/// Starts `mesh up` with these files.
pub async fn up(dir: &Path, files: &[&Path]) -> Process {
    let files: Vec<_> = files.iter().map(|file| dir.join(file).to_string_lossy().into_owned()).collect();
    let args = ["up", "--port", "0", "--profile", "fast"];
    let args: Vec<_> = args.into_iter().chain(files.iter().map(String::as_str)).collect();
    Process::start(&dir.join("data"), &args).await
}

/// The part of a page under this heading of the second level.
pub fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    page.split("\n## ").find_map(|section| section.strip_prefix(heading)).unwrap()
}

/// The fenced blocks of a text, in this language.
pub fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

/// The commands of a block; one goes on while a quote is open.
fn commands(block: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    for line in block.lines() {
        let last = commands.last_mut().unwrap();
        if last.matches('\'').count() % 2 == 1 {
            *last += &format!("\n{line}");
        } else {
            commands.push(line.to_owned());
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Runs the `sh` blocks of a text in `dir` and returns what they print. `mesh up` runs in the background; `running` is one
/// that runs before the first command. `edit` changes what `mesh init` wrote.
pub async fn run_commands(
    text: &str,
    dir: &Path,
    mut running: Option<Process>,
    edit: impl Fn(&Path),
) -> Vec<String> {
    let mut outputs = Vec::new();
    for line in blocks(text, "sh").into_iter().flat_map(commands) {
        let url = running.as_ref().map(|mesh| mesh.url.clone()).unwrap_or_default();
        let envs = [("MESH_URL", url.as_str()), ("ANTHROPIC_API_KEY", "k")];
        let envs = if url.is_empty() { &envs[1..] } else { &envs };
        if let Some(team) = line.strip_prefix("mesh up ") {
            running = Some(up(dir, &[Path::new(team)]).await);
        } else if line == "mesh inbox" {
            // The task reaches its question after `--no-wait` has returned.
            eventually(&line, async || success(dir, &line, envs).contains("t-").then_some(())).await;
        } else {
            let agents = running.as_ref().map(|mesh| &mesh.agents);
            let real = PORTS.iter().filter_map(|(port, agent)| Some((port, agents?.get(*agent)?)));
            let line = real.fold(line.clone(), |line, (port, url)| {
                line.replace(port, url.trim_start_matches("http://"))
            });
            outputs.push(success(dir, &line, envs));
        }
        if line.starts_with("mesh init") {
            edit(dir);
        }
    }
    outputs
}
