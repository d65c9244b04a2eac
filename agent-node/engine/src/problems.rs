//! Refusals that several parts of the agent give.

use protocol::{
    envelope::Envelope,
    ids::TaskId,
    problem::{Problem, Reason},
};

pub(crate) fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Internal, error.to_string())
}

pub(crate) fn not_found(envelope: &Envelope) -> Problem {
    match envelope.payload.task_id() {
        Some(task) => missing_task(task),
        None => Problem::new(Reason::MessageNotFound, "it answers nothing that was asked here"),
    }
}

pub(crate) fn missing_task(task: &TaskId) -> Problem {
    Problem::new(Reason::TaskNotFound, format!("no task {task} of yours"))
}
