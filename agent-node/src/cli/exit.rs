//! The exit codes of `mesh`, and [`CliError`].

use crate::config::ConfigErrors;
use protocol::{
    problem::{Problem, Reason},
    task::TaskState,
};
use std::process::ExitCode;
use transport::http_client::{is_unreachable, redact_url};

/// The table of exit codes in `--help`.
pub const TABLE: &str = "\
Exit codes:
  0  it worked; a task that was waited for is completed
  1  it failed; a task that was waited for has failed
  2  the command line is wrong
  3  the task was canceled, or the agent would not take it
  4  the time was up; a task goes on, `mesh tasks watch` follows it
  5  nobody answers at that address
  6  the mesh refused; the reason is named
  7  the task waits for an answer, `mesh answer` gives it
  8  `mesh ask --plan` is answered in part; what is missing is named
 69  a port that it needs is taken, or not for you to take
 73  another process has the data directory
 74  the data cannot be read or written
 76  the data has the format of another version
 77  the join secret is none, or not the one of that mesh; or an agent has another key than the registry has pinned
 78  a configuration makes no sense
130  Ctrl-C, 143 SIGTERM; a task that was waited for goes on";

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success. In an error only for a closed output pipe.
    Done = 0,
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The task was canceled or rejected.
    Canceled = 3,
    Timeout = 4,
    Unreachable = 5,
    Refused = 6,
    /// The task waits for an answer.
    NeedsAnswer = 7,
    /// The answer is partial.
    Partial = 8,
    /// A port is taken.
    Port = 69,
    /// Another process holds the data directory.
    Held = 73,
    /// The data cannot be read or written.
    Store = 74,
    /// The data is of another version.
    OtherFormat = 76,
    /// The join secret is missing, invalid or refused, or the key of an agent is.
    Secret = 77,
    /// A configuration is invalid.
    Config = 78,
    /// Ctrl-C: 128 plus the signal's number, as shells do.
    Interrupted = 130,
    Terminated = 143,
}

/// What to start where nothing listens. A client does not know which process of a mesh is meant to be there.
const START: &str = "`mesh up` starts a whole mesh; of one in several processes, `mesh registry`, `mesh blackboard` or \
                     `mesh node FILE` starts the one that is missing";

/// Why a command failed.
#[derive(Debug)]
pub struct CliError {
    pub exit: Exit,
    /// The message for standard error; none if empty.
    pub message: String,
    /// The mesh's reason, if it refused.
    pub reason: Option<Reason>,
}

impl CliError {
    /// An error without a reason of the mesh.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), reason: None }
    }

    /// The error for a problem of a request to `url`.
    pub(super) fn of(problem: &Problem, url: &str) -> Self {
        if !is_unreachable(problem) {
            let message = format!("{} ({})", problem.message, problem.reason.code());
            return Self { reason: Some(problem.reason), ..Self::new(Exit::Refused, message) };
        }
        let url = redact_url(url);
        let refused = problem.message.contains("onnection refused");
        let message = match refused {
            true => format!("nothing listens at {url}; {START}"),
            false => format!("{url} does not answer: {}", problem.message),
        };
        Self::new(Exit::Unreachable, message)
    }

    /// Prints the message to standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            crate::telemetry::print_line(tracing::Level::ERROR, &format!("mesh: {}", self.message));
        }
        ExitCode::from(self.exit as u8)
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::Failed, format!("the output cannot be written: {error}"))
    }
}

impl From<ConfigErrors> for CliError {
    fn from(errors: ConfigErrors) -> Self {
        Self::new(Exit::Config, errors.to_string())
    }
}

/// The exit code for a task's state.
pub(super) fn of_state(state: TaskState) -> Exit {
    match state {
        TaskState::Completed => Exit::Done,
        TaskState::Failed => Exit::Failed,
        TaskState::Canceled | TaskState::Rejected => Exit::Canceled,
        TaskState::InputRequired | TaskState::AuthRequired => Exit::NeedsAnswer,
        TaskState::Submitted | TaskState::Working => Exit::Timeout,
    }
}
