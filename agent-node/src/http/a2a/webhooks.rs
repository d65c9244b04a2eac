//! The operations on a task's webhooks (A2A §3.1.7–3.1.10).

use super::{
    call::{A2aCall, store, unavailable},
    caller_tasks,
};
use crate::{
    outbox::webhooks::{self, Put, Remove, Webhook},
    tasks::follower::TaskEventCursor,
};
use engine::records::TaskRow;
use protocol::{
    a2a::{
        error::{A2aError, A2aErrorKind},
        json::InvalidField,
        limits::{MAX_WEBHOOK_ID, MAX_WEBHOOKS},
        push::PushConfig,
        request::{ListPushConfigs, PushConfigName, PushConfigPage},
        version::ProtocolVersion,
    },
    ids::TaskId,
    principal::Principal,
};

/// Checks a webhook. Fails with the invalid member.
pub(super) async fn check(call: &A2aCall, config: &PushConfig) -> Result<(), InvalidField> {
    let is_invalid_id = |id: &String| id.chars().count() > MAX_WEBHOOK_ID || id.chars().any(char::is_control);
    if config.id.as_ref().is_some_and(is_invalid_id) {
        let problem = format!("may have {MAX_WEBHOOK_ID} characters, no control ones");
        return Err(InvalidField::new("id", problem));
    }
    let texts = [&config.token, &config.authentication.as_ref().and_then(|auth| auth.credentials.clone())];
    if texts.into_iter().flatten().any(|text| text.chars().any(char::is_control)) {
        return Err(InvalidField::new("authentication", "no control characters: it goes into a header"));
    }
    call.local
        .outside
        .check_resolved(&config.url)
        .await
        .map_err(|error| InvalidField::new("url", error.to_string()))
}

/// Stores a webhook for the events after `after`.
pub(super) async fn put(
    call: &A2aCall,
    row: TaskRow,
    config: PushConfig,
    after: TaskEventCursor,
) -> Result<PushConfig, A2aError> {
    let (task, owner) = (row.task.spec.task_id.clone(), row.task.owner.clone());
    let all = of_task(call, &task, &owner)?;
    let id = config.id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    if all.len() >= MAX_WEBHOOKS && !all.iter().any(|webhook| webhook.config.id.as_ref() == Some(&id)) {
        return Err(InvalidField::new("id", format!("a task may have {MAX_WEBHOOKS} webhooks")).into());
    }
    let config =
        PushConfig { id: Some(id), task_id: Some(task.to_string()), tenant: call.tenant.clone(), ..config };
    // A webhook from the message that began the task gets every event, even if the task has ended.
    let is_over = row.ended_at.is_some() && after != (0, 0);
    let webhook = Webhook {
        config: config.clone(),
        task,
        owner,
        cursor: after,
        missed: 0,
        is_over,
        response: None,
        is_v03: call.version == ProtocolVersion::V03,
    };
    call.local.pusher.send(Put(webhook)).await.map_err(unavailable)??;
    Ok(config)
}

/// Adds a webhook, or replaces the one of the same id.
pub(super) async fn create(call: &A2aCall, config: PushConfig) -> Result<PushConfig, A2aError> {
    let Some(task) = config.task_id.clone() else {
        return Err(InvalidField::new("taskId", "is required").into());
    };
    let (row, head) = caller_tasks::find(call, &task)?;
    check(call, &config).await?;
    put(call, row, config, (head, usize::MAX)).await
}

fn all(call: &A2aCall, task: &str) -> Result<(TaskRow, Vec<Webhook>), A2aError> {
    let (row, _) = caller_tasks::find(call, task)?;
    let found = of_task(call, &row.task.spec.task_id, &row.task.owner)?;
    Ok((row, found))
}

fn of_task(call: &A2aCall, task: &TaskId, owner: &Principal) -> Result<Vec<Webhook>, A2aError> {
    let local = &call.local;
    let found = webhooks::of_task(&local.store, &local.id, &local.seal, task, owner);
    found.map_err(|error| store(&error))
}

/// Returns one webhook with its credentials, as only the task's client may read it.
pub(super) fn get(call: &A2aCall, name: &PushConfigName) -> Result<PushConfig, A2aError> {
    let (_, all) = all(call, &name.task_id)?;
    let found = all.into_iter().find(|webhook| webhook.config.id.as_ref() == Some(&name.id));
    found.map(|webhook| webhook.config).ok_or_else(|| {
        let id: String = name.id.chars().take(80).collect();
        A2aError::new(A2aErrorKind::TaskNotFound, format!("task {} has no webhook {id}", name.task_id))
    })
}

/// A page of a task's webhooks.
pub(super) fn list(call: &A2aCall, request: &ListPushConfigs) -> Result<PushConfigPage, A2aError> {
    let (_, all) = all(call, &request.task_id)?;
    let size = request.page_size.filter(|size| *size > 0).unwrap_or(MAX_WEBHOOKS);
    let after = request.page_token.as_ref();
    let mut rest: Vec<_> = all
        .into_iter()
        .map(|webhook| webhook.config)
        .filter(|config| after.is_none() || config.id.as_ref() > after)
        .collect();
    let has_more = rest.len() > size;
    rest.truncate(size);
    let last = rest.last().and_then(|config| config.id.clone());
    Ok(PushConfigPage { next_page_token: last.filter(|_| has_more).unwrap_or_default(), configs: rest })
}

/// Removes a webhook; does nothing if there is none with this id.
pub(super) async fn delete(call: &A2aCall, name: PushConfigName) -> Result<(), A2aError> {
    let (row, _) = caller_tasks::find(call, &name.task_id)?;
    let remove = Remove { task: row.task.spec.task_id, owner: row.task.owner, id: name.id };
    Ok(call.local.pusher.send(remove).await.map_err(unavailable)??)
}
