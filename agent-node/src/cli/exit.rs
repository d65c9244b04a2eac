//! How the command ends: every exit code, once.

use crate::config::BadConfig;
use blackboard::http_client::{is_unreachable, redact_url};
use protocol::{
    problem::{Problem, Reason},
    task::TaskState,
};
use std::process::ExitCode;

/// The part of `--help` that says what the codes mean.
pub const TABLE: &str = "\
Exit codes:
  0  it worked; a task that was waited for is completed
  1  it failed; a task that was waited for has failed
  2  the command line is wrong
  3  the task was canceled, or the agent would not take it
  4  the time was up; a task goes on, `mesh tasks watch` follows it
  5  nobody answers at that address
  6  the mesh refused; the reason is named
  7  the task waits for an answer, `mesh tasks answer` gives it
  8  `mesh ask --plan` is answered in part; what is missing is named
 69  a port that it needs is taken, or not for you to take
 73  another process has the data directory
 74  the data cannot be read or written
 76  the data is of a newer mesh than this
 77  the join secret is none, or not the one of that mesh
 78  a configuration makes no sense
130  Ctrl-C, 143 SIGTERM; a task that was waited for goes on";

/// What the process says of itself when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done. Only ever part of a failure when nobody reads the output any more.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The task was canceled or rejected.
    Canceled = 3,
    /// The time was up.
    Timeout = 4,
    /// Nobody answers.
    Unreachable = 5,
    /// The mesh refused.
    Refused = 6,
    /// The task waits for an answer.
    NeedsAnswer = 7,
    /// Only a part of the answer is there.
    Partial = 8,
    /// A port is taken.
    Port = 69,
    /// Another process has the data directory.
    Held = 73,
    /// The data cannot be read or written.
    Store = 74,
    /// The data is of another version.
    OtherFormat = 76,
    /// The join secret proves nothing.
    Secret = 77,
    /// A configuration makes no sense.
    Config = 78,
    /// Ctrl-C, by the custom of shells 128 and the signal's number.
    Interrupted = 130,
    /// SIGTERM.
    Terminated = 143,
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// For people; nothing is said if it is empty.
    pub message: String,
    /// Why the mesh refused, if it did.
    pub reason: Option<Reason>,
}

impl Failure {
    /// An end and what to say.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), reason: None }
    }

    /// What a server at `url` refused, or that there is none.
    pub(super) fn of(problem: &Problem, url: &str) -> Self {
        if !is_unreachable(problem) {
            let message = format!("{} ({})", problem.message, problem.reason.code());
            return Self { reason: Some(problem.reason), ..Self::new(Exit::Refused, message) };
        }
        let url = redact_url(url);
        let refused = problem.message.contains("onnection refused");
        let message = match refused {
            true => format!("nothing listens at {url}; start it with `mesh up`"),
            false => format!("{url} does not answer: {}", problem.message),
        };
        Self::new(Exit::Unreachable, message)
    }

    /// Says what there is to say on standard error and gives the code.
    pub fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            crate::telemetry::print_line(tracing::Level::ERROR, &format!("mesh: {}", self.message));
        }
        ExitCode::from(self.exit as u8)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Done, "");
        }
        Self::new(Exit::Failed, format!("the output cannot be written: {error}"))
    }
}

impl From<BadConfig> for Failure {
    fn from(bad: BadConfig) -> Self {
        Self::new(Exit::Config, bad.to_string())
    }
}

/// How a command ends whose task ended like this.
pub(super) fn of_state(state: TaskState) -> Exit {
    match state {
        TaskState::Completed => Exit::Done,
        TaskState::Failed => Exit::Failed,
        TaskState::Canceled | TaskState::Rejected => Exit::Canceled,
        TaskState::InputRequired | TaskState::AuthRequired => Exit::NeedsAnswer,
        TaskState::Submitted | TaskState::Working => Exit::Timeout,
    }
}
