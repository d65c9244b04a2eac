//! Child processes: this program, started again with `--serve` to serve one [`Role`].

use crate::{agent_loop, award, fan_out, nodes};
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Command, Stdio},
};

/// The kernel counts processor time in hundredths of a second.
const TICKS: f64 = 100.0;

/// What a child process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub(crate) enum Role {
    /// A node with one agent whose tasks stay open.
    TaskNode(nodes::TaskNode),
    /// A manager and its bidders.
    Award(award::AwardScenario),
    Board,
    /// An agent with a model.
    Thinker(agent_loop::Thinker),
}

/// What a child prints once it listens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChildAddress {
    pub(crate) address: SocketAddr,
}

/// A running child process; it ends when dropped.
pub(crate) struct Child {
    process: std::process::Child,
    said: BufReader<std::process::ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Child {
    /// Starts a child in `role` and waits until it listens.
    pub(crate) fn start(role: &Role) -> anyhow::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a child process can't be started")?;
        let (Some(stdin), Some(stdout)) = (process.stdin.as_mut(), process.stdout.take()) else {
            bail!("a child process without pipes");
        };
        writeln!(stdin, "{}", serde_json::to_string(role)?)?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut child = Self { process, said: BufReader::new(stdout), address: nowhere };
        child.address = child.hear::<ChildAddress>()?.address;
        Ok(child)
    }

    /// The next line it prints.
    pub(crate) fn hear<T: for<'de> Deserialize<'de>>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("a child of the benchmark ended early: {line:?}"))
    }

    /// Tells it to start.
    pub(crate) fn go(&mut self) -> anyhow::Result<()> {
        let stdin = self.process.stdin.as_mut().context("a child process without a pipe")?;
        Ok(writeln!(stdin)?)
    }

    /// The processor time it has used, in seconds (Linux; 0 elsewhere).
    pub(crate) fn processor_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks: f64 = after_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse::<f64>().ok())
            .sum();
        ticks / TICKS
    }

    /// The memory it has in use, bytes (Linux).
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.context("memory is known on Linux only")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The child's side: serves the role that the first line of standard input names, until standard input ends.
pub(crate) fn serve() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let role: Role = serde_json::from_str(&line).context("standard input names no role")?;
    actix::System::new().block_on(async {
        match role {
            Role::TaskNode(node) => nodes::serve(node).await,
            Role::Award(scenario) => award::serve(scenario).await,
            Role::Board => fan_out::serve().await,
            Role::Thinker(thinker) => agent_loop::serve(thinker).await,
        }
    })
}

/// Prints one line for the parent.
pub(crate) fn report(what: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

/// Waits for the parent's next line; `false` if the parent has ended.
pub(crate) async fn wait_for_parent() -> bool {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new()));
    matches!(read.await, Ok(Ok(1..)))
}
