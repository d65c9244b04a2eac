//! Tasks as their clients see them: one, many, ended, followed.

use super::{
    call::{Call, away, no_task, store},
    listed::{Cursor, Wanted},
    send::{follow, snapshot, wait_for},
    stream::Heard,
};
use crate::{agent::Cancel, tasks};
use engine::{content, records::TaskRow};
use protocol::{
    a2a::{
        error::{A2aError, A2aErrorKind},
        event::StreamResponse,
        limits::PAGE,
        request::{CancelTask, GetTask, ListTasks, SubscribeToTask, TaskPage},
        task::A2aTask as Shown,
    },
    task::EXTENSION,
};
use serde_json::Value;

/// A task as it goes out: with so much of its history, and with its award for those who ask for what the mesh adds.
pub(super) fn shown(call: &Call, row: &TaskRow, history: Option<usize>) -> Result<Shown, A2aError> {
    let mut task = row.task.to_a2a().with_history(history);
    if let Some(award) = award(call, row)?
        && let Some(ours) = task.metadata.get_mut(EXTENSION).and_then(Value::as_object_mut)
    {
        ours.insert("award".into(), award);
    }
    Ok(task)
}

/// Why a bid won, for those who ask for what the mesh adds.
fn award(call: &Call, row: &TaskRow) -> Result<Option<Value>, A2aError> {
    if !call.wants_ours() {
        return Ok(None);
    }
    let found = tasks::award(call.local.store.as_ref(), &call.local.id, &row.task.conversation);
    found.map_err(|error| store(&error))
}

/// One of the caller's tasks, and the revision it was seen at.
pub(super) fn find(call: &Call, id: &str) -> Result<(TaskRow, u64), A2aError> {
    let (row, head) = snapshot(call, &call.task_id(id)?)?;
    if call.may_see(&row.task) { Ok((row, head)) } else { Err(no_task(id)) }
}

/// One task.
pub(super) fn get(call: &Call, request: &GetTask) -> Result<Shown, A2aError> {
    shown(call, &find(call, &request.id)?.0, request.history_length)
}

/// Ends a task, and shows how it ended.
pub(super) async fn cancel(call: &Call, request: CancelTask) -> Result<Shown, A2aError> {
    let (row, _) = find(call, &request.id)?;
    let given = request.metadata.get("reason").and_then(Value::as_str);
    let reason = given.unwrap_or("canceled by its client").chars().take(500).collect();
    let cancel = Cancel { task: row.task.spec.task_id.clone(), by: call.by.clone(), reason };
    call.local.actor.send(cancel).await.map_err(away)??;
    // An award that is just being written is called off once it is there.
    let ended = wait_for(call, &row.task.spec.task_id, |row| row.ended_at.is_some());
    match tokio::time::timeout(call.ack(), ended).await {
        Ok(ended) => ended?,
        Err(_) => tracing::debug!(task = %row.task.spec.task_id, "canceled, and not ended yet"),
    }
    shown(call, &find(call, &request.id)?.0, None)
}

/// The task as it is, then everything that follows.
pub(super) fn subscribe(call: &Call, request: &SubscribeToTask) -> Result<Heard, A2aError> {
    let (row, head) = find(call, &request.id)?;
    if row.ended_at.is_some() {
        let message = format!("task {} has ended: {}", request.id, row.task.status.state.word());
        return Err(A2aError::new(A2aErrorKind::UnsupportedOperation, message).with("taskId", &request.id));
    }
    call.only_waits();
    let first = StreamResponse::Task(Box::new(shown(call, &row, None)?));
    Ok(Heard::new(follow(call, row, (head, usize::MAX))?, first, call))
}

/// The caller's tasks, the newest status first, page by page. What changes between two pages may be seen on neither or on
/// both; what does not change is seen once.
pub(super) async fn list(call: &Call, request: ListTasks) -> Result<TaskPage, A2aError> {
    let before = request.page_token.as_deref().map(Cursor::parse).transpose()?;
    let size = request.page_size.unwrap_or(PAGE);
    let wanted = Wanted {
        by: call.by.clone(),
        tenant: call.tenant.clone(),
        context_id: request.context_id.clone(),
        state: request.status,
        changed_since: request.status_timestamp_after,
    };
    let local = call.local.clone();
    let looked = actix_web::web::block(move || {
        let (store, forgotten) = (local.store.as_ref(), local.status.removed_tasks());
        let mut page = local.listed.page(store, &local.id, forgotten, before.as_ref(), size, &wanted)?;
        let has_more = page.rows.len() > size;
        page.rows.truncate(size);
        let next = page.rows.last().filter(|_| has_more).map(|(at, _)| at.token());
        let mut tasks = Vec::with_capacity(page.rows.len());
        for (_, key) in page.rows {
            // One that was deleted in this very moment is left out.
            if let Some(record) = store.latest(&key)? {
                tasks.push(content::decode::<TaskRow>(&local.id, store, &record.value)?.task);
            }
        }
        Ok::<_, blackboard::store::Error>((tasks, next.unwrap_or_default(), page.total))
    });
    let (tasks, next, total) = looked.await.map_err(away)?.map_err(|error| store(&error))?;
    let tasks = tasks.into_iter().map(|task| {
        let mut shown = task.to_a2a().with_history(request.history_length);
        if !request.include_artifacts {
            shown.artifacts.clear();
        }
        shown
    });
    Ok(TaskPage { tasks: tasks.collect(), next_page_token: next, page_size: size, total_size: total })
}
