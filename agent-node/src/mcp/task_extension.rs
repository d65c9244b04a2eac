//! Tasks of the mesh as tasks of MCP's extension `io.modelcontextprotocol/tasks`: a client polls `tasks/get`, answers by
//! `tasks/update`, and ends one by `tasks/cancel`. Both have the same id.

use super::{
    task_output::{TaskOutput, open_questions},
    tools::task_result,
    waiting::input_requests,
};
use protocol::{a2a::task::A2aTask, task::TaskState};
use rmcp::model::{DetailedTask, Task, TaskPayload as DetailedState, TaskStatus};

/// How often a client is asked to poll.
const POLL_INTERVAL_MS: u64 = 1_000;

/// The task without its result.
pub(super) fn handle(task: &A2aTask) -> Task {
    let at = task.status.timestamp.map(|at| at.to_string()).unwrap_or_default();
    let handle =
        Task::new(task.id.clone(), status(task), at.clone(), at).with_poll_interval_ms(POLL_INTERVAL_MS);
    match &task.status.message {
        Some(message) => handle.with_status_message(message.as_text()),
        None => handle,
    }
}

/// The task with its questions or its result.
pub(super) fn detailed(task: &A2aTask) -> DetailedTask {
    let payload = match status(task) {
        TaskStatus::Cancelled => DetailedState::Cancelled,
        TaskStatus::Completed => {
            let result = serde_json::to_value(task_result(&TaskOutput::of(task)));
            let members = result.ok().and_then(|result| result.as_object().cloned());
            DetailedState::Completed { result: members.unwrap_or_default() }
        }
        TaskStatus::InputRequired => {
            let input_requests = input_requests(open_questions(task).iter());
            DetailedState::InputRequired { input_requests }
        }
        TaskStatus::Working | TaskStatus::Failed | _ => DetailedState::Working,
    };
    DetailedTask::new(handle(task), payload)
}

/// A task that failed is a completed one whose result is an error: `failed` is for errors of the protocol.
fn status(task: &A2aTask) -> TaskStatus {
    match task.status.state {
        TaskState::Completed | TaskState::Failed | TaskState::Rejected => TaskStatus::Completed,
        TaskState::Canceled => TaskStatus::Cancelled,
        TaskState::Submitted | TaskState::Working | TaskState::InputRequired | TaskState::AuthRequired => {
            // What can't be asked by a form is answered elsewhere.
            let asks = !input_requests(open_questions(task).iter()).is_empty();
            if asks { TaskStatus::InputRequired } else { TaskStatus::Working }
        }
    }
}
