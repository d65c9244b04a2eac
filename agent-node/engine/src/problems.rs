//! Problems that several modules of the engine answer with.

use protocol::{
    envelope::Envelope,
    ids::TaskId,
    problem::{Problem, Reason},
};

pub(crate) fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Internal, error.to_string())
}

/// For a message that names a task the sender may not see, or names no task and belongs to no conversation of this agent.
pub(crate) fn not_found(envelope: &Envelope) -> Problem {
    match envelope.payload.task_id() {
        Some(task) => missing_task(task),
        None => Problem::new(Reason::MessageNotFound, "it answers nothing that was asked here"),
    }
}

/// For a request about a task that does not exist or that the sender may not see.
pub(crate) fn missing_task(task: &TaskId) -> Problem {
    Problem::new(Reason::TaskNotFound, format!("no task {task} of yours"))
}
