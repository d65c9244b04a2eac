//! The operations on tasks: get, list, cancel, subscribe.

use super::{
    call::{A2aCall, store, task_not_found, unavailable},
    send::{follow, snapshot, wait_for},
    stream::TaskEventStream,
    task_index::{TaskCursor, TaskFilter},
};
use crate::{agent::CancelTaskRequest, tasks};
use blackboard::store::Revision;
use engine::{content, records::TaskRow};
use protocol::{
    a2a::{
        error::{A2aError, A2aErrorKind},
        event::StreamResponse,
        limits::PAGE,
        request::{CancelTask, GetTask, ListTasks, SubscribeToTask, TaskPage},
        task::A2aTask,
    },
    task::EXTENSION,
};
use serde_json::Value;

/// The A2A task of `row`, with this length of history, and with its award if the client requests the mesh's extension.
pub(super) fn a2a_task(call: &A2aCall, row: &TaskRow, history: Option<usize>) -> Result<A2aTask, A2aError> {
    let mut task = row.task.to_a2a().with_history(history);
    if let Some(award) = award(call, row)?
        && let Some(extension) = task.metadata.get_mut(EXTENSION).and_then(Value::as_object_mut)
    {
        extension.insert("award".into(), award);
    }
    Ok(task)
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

/// Returns one task.
pub(super) fn get(call: &A2aCall, request: &GetTask) -> Result<A2aTask, A2aError> {
    a2a_task(call, &find(call, &request.id)?.0, request.history_length)
}

/// Cancels a task and returns it as it ended.
pub(super) async fn cancel(call: &A2aCall, request: CancelTask) -> Result<A2aTask, A2aError> {
    let (row, _) = find(call, &request.id)?;
    let given = request.metadata.get("reason").and_then(Value::as_str);
    let reason = given.unwrap_or("canceled by its client").chars().take(500).collect();
    let cancel = CancelTaskRequest { task: row.task.spec.task_id.clone(), by: call.by.clone(), reason };
    call.local.actor.send(cancel).await.map_err(unavailable)??;
    // The task may end later: an award in progress is revoked only when it is committed.
    let ended = wait_for(call, &row.task.spec.task_id, |row| row.ended_at.is_some());
    match tokio::time::timeout(call.ack(), ended).await {
        Ok(ended) => ended?,
        Err(_) => tracing::debug!(task = %row.task.spec.task_id, "canceled, and not ended yet"),
    }
    a2a_task(call, &find(call, &request.id)?.0, None)
}

/// A stream of the task's current state, then every later event.
pub(super) fn subscribe(call: &A2aCall, request: &SubscribeToTask) -> Result<TaskEventStream, A2aError> {
    let (row, head) = find(call, &request.id)?;
    if row.ended_at.is_some() {
        let message = format!("task {} has ended: {}", request.id, row.task.status.state.word());
        return Err(A2aError::new(A2aErrorKind::UnsupportedOperation, message).with("taskId", &request.id));
    }
    call.release_permit();
    let first = StreamResponse::Task(Box::new(a2a_task(call, &row, None)?));
    Ok(TaskEventStream::new(follow(call, row, (head, usize::MAX))?, first, call))
}

/// A page of the caller's tasks, the newest status first. A task that changes between two pages may be on both or on
/// neither; any other is on one.
pub(super) async fn list(call: &A2aCall, request: ListTasks) -> Result<TaskPage, A2aError> {
    let before = request.page_token.as_deref().map(TaskCursor::parse).transpose()?;
    let size = request.page_size.unwrap_or(PAGE);
    let filter = TaskFilter {
        by: call.by.clone(),
        tenant: call.tenant.clone(),
        context_id: request.context_id.clone(),
        state: request.status,
        changed_since: request.status_timestamp_after,
    };
    let local = call.local.clone();
    let includes_artifacts = request.include_artifacts;
    let listed = actix_web::web::block(move || {
        let (store, deletions) = (local.store.as_ref(), local.status.removed_tasks());
        let mut page = local.task_index.page(store, &local.id, deletions, before.as_ref(), size, &filter)?;
        let has_more = page.rows.len() > size;
        page.rows.truncate(size);
        let next = page.rows.last().filter(|_| has_more).map(|(at, _)| at.token());
        let mut found = Vec::with_capacity(page.rows.len());
        for (_, key) in page.rows {
            // A task that was deleted meanwhile is left out.
            if let Some(record) = store.latest(&key)? {
                let row: TaskRow = content::decode(&local.id, store, &record.value)?;
                let row = match includes_artifacts {
                    true => tasks::with_artifacts(store, &local.id, row, Revision::MAX)?,
                    false => row,
                };
                found.push(row.task);
            }
        }
        Ok::<_, blackboard::store::Error>((found, next.unwrap_or_default(), page.total))
    });
    let (tasks, next, total) = listed.await.map_err(unavailable)?.map_err(|error| store(&error))?;
    let tasks = tasks.into_iter().map(|task| {
        let mut task = task.to_a2a().with_history(request.history_length);
        if !includes_artifacts {
            task.artifacts.clear();
        }
        task
    });
    Ok(TaskPage { tasks: tasks.collect(), next_page_token: next, page_size: size, total_size: total })
}
