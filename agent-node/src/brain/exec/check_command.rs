//! A command that is run once: it gets something on its standard input, and what counts is its standard output and its exit code.
//! As a check of a result it gets the turn, writes findings, and its exit code is the verdict.

use super::{
    BrainError, ExecBrain,
    process::{self, BrainProcess},
    stderr::{StderrLines, StderrTail},
};
use crate::brain::{TurnHandle, TurnRequest, excerpt};
use protocol::acceptance::MAX_FINDINGS;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How much of the findings is shown, bytes; what is said before them has room, too.
const MAX_SHOWN: usize = MAX_FINDINGS - 1_024;

/// How a check ended.
#[derive(Debug, PartialEq, Eq)]
pub enum CheckExit {
    Accepted,
    /// With another code, except 126 and 127, by which shells say that there is no such command.
    Refused {
        code: i32,
        /// The beginning of its standard output; the end of its standard error if it wrote nothing there.
        findings: String,
    },
}

/// Runs the command of `exec` for the result in `request`. Its standard error goes to the log of `turn`. Fails if it can't be
/// started, or dies by a signal.
pub async fn run(
    exec: &ExecBrain,
    request: &TurnRequest,
    turn: &TurnHandle,
) -> Result<CheckExit, BrainError> {
    let not_serializable =
        |error: serde_json::Error| BrainError::NotStarted { what: error.to_string(), source: None };
    let mut input = serde_json::to_vec(request).map_err(not_serializable)?;
    input.push(b'\n');
    let CommandOutput { code, said, tail } =
        run_once(exec, Some(request), &input, MAX_FINDINGS.saturating_add(4), turn).await?;
    if code == 0 {
        return Ok(CheckExit::Accepted);
    }
    let said = String::from_utf8_lossy(&said);
    let findings = match said.trim() {
        "" => tail,
        said => excerpt::beginning(said, MAX_SHOWN).to_owned(),
    };
    Ok(CheckExit::Refused { code, findings })
}

/// What a command has said.
pub(crate) struct CommandOutput {
    /// Its exit code; never 126 or 127, by which shells say that there is no such command.
    pub(crate) code: i32,
    /// The beginning of its standard output.
    pub(crate) said: Vec<u8>,
    /// The end of its standard error.
    pub(crate) tail: String,
}

/// Runs the command of `exec` with `input` on its standard input, for the turn of `request` if there is one, and keeps the first
/// `max` bytes that it says. Its standard error goes to the log of `turn`. Fails if it can't be started, or dies by a signal.
pub(crate) async fn run_once(
    exec: &ExecBrain,
    request: Option<&TurnRequest>,
    input: &[u8],
    max: usize,
    turn: &TurnHandle,
) -> Result<CommandOutput, BrainError> {
    let mut child = BrainProcess::start(exec, request)?;
    let (stdin, stdout, stderr) = (child.stdin(), child.stdout(), child.stderr());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A check may end without reading the result.
            let _ = stdin.write_all(input).await;
        }
    };
    let read = async {
        let mut said = Vec::new();
        if let Some(mut stdout) = stdout {
            let mut chunk = vec![0; 16 * 1024];
            while let Ok(count @ 1..) = stdout.read(&mut chunk).await {
                let room = max.saturating_sub(said.len());
                said.extend_from_slice(&chunk[..count.min(room)]);
            }
        }
        said
    };
    let log = async {
        let (mut tail, mut lines) = (StderrTail::default(), StderrLines::default());
        if let Some(mut stderr) = stderr {
            let mut chunk = vec![0; 2 * 1024];
            while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
                tail.push(&chunk[..count]);
                for line in lines.push(&chunk[..count]) {
                    turn.log_stderr(line).await;
                }
            }
            if let Some(line) = lines.complete() {
                turn.log_stderr(line).await;
            }
        }
        tail
    };
    let wait = async {
        let status = child.wait().await;
        // What the command has left running must not hold its output open.
        drop(child);
        status
    };
    let (status, said, tail, ()) = tokio::join!(wait, read, log, write);
    let code = status.as_ref().ok().and_then(std::process::ExitStatus::code);
    match (code, process::failure(&status)) {
        (_, None) => Ok(CommandOutput { code: 0, said, tail: tail.text() }),
        (Some(code), Some(_)) if code != 126 && code != 127 => {
            Ok(CommandOutput { code, said, tail: tail.text() })
        }
        (_, Some(how)) => Err(BrainError::Died { how, stderr: tail.text() }),
    }
}
