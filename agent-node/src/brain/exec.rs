//! A command as a brain: it reads one line of JSON, writes JSON lines ([`super::json_lines`]) and exits.

pub mod access;
pub mod check_command;
pub mod os_user;
pub mod private_dir;
mod process;
mod stdio;

use super::{Brain, BrainError, TurnFuture, TurnHandle, TurnRequest, json_lines::BrainLine};
use access::BrainAccessCell;
use os_user::OsUser;
use process::BrainProcess;
use protocol::patterns::turn::TurnEnd;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};
use stdio::{StderrLines, StderrTail, StdoutParser};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::Instant,
};

/// What a command may do on its machine, and its access to the mesh.
#[derive(Debug, Clone, Default)]
pub struct BrainRights {
    /// Its private directory ([`private_dir::prepare`]).
    pub home: Option<PathBuf>,
    /// The user of the operating system that it runs as; that of this process if `None`.
    pub user: Option<OsUser>,
    /// Its access to the mesh, as soon as the node listens.
    pub access: BrainAccessCell,
}

/// Runs a command for each turn.
#[derive(Debug, Clone)]
pub struct ExecBrain {
    /// The program and its arguments. The program `mesh` means the executable in the field `mesh`.
    pub command: Vec<String>,
    /// The executable of `mesh`; that of this process if `None`.
    pub mesh: Option<PathBuf>,
    /// The working directory; that of this process if `None`. A relative program such as `./build.sh` is relative to it.
    pub dir: Option<PathBuf>,
    /// The environment. The command gets this, the node's `PATH` and `LANG`, the `TRACEPARENT` of the turn, and the variables
    /// of [`access::BrainAccess`].
    pub env: BTreeMap<String, String>,
    /// What it gets as `HOME` and `TMPDIR`.
    pub home: Option<PathBuf>,
    /// The user of the operating system that it runs as; that of this process if `None`.
    pub user: Option<OsUser>,
    /// Its access to the mesh.
    pub access: BrainAccessCell,
    /// The longest line of output, bytes.
    pub max_line_bytes: usize,
    /// The largest output of a turn, bytes.
    pub max_output_bytes: usize,
    /// How long the command may run after the end of the turn or of its output before it is killed.
    pub linger: Duration,
}

impl ExecBrain {
    /// `command` with the default limits.
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            mesh: None,
            dir: None,
            env: BTreeMap::new(),
            home: None,
            user: None,
            access: BrainAccessCell::default(),
            max_line_bytes: 1 << 20,
            max_output_bytes: 16 << 20,
            linger: Duration::from_secs(2),
        }
    }
}

impl Brain for ExecBrain {
    fn think(&self, request: TurnRequest, turn: TurnHandle) -> TurnFuture {
        let exec = self.clone();
        Box::pin(async move { exec.run(&request, &turn).await })
    }

    fn name(&self) -> &'static str {
        "exec"
    }
}

impl ExecBrain {
    async fn run(&self, request: &TurnRequest, report: &TurnHandle) -> Result<TurnEnd, BrainError> {
        let not_serializable =
            |error: serde_json::Error| BrainError::NotStarted { what: error.to_string(), source: None };
        let mut question = serde_json::to_vec(request).map_err(not_serializable)?;
        question.push(b'\n');

        let mut child = BrainProcess::start(self, request)?;
        let (mut stdin, mut stdout, mut stderr) = (child.stdin(), child.stdout(), child.stderr());
        let mut output = StdoutParser::new(self.max_line_bytes, self.max_output_bytes);
        let (mut stderr_tail, mut stderr_lines) = (StderrTail::default(), StderrLines::default());
        let mut state = ExecTurnState::default();
        let (mut chunk, mut error_chunk) = (vec![0; 16 * 1024], vec![0; 2 * 1024]);
        let mut written = 0;
        let mut status = None;
        let mut kill_at: Option<Instant> = None;

        while stdout.is_some() || stderr.is_some() || status.is_none() {
            tokio::select! {
                biased;
                sent = async { stdin.as_mut()?.write(&question[written..]).await.ok() }, if stdin.is_some() => {
                    // A brain may exit without reading the request.
                    written += sent.unwrap_or(question.len());
                    if written >= question.len() || sent == Some(0) {
                        stdin = None;
                    }
                }
                read = async { stdout.as_mut()?.read(&mut chunk).await.ok() }, if stdout.is_some() => {
                    let lines = match read {
                        None | Some(0) => { stdout = None; output.end()? }
                        Some(n) => output.push(&chunk[..n])?,
                    };
                    for (number, line) in lines {
                        state.apply(number, line, report).await?;
                    }
                }
                read = async { stderr.as_mut()?.read(&mut error_chunk).await.ok() }, if stderr.is_some() => {
                    match read {
                        None | Some(0) => {
                            stderr = None;
                            if let Some(line) = stderr_lines.complete() {
                                report.log_stderr(line).await;
                            }
                        }
                        Some(n) => {
                            stderr_tail.push(&error_chunk[..n]);
                            for line in stderr_lines.push(&error_chunk[..n]) {
                                report.log_stderr(line).await;
                            }
                        }
                    }
                }
                ended = child.wait(), if status.is_none() => status = Some(ended),
                () = tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => break,
            }
            let is_ending = state.end.is_some() || stdout.is_none() || status.is_some();
            if is_ending && kill_at.is_none() {
                kill_at = Some(Instant::now() + self.linger);
            }
        }
        drop(child);

        if let Some(how) = status.and_then(process::failure) {
            return Err(BrainError::Died { how, stderr: stderr_tail.text() });
        }
        match state.end {
            Some(end) => Ok(end),
            None if state.is_waiting => Ok(TurnEnd::Waiting),
            None => Err(BrainError::NoResult { stderr: stderr_tail.text() }),
        }
    }
}

/// What the lines of a turn have said so far.
#[derive(Default)]
struct ExecTurnState {
    end: Option<TurnEnd>,
    /// Whether a report expects an answer.
    is_waiting: bool,
}

impl ExecTurnState {
    async fn apply(&mut self, number: u64, line: BrainLine, report: &TurnHandle) -> Result<(), BrainError> {
        if self.end.is_some() {
            let problem = "comes after the end of the turn".to_owned();
            return Err(BrainError::InvalidLine { line: number, problem });
        }
        match line {
            BrainLine::End(end) => self.end = Some(end),
            BrainLine::Progress(progress) => {
                self.is_waiting |= super::json_lines::expects_answer(&progress);
                // The end of the turn counts even if the receiver is closed.
                report.send(progress).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
