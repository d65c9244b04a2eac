//! A command as a brain: it reads one line of JSON, writes JSON lines ([`super::json_lines`]) and exits. As a worker it takes many
//! turns.

pub mod access;
pub mod check_command;
mod command;
pub(super) mod process;
mod stderr;
mod workers;

use super::{
    Brain, BrainError, TurnFuture, TurnHandle, TurnRequest,
    bidding::{BidFuture, BidRequest, BrainEnd},
    json_lines::{input_line, prompt_line},
    server_log::ServerLog,
};
use crate::{os_user::OsUser, tool_login::ToolLogins};
use access::{BrainAccess, BrainAccessCell};
use command::RunningCommand;
use patterns::turn::TurnEnd;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};
use workers::{BrainQuestion, WorkerPool};

/// What a command may do on its machine, and its access to the mesh.
#[derive(Debug, Clone, Default)]
pub struct BrainRights {
    /// Its private directory ([`crate::private_dir::prepare`]).
    pub home: Option<PathBuf>,
    /// The user of the operating system that it runs as; that of this process if `None`.
    pub user: Option<OsUser>,
    /// Its access to the mesh, as soon as the node listens.
    pub access: BrainAccessCell,
    /// Where the standard error of a tool server goes.
    pub log: ServerLog,
    /// The logins at its tool servers.
    pub logins: Option<ToolLogins>,
}

/// How a command takes its turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExecMode {
    /// A process for each turn; its standard input ends with the prompt.
    #[default]
    OneShot,
    /// A process for each turn; its standard input stays open for the lines about the turn.
    Duplex,
    /// A process for many turns, one at a time; its standard input stays open.
    Worker,
}

impl ExecMode {
    /// As the command finds it in its environment.
    fn word(self) -> Option<&'static str> {
        match self {
            Self::OneShot => None,
            Self::Duplex => Some("duplex"),
            Self::Worker => Some("worker"),
        }
    }
}

/// Runs a command for the turns of an agent.
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
    /// How long the command may run after the end of the turn, of its output or of its input before it is killed, and after a
    /// turn was stopped.
    pub linger: Duration,
    /// How it takes its turns.
    pub mode: ExecMode,
    workers: Arc<WorkerPool>,
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
            mode: ExecMode::default(),
            workers: Arc::default(),
        }
    }
}

impl Brain for ExecBrain {
    fn think(&self, request: TurnRequest, turn: TurnHandle) -> TurnFuture {
        let exec = self.clone();
        Box::pin(async move {
            let node = exec.access.get().map(BrainAccess::url);
            let (prompt, turn) = match prompt_line::prompt_text(&request, turn.access(), node).await {
                Ok(prompt) => (prompt.line, turn.with_references(prompt.references)),
                Err(error) => return Ok(TurnEnd::Failed { reason: error.to_string() }),
            };
            let question = BrainQuestion {
                agent: request.agent.clone(),
                key: request.key.clone(),
                prompt,
                turn: Some(Box::new(request)),
            };
            exec.ask(question, &turn).await?.into_turn()
        })
    }

    fn bid(&self, request: BidRequest, turn: TurnHandle) -> BidFuture {
        let exec = self.clone();
        Box::pin(async move {
            let prompt = input_line::call(&request).map_err(command::not_serializable)?;
            let question = BrainQuestion { agent: request.agent, key: request.key, prompt, turn: None };
            exec.ask(question, &turn).await?.into_bid()
        })
    }

    fn name(&self) -> &'static str {
        "exec"
    }
}

impl ExecBrain {
    async fn ask(&self, question: BrainQuestion, report: &TurnHandle) -> Result<BrainEnd, BrainError> {
        match self.mode {
            ExecMode::OneShot => {
                let mut command = RunningCommand::start(self, question.turn.as_deref())?;
                command.run_turn(self, &question.prompt, &question.key, report).await
            }
            ExecMode::Duplex | ExecMode::Worker => self.workers.run(self, &question, report).await,
        }
    }
}

#[cfg(test)]
mod tests;
