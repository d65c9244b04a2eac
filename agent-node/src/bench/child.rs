//! The servers under measure run in processes of their own, so that they and the generator share the machine fairly.

use super::{award, fan_out, reference, subject};
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
};

/// The kernel counts processor time in hundredths of a second.
const TICKS: f64 = 100.0;

/// How this program is started again to serve one [`Role`].
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable.
    pub path: PathBuf,
    /// The arguments after which it calls [`serve`].
    pub arguments: Vec<String>,
}

/// What a child process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub(super) enum Role {
    /// A bare server to compare with.
    Reference(reference::Bare),
    /// A node with one agent whose tasks stay open.
    Node(subject::Held),
    /// A manager and its bidders.
    Award(award::Scene),
    /// A blackboard.
    Board(fan_out::Board),
}

/// What a child says once it listens.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ready {
    /// Where.
    pub(super) address: SocketAddr,
}

/// A child at work; it ends when this is dropped.
pub(super) struct Child {
    process: std::process::Child,
    said: BufReader<std::process::ChildStdout>,
    /// Where it listens.
    pub(super) address: SocketAddr,
}

impl Child {
    /// Starts a child in `role` and waits until it listens.
    pub(super) fn start(program: &Program, role: &Role) -> anyhow::Result<Self> {
        let mut process = Command::new(&program.path)
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} can't be started", program.path.display()))?;
        let (Some(stdin), Some(stdout)) = (process.stdin.as_mut(), process.stdout.take()) else {
            bail!("a child process without pipes");
        };
        writeln!(stdin, "{}", serde_json::to_string(role)?)?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut child = Self { process, said: BufReader::new(stdout), address: nowhere };
        child.address = child.hear::<Ready>()?.address;
        Ok(child)
    }

    /// The next line it prints.
    pub(super) fn hear<T: for<'de> Deserialize<'de>>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("a child of the benchmark ended early: {line:?}"))
    }

    /// Lets it begin what it waits with.
    pub(super) fn go(&mut self) -> anyhow::Result<()> {
        let stdin = self.process.stdin.as_mut().context("a child process without a pipe")?;
        Ok(writeln!(stdin)?)
    }

    /// The processor time it has used, in seconds (Linux; 0 elsewhere).
    pub(super) fn used(&self) -> f64 {
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
    pub(super) fn resident(&self) -> anyhow::Result<u64> {
        resident(self.process.id())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The memory process `id` has in use, bytes (Linux).
pub(super) fn resident(id: u32) -> anyhow::Result<u64> {
    let status =
        std::fs::read_to_string(format!("/proc/{id}/status")).context("memory is known on Linux only")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

/// The child's side: serves the role that the first line of standard input names, until standard input ends.
pub fn serve() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let role: Role = serde_json::from_str(&line).context("standard input names no role")?;
    actix::System::new().block_on(async {
        match role {
            Role::Reference(bare) => reference::serve(bare).await,
            Role::Node(held) => subject::serve(held).await,
            Role::Award(scene) => award::serve(scene).await,
            Role::Board(board) => fan_out::serve(board).await,
        }
    })
}

/// Tells the parent something.
pub(super) fn say(what: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

/// Waits for the parent's next line; `false` once it is gone.
pub(super) async fn parent_spoke() -> bool {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new()));
    matches!(read.await, Ok(Ok(1..)))
}
