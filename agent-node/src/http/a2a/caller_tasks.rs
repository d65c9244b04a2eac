//! The tasks that a caller may see: one of them as it is now, and as it goes on.

use super::call::{A2aCall, store, task_not_found};
use crate::tasks::{self, follower::TaskFollower};
use engine::records::{TaskRow, keys};
use protocol::{
    a2a::{
        error::{A2aError, A2aErrorKind},
        hitl,
        task::A2aTask,
    },
    ids::TaskId,
    task::EXTENSION,
};
use serde_json::Value;
use store::{Filter, Revision};

/// The A2A task of `row`, with this length of history, and with its award if the client requests the mesh's extension.
pub(super) fn a2a_task(call: &A2aCall, row: &TaskRow, history: Option<usize>) -> Result<A2aTask, A2aError> {
    let mut task = row.task.to_a2a().with_history(history);
    if let Some(award) = award(call, row)?
        && let Some(extension) = task.metadata.get_mut(EXTENSION).and_then(Value::as_object_mut)
    {
        extension.insert("award".into(), award);
    }
    attach_hitl(call, row, &mut task);
    Ok(task)
}

/// Shows the open questions to a client that activates the human-in-the-loop extension.
fn attach_hitl(call: &A2aCall, row: &TaskRow, task: &mut A2aTask) {
    if call.wants_hitl() && row.ended_at.is_none() {
        hitl::attach(&mut task.status.message, &task.id, &row.task.status.questions);
    }
}

/// The award record, if the client requests the mesh's extension.
fn award(call: &A2aCall, row: &TaskRow) -> Result<Option<Value>, A2aError> {
    if !call.wants_extension() {
        return Ok(None);
    }
    let found = tasks::award(call.local.store.as_ref(), &call.local.id, &row.task.conversation);
    found.map_err(|error| store(&error))
}

/// One of the caller's tasks, and the store's revision of the read.
pub(super) fn find(call: &A2aCall, id: &str) -> Result<(TaskRow, u64), A2aError> {
    let (row, head) = snapshot(call, &call.task_id(id)?)?;
    if call.may_see(&row.task) { Ok((row, head)) } else { Err(task_not_found(id)) }
}

pub(super) fn follow(
    call: &A2aCall,
    row: TaskRow,
    after: tasks::follower::TaskEventCursor,
) -> Result<TaskFollower, A2aError> {
    TaskFollower::after(call.local.store.clone(), call.local.id.clone(), row, after)
        .map_err(|error| store(&error))
}

/// Waits until `is_reached` is true for the task, and returns its row without artifacts. Fails when the node drains.
pub(super) async fn wait_for(
    call: &A2aCall,
    task: &TaskId,
    is_reached: impl Fn(&TaskRow) -> bool,
) -> Result<TaskRow, A2aError> {
    let mut current = row(call, task)?;
    if is_reached(&current) {
        return Ok(current);
    }
    let filter = Filter::Exactly(keys::task(&call.local.id, task, &current.task.owner));
    let mut changes =
        call.local.store.watch(filter, call.local.store.head()).map_err(|error| store(&error))?;
    let drained = call.drained();
    tokio::pin!(drained);
    loop {
        current = row(call, task)?;
        if is_reached(&current) {
            return Ok(current);
        }
        tokio::select! {
            biased;
            change = changes.next() => drop(change.map_err(|error| store(&error))?),
            () = &mut drained => {
                let message = format!("{} leaves; task {task} goes on, and GetTask tells how it stands", call.local.id);
                return Err(A2aError::new(A2aErrorKind::Unavailable, message).with("taskId", task));
            }
        }
    }
}

pub(super) fn row(call: &A2aCall, task: &TaskId) -> Result<TaskRow, A2aError> {
    let found = tasks::row(call.local.store.as_ref(), &call.local.id, task, &call.by);
    found.map_err(|error| store(&error))?.ok_or_else(|| task_not_found(task.as_str()))
}

pub(super) fn with_artifacts(call: &A2aCall, row: TaskRow) -> Result<TaskRow, A2aError> {
    tasks::with_artifacts(call.local.store.as_ref(), &call.local.id, row, Revision::MAX)
        .map_err(|error| store(&error))
}

pub(super) fn snapshot(call: &A2aCall, task: &TaskId) -> Result<(TaskRow, u64), A2aError> {
    let found = tasks::snapshot(call.local.store.as_ref(), &call.local.id, task, &call.by);
    found.map_err(|error| store(&error))?.ok_or_else(|| task_not_found(task.as_str()))
}
