//! The operations on tasks: get, list, cancel, subscribe.

use super::{
    call::{A2aCall, store, unavailable},
    caller_tasks::{a2a_task, find, follow, wait_for},
    page_token::PageToken,
    stream::TaskEventStream,
};
use crate::{agent::CancelTaskRequest, tasks};
use engine::records::lists::TaskFilter;
use protocol::{
    a2a::{
        error::{A2aError, A2aErrorKind},
        event::StreamResponse,
        limits::PAGE,
        request::{CancelTask, GetTask, ListTasks, SubscribeToTask, TaskPage},
        task::A2aTask,
    },
    task::Task,
};
use serde_json::Value;
use store::{Error, ListQuery};

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
        Ok(ended) => drop(ended?),
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
    let token = request.page_token.as_deref().map(PageToken::parse).transpose()?;
    let size = request.page_size.unwrap_or(PAGE);
    let filter = TaskFilter {
        state: request.status,
        context: request.context_id,
        changed_since: request.status_timestamp_after,
        hides_confidential: call.is_unproven(),
    };
    let query = ListQuery {
        after: token.map(|token| token.position),
        ..filter.of_tenant(&call.local.id, &call.by, call.tenant.as_deref())
    };
    let local = call.local.clone();
    let includes_artifacts = request.include_artifacts;
    let listed = actix_web::web::block(move || {
        let store = local.store.as_ref();
        let mut keys = store.list(&query, size + 1)?;
        let has_more = keys.len() > size;
        keys.truncate(size);
        let total = match token {
            Some(token) => token.total,
            None if has_more => store.count(&query)?,
            None => keys.len() as u64,
        };
        let last = keys.last().filter(|_| has_more);
        let next = last.map(|last| PageToken { position: last.position, total }.encode());
        let listed = tasks::listed(store, &local.id, keys, includes_artifacts)?;
        Ok::<_, Error>((listed, next.unwrap_or_default(), total))
    });
    let (mut tasks, next, total) = listed.await.map_err(unavailable)?.map_err(|error| store(&error))?;
    // The store's lists and contexts have numbers made from their names.
    let is_of_context = |task: &Task| filter.context.as_deref().is_none_or(|id| id == task.context_id());
    tasks.retain(|task| call.may_see(task) && is_of_context(task));
    let tasks = tasks.into_iter().map(|task| {
        let mut task = task.to_a2a().with_history(request.history_length);
        if !includes_artifacts {
            task.artifacts.clear();
        }
        task
    });
    let total_size = usize::try_from(total).unwrap_or(usize::MAX);
    Ok(TaskPage { tasks: tasks.collect(), next_page_token: next, page_size: size, total_size })
}
