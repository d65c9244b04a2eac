//! A mesh of several processes: registry, blackboard and any number of nodes. Each can be killed.

use super::{Process, directory, file, ports::reserved_port};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The join secret of the mesh.
pub const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A registry and a blackboard, each a process, that nodes can join.
pub struct Cluster {
    pub registry: Process,
    pub board: Process,
    pub dir: TempDir,
    /// Environment variables of its nodes, `NAME=value`.
    pub environment: Vec<String>,
}

fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

impl Cluster {
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    /// The same, with terms for the registry, as YAML.
    pub async fn start_with(terms: Option<&str>) -> Self {
        let dir = directory();
        let join = file(dir.path(), "join", SECRET);
        let join = join.to_string_lossy().into_owned();
        let [board_port, registry_port] = [reserved_port(), reserved_port()].map(|port| port.to_string());
        let args = strings(&["blackboard", "--port", &board_port, "--profile", "fast", "--join", &join]);
        let board = Process::run(dir.path().join("board"), args, None).await;
        let args = ["--port", &registry_port, "--profile", "fast", "--join", &join];
        let terms = terms.map(|terms| file(dir.path(), "terms.yaml", terms).to_string_lossy().into_owned());
        let terms: Vec<_> = terms.iter().map(String::as_str).collect();
        let registry = [&["registry", "--board", &board.url][..], &args, &terms].concat();
        let registry = Process::run(dir.path().join("registry"), strings(&registry), None).await;
        Self { registry, board, dir, environment: Vec::new() }
    }

    /// Starts a node with the agents in `yaml`; its data and its team file are named `name`.
    pub async fn node(&self, name: &str, yaml: &str) -> Process {
        let args = self.node_args(name, yaml);
        Process::run(self.dir.path().join(name), args, None).await
    }

    /// The same with more arguments.
    pub async fn node_with(&self, name: &str, yaml: &str, more: &[&str]) -> Process {
        let args = self.node_args(name, yaml).into_iter().chain(strings(more)).collect();
        Process::run(self.dir.path().join(name), args, None).await
    }

    fn node_args(&self, name: &str, yaml: &str) -> Vec<String> {
        let team = file(self.dir.path(), &format!("{name}.yaml"), yaml);
        let join = self.dir.path().join("join");
        let (team, join) = (team.to_string_lossy().into_owned(), join.to_string_lossy().into_owned());
        let (registry, board) = (&self.registry.url, &self.board.url);
        let args = ["node", "--registry", registry, "--board", board, "--join", &join];
        let more = ["--port", "0", "--profile", "fast", &team];
        let environment = self.environment.iter().cloned();
        environment.chain(strings(&args)).chain(strings(&more)).collect()
    }

    /// Gives a node that is to be started the keys of another one: it may then run the same agents.
    pub fn copy_keys(&self, from: &str, to: &str) {
        let (from, to) = (self.path(from).join("keys"), self.path(to).join("keys"));
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let file = entry.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Restarts the board on its data at another port, and the registry at its old port with the new address.
    pub async fn move_board(&mut self) {
        let mut registry = std::mem::take(&mut self.registry.args);
        let before = self.board.url.clone();
        self.registry.kill();
        self.board.kill();
        let mut board = std::mem::take(&mut self.board.args);
        let port = board.iter().position(|arg| arg == "--port").unwrap() + 1;
        board[port] = reserved_port().to_string();
        self.board = Process::run(self.board.data.clone(), board, None).await;
        registry.iter_mut().filter(|arg| **arg == before).for_each(|arg| arg.clone_from(&self.board.url));
        self.registry = Process::run(self.registry.data.clone(), registry, None).await;
    }

    /// Waits until all of `agents` are registered and alive.
    pub async fn wait_for_agents(&self, agents: &[&str]) {
        for id in agents {
            self.registry.entry_where(id, |entry| entry["state"] == "alive").await;
        }
    }
}

impl Process {
    /// Kills the process and starts it again on the same data.
    pub async fn revive(&mut self) {
        self.kill();
        let dir = self._dir.take();
        *self = Self::run(self.data.clone(), self.args.clone(), dir).await;
    }

    /// Runs the program with the arguments of this process, which has ended, on the same data, and waits for its end: the exit
    /// code and the errors.
    pub fn run_to_end(&self) -> (i32, String) {
        let data = self.data.to_string_lossy();
        let args: Vec<_> = self.args.iter().map(String::as_str).chain(["--data", &data]).collect();
        let (code, _, errors) = super::mesh(&args, &[]);
        (code, errors)
    }

    /// Waits for a registry entry of an agent that matches; returns it.
    pub async fn entry_where(
        &self,
        agent: &str,
        matches: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        super::eventually(&format!("{agent} in the registry as expected"), async || {
            let entry = super::get(&format!("{}/registry/agents/{agent}", self.url)).await;
            matches(&entry).then_some(entry)
        })
        .await
    }
}

/// A brain that appends `<task> <key> <agent>` to `<dir>/effects` when a turn starts, and ends the turn once `<dir>/open`
/// or `<dir>/open-<agent>` exists. Its artifact names the agent. It exits when `dir` is deleted.
pub fn gated_brain(dir: &Path, agent: &str) -> String {
    let script = format!(
        r#"#!/bin/sh
read -r line
task=$(printf '%s' "$line" | sed 's/.*"taskId":"\([^"]*\)".*/\1/')
key=$(printf '%s' "$line" | sed 's/.*"key":"\([^"]*\)".*/\1/')
echo "$task $key {agent}" >> '{dir}/effects'
while [ ! -e '{dir}/open' ] && [ ! -e "{dir}/open-{agent}" ]; do [ -d '{dir}' ] || exit 1; sleep 0.03; done
echo '{{"type":"artifact","name":"out.txt","text":"made by {agent}"}}'
echo '{{"type":"done"}}'
"#,
        dir = dir.display()
    );
    file(dir, &format!("{agent}.sh"), &script).to_string_lossy().into_owned()
}

/// The turns that the gated brains of `dir` have started: task, key, agent.
pub fn started_turns(dir: &Path) -> Vec<(String, String, String)> {
    let text = std::fs::read_to_string(dir.join("effects")).unwrap_or_default();
    let word = |line: &str, at: usize| line.split(' ').nth(at).unwrap_or_default().to_owned();
    text.lines().map(|line| (word(line, 0), word(line, 1), word(line, 2))).collect()
}
