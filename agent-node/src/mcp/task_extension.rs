//! Tasks of the mesh as tasks of MCP's extension `io.modelcontextprotocol/tasks`: a client polls `tasks/get`, answers by
//! `tasks/update`, and ends one by `tasks/cancel`. Both have the same id.

use super::{
    task_output::{TaskOutput, open_questions},
    tool_call::task_result,
    waiting::{askable, input_requests},
};
use protocol::{a2a::task::A2aTask, task::TaskState};
use rmcp::model::{DetailedTask, Task, TaskPayload as DetailedState, TaskStatus};

/// How often a client is asked to poll.
const POLL_INTERVAL_MS: u64 = 1_000;

/// The task without its result. `may_approve` says whether an approval of the client counts.
pub(super) fn handle(task: &A2aTask, may_approve: bool) -> Task {
    let at = task.status.timestamp.map(|at| at.to_string()).unwrap_or_default();
    let handle = Task::new(task.id.clone(), status(task, may_approve), at.clone(), at)
        .with_poll_interval_ms(POLL_INTERVAL_MS);
    match &task.status.message {
        Some(message) => handle.with_status_message(message.as_text()),
        None => handle,
    }
}

/// The task with its questions or its result.
pub(super) fn detailed(task: &A2aTask, may_approve: bool) -> DetailedTask {
    let payload = match status(task, may_approve) {
        TaskStatus::Cancelled => DetailedState::Cancelled,
        TaskStatus::Completed => {
            let result = serde_json::to_value(task_result(&TaskOutput::of(task)));
            let members = result.ok().and_then(|result| result.as_object().cloned());
            DetailedState::Completed { result: members.unwrap_or_default() }
        }
        TaskStatus::InputRequired => {
            let input_requests = input_requests(askable(&open_questions(task), may_approve));
            DetailedState::InputRequired { input_requests }
        }
        TaskStatus::Working | TaskStatus::Failed | _ => DetailedState::Working,
    };
    DetailedTask::new(handle(task, may_approve), payload)
}

/// A task that failed is a completed one whose result is an error: `failed` is for errors of the protocol.
fn status(task: &A2aTask, may_approve: bool) -> TaskStatus {
    match task.status.state {
        TaskState::Completed | TaskState::Failed | TaskState::Rejected => TaskStatus::Completed,
        TaskState::Canceled => TaskStatus::Cancelled,
        TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => {
            // What can't be asked by a form is answered elsewhere.
            let asks = askable(&open_questions(task), may_approve).next().is_some();
            if asks { TaskStatus::InputRequired } else { TaskStatus::Working }
        }
    }
}
