//! Tasks as their clients see them: one, many, ended, followed.

use super::{
    call::{Call, away, no_task, store},
    send::{follow, snapshot, wait_for},
    stream::Heard,
};
use crate::{
    agent::{Cancel, every},
    conversation::{
        record::{TaskRow, keys},
        spill,
    },
    tasks,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use protocol::{
    a2a::{
        error::{A2aError, Kind},
        event::StreamResponse,
        json::Invalid,
        limits::PAGE,
        request::{CancelTask, GetTask, ListTasks, SubscribeToTask, TaskPage},
        task::Task as Shown,
    },
    task::EXTENSION,
};
use serde_json::Value;
use std::{cmp::Reverse, collections::BTreeMap};

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
        return Err(A2aError::new(Kind::UnsupportedOperation, message).with("taskId", &request.id));
    }
    call.only_waits();
    let first = StreamResponse::Task(Box::new(shown(call, &row, None)?));
    Ok(Heard::new(follow(call, row, (head, usize::MAX))?, first, call))
}

/// A place in a list: where a task stands in the order by the time of its status.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor(i64, String);

impl Cursor {
    fn of(task: &protocol::task::Task) -> Self {
        Self(task.changed_at.0, format!("{}@{}", task.spec.task_id, task.owner))
    }

    fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}|{}", self.0, self.1))
    }

    fn parse(token: &str) -> Result<Self, Invalid> {
        let read = || {
            let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            let (at, name) = text.split_once('|')?;
            Some(Self(at.parse().ok()?, name.to_owned()))
        };
        read().ok_or_else(|| Invalid::new("pageToken", "is none that a page of this list ended with"))
    }
}

/// The caller's tasks, the newest status first, page by page. What changes between two pages may be seen on neither or on
/// both; what does not change is seen once.
pub(super) async fn list(call: &Call, request: ListTasks) -> Result<TaskPage, A2aError> {
    let before = request.page_token.as_deref().map(Cursor::parse).transpose()?;
    let size = request.page_size.unwrap_or(PAGE);
    let (tasks, me, by, tenant) =
        (call.local.store.clone(), call.local.id.clone(), call.by.clone(), call.tenant.clone());
    let wanted = request.clone();
    let looked = actix_web::web::block(move || {
        // No more is kept than goes out, and one that tells whether there is another page.
        let (mut page, mut total) = (BTreeMap::new(), 0);
        every(tasks.as_ref(), &keys::all(&me, "task"), |record| {
            let row: TaskRow = spill::decode(&me, tasks.as_ref(), &record.value)?;
            let task = row.task;
            let is_wanted = task.is_visible_to(&by)
                && task.tenant() == tenant.as_deref()
                && !task.is_message
                && wanted.context_id.as_deref().is_none_or(|id| id == task.context_id())
                && wanted.status.is_none_or(|state| state == task.status.state)
                && wanted.status_timestamp_after.is_none_or(|after| task.changed_at >= after);
            if is_wanted {
                total += 1;
                let at = Cursor::of(&task);
                if before.as_ref().is_none_or(|before| at < *before) {
                    page.insert(Reverse(at), task);
                }
                if page.len() > size + 1 {
                    page.pop_last();
                }
            }
            Ok(())
        })?;
        Ok::<_, blackboard::store::Error>((page, total))
    });
    let (mut page, total) = looked.await.map_err(away)?.map_err(|error| store(&error))?;
    let has_more = page.len() > size;
    if has_more {
        page.pop_last();
    }
    let next = page.last_key_value().filter(|_| has_more).map(|(Reverse(at), _)| at.token());
    let next = next.unwrap_or_default();
    let tasks = page.into_values().map(|task| {
        let mut shown = task.to_a2a().with_history(request.history_length);
        if !request.include_artifacts {
            shown.artifacts.clear();
        }
        shown
    });
    Ok(TaskPage { tasks: tasks.collect(), next_page_token: next, page_size: size, total_size: total })
}
