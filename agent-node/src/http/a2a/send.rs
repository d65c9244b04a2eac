//! A message comes in: it begins a task, or goes on with one.

use super::{
    call::{Call, away, no_task, store},
    look,
    stream::Heard,
    webhooks,
};
use crate::{
    agent::Answer,
    inbox::TakeMessage,
    tasks::{self, follow::Follow},
};
use blackboard::store::Filter;
use engine::{
    IncomingMessage,
    records::{TaskRow, keys},
};
use protocol::{
    a2a::{
        agent_policy::{ANY, TaskMetadata, data_of},
        error::{A2aError, A2aErrorKind},
        event::{SendMessageResponse, StreamResponse},
        json::InvalidField,
        limits::{MAX_CONTEXT, MAX_REFERENCES},
        message::Message,
        part::{Artifact, PartContent},
        request::SendMessage,
    },
    envelope::Envelope,
    ids::{Address, AgentId, Capability, Digest, MessageId, TaskId},
    message::{Payload, TaskRequest},
    task::{A2aRequestContext, Status, Task, TaskState},
};
use serde_json::Map;

/// A message that was taken, and the task it belongs to.
struct Taken {
    task: TaskId,
    /// Whether the task began with it.
    is_new: bool,
}

/// Sends, and waits for as long as it takes.
pub(super) async fn send(call: &Call, request: SendMessage) -> Result<SendMessageResponse, A2aError> {
    let configuration = request.configuration.clone().unwrap_or_default();
    let taken = take(call, request).await?;
    call.only_waits();
    if !configuration.return_immediately {
        wait_for(call, &taken.task, |row| row.ended_at.is_some() || row.task.status.state.is_interrupted())
            .await?;
    } else if taken.is_new && call.local.face.get().terms.direct {
        first_word(call, &taken.task).await?;
    }
    answer(call, &row(call, &taken.task)?, configuration.history_length)
}

fn answer(call: &Call, row: &TaskRow, history: Option<usize>) -> Result<SendMessageResponse, A2aError> {
    if row.task.is_message {
        return Ok(SendMessageResponse::Message(Box::new(row.task.answer_a2a())));
    }
    Ok(SendMessageResponse::Task(Box::new(look::shown(call, row, history)?)))
}

/// Sends, and lets all that follows be heard.
pub(super) async fn stream(call: &Call, request: SendMessage) -> Result<Heard, A2aError> {
    let history = request.configuration.as_ref().and_then(|configuration| configuration.history_length);
    let taken = take(call, request).await?;
    call.only_waits();
    let (row, head) = snapshot(call, &taken.task)?;
    let (first, after) = if taken.is_new {
        // As it was when it was taken, so that every event follows.
        let begun = Task {
            status: Status { state: TaskState::Submitted, message: None },
            changed_at: row.task.created_at,
            artifacts: Vec::new(),
            history: Vec::new(),
            doer: None,
            is_message: false,
            ..row.task.clone()
        };
        (begun.to_a2a().with_history(history), (0, 0))
    } else {
        (look::shown(call, &row, history)?, (head, usize::MAX))
    };
    let is_direct = taken.is_new && call.local.face.get().terms.direct;
    let follow = follow(call, row, after)?;
    let heard = Heard::new(follow, StreamResponse::Task(Box::new(first)), call).closing_when_interrupted();
    Ok(if is_direct { heard.holding_back() } else { heard })
}

pub(super) fn follow(call: &Call, row: TaskRow, after: tasks::follow::Place) -> Result<Follow, A2aError> {
    Follow::after(call.local.store.clone(), call.local.id.clone(), row, after).map_err(|error| store(&error))
}

async fn take(call: &Call, request: SendMessage) -> Result<Taken, A2aError> {
    let face = call.local.face.get();
    face.terms.check_modes(&request.message)?;
    let webhook =
        request.configuration.as_ref().and_then(|asked| asked.task_push_notification_config.clone());
    if let Some(webhook) = &webhook {
        if !face.terms.push_notifications {
            return Err(A2aError::new(
                A2aErrorKind::PushNotificationNotSupported,
                "this agent calls no webhooks",
            ));
        }
        webhooks::check(call, webhook)
            .await
            .map_err(|invalid| A2aError::from(invalid.under("configuration.taskPushNotificationConfig")))?;
    }
    let taken = match request.message.task_id.clone() {
        Some(task) => go_on(call, &task, request.message, webhook).await?,
        None => {
            let task = begin(call, request).await?;
            if let Some(webhook) = webhook {
                let (row, _) = snapshot(call, &task)?;
                webhooks::put(call, row, webhook, (0, 0)).await?;
            }
            Taken { task, is_new: true }
        }
    };
    Ok(taken)
}

/// A message for a task there is.
async fn go_on(
    call: &Call,
    id: &str,
    said: Message,
    webhook: Option<protocol::a2a::push::PushConfig>,
) -> Result<Taken, A2aError> {
    let task = call.task_id(id)?;
    let (row, head) = snapshot(call, &task)?;
    if !call.may_see(&row.task) {
        return Err(no_task(id));
    }
    if said.context_id.as_deref().is_some_and(|context| context != row.task.context_id()) {
        let is = row.task.context_id();
        return Err(
            InvalidField::new("message.contextId", format!("task {task} belongs to context {is}")).into()
        );
    }
    let ended = |state: TaskState| {
        let message = format!("task {task} has ended: {}; it takes no further message", state.word());
        A2aError::new(A2aErrorKind::UnsupportedOperation, message).with("taskId", &task)
    };
    let taken = Taken { task: task.clone(), is_new: false };
    // A repeat is answered as the first was, also when the task has ended since.
    if call.wants_ours() && row.task.history.iter().any(|known| known.message_id == said.message_id) {
        return Ok(taken);
    }
    if row.ended_at.is_some() {
        return Err(ended(row.task.status.state));
    }
    if let Some(webhook) = webhook {
        webhooks::put(call, row, webhook, (head, usize::MAX)).await?;
    }
    let data = || data_of(&said).map(|data| data.to_string()).unwrap_or_default();
    let text = Some(said.as_text()).filter(|text| !text.is_empty()).unwrap_or_else(data);
    let answer = Answer { task: task.clone(), by: call.by.clone(), text, message: Some(Box::new(said)) };
    match call.local.actor.send(answer).await.map_err(away)? {
        Ok(_) => Ok(taken),
        Err(problem) => {
            let error = A2aError::from(problem);
            // It ended in this very moment.
            Err(if error.kind == A2aErrorKind::TaskNotCancelable {
                ended(row_state(call, &task)?)
            } else {
                error
            })
        }
    }
}

fn row_state(call: &Call, task: &TaskId) -> Result<TaskState, A2aError> {
    Ok(row(call, task)?.task.status.state)
}

/// A message that begins a task.
async fn begin(call: &Call, request: SendMessage) -> Result<TaskId, A2aError> {
    let context = request.message.context_id.clone();
    if context.as_ref().is_some_and(|id| id.chars().count() > MAX_CONTEXT || id.chars().any(char::is_control))
    {
        let problem = format!("may have {MAX_CONTEXT} characters, no control ones");
        return Err(InvalidField::new("message.contextId", problem).into());
    }
    // Repeats are recognised for those who ask for it; others may use an id twice and mean two things.
    let body = serde_json::to_vec(&request).unwrap_or_default();
    let (name, digest) = match call.wants_ours() {
        true => {
            let name = Digest::of(format!("{:?}|{}", call.tenant, request.message.message_id).as_bytes());
            (format!("a2a-{name}"), Digest::of(&body))
        }
        false => (format!("a2a-{}", uuid::Uuid::now_v7()), Digest::of(&body)),
    };
    let wishes = TaskMetadata::of(&request.message.metadata, &request.metadata)?;
    let is_any = |skill: &Capability| skill.as_str() == ANY && call.local.card.get().skills.is_empty();
    let message = request.message;
    let asked = TaskRequest {
        description: description(&message),
        task_id: None,
        capability: wishes.capability.filter(|skill| !is_any(skill)),
        input: wishes.input.or_else(|| data_of(&message)),
        artifacts: Vec::new(),
        inline_artifacts: files(&message).into_iter().chain(referred_to(call, &message)?).collect(),
        deadline: wishes.deadline,
        accepted_modes: request.configuration.map(|asked| asked.accepted_output_modes).unwrap_or_default(),
        reply_to: None,
        on_behalf_of: None,
        parent_task_id: None,
        extra: Map::new(),
    };
    let internal = |error: protocol::ids::BadId| A2aError::new(A2aErrorKind::Internal, error.to_string());
    let envelope = Box::new(Envelope {
        message_id: MessageId::parse(&name).map_err(internal)?,
        from_agent_id: AgentId::parse("mesh").map_err(internal)?,
        to_agent_id: Address::Agent(call.local.id.clone()),
        payload: Payload::TaskRequest(asked),
        timestamp: None,
        conversation_id: None,
        in_reply_to: None,
        thread_id: None,
        reply_conversation_id: None,
        reply_to: None,
        expires_at: None,
        path: Vec::new(),
        extra: Map::new(),
    });
    let contact =
        Some(Box::new(A2aRequestContext { context_id: context, tenant: call.tenant.clone(), message }));
    let admit = IncomingMessage { envelope, by: call.by.clone(), digest, trace: call.trace.clone(), contact };
    let ack = call.local.actor.send(TakeMessage(admit)).await.map_err(away)??;
    let nothing = || A2aError::new(A2aErrorKind::Internal, "the message was taken, and no task came of it");
    ack.task_id.ok_or_else(nothing)
}

/// What is asked, in words.
fn description(message: &Message) -> String {
    let text = message.as_text();
    if !text.trim().is_empty() {
        return text;
    }
    let names: Vec<_> = message.parts.iter().filter_map(|part| part.filename.as_deref()).collect();
    if names.is_empty() { "see the message's parts".to_owned() } else { format!("see {}", names.join(", ")) }
}

/// A message's files, each as content that the task starts from.
fn files(message: &Message) -> Vec<Artifact> {
    let files = message.parts.iter().enumerate().filter(|(_, part)| match &part.content {
        PartContent::Raw(_) | PartContent::Url(_) => true,
        PartContent::Text(_) | PartContent::Data(_) => false,
    });
    files
        .map(|(at, part)| Artifact {
            artifact_id: format!("part-{at}"),
            name: part.filename.clone(),
            description: None,
            parts: vec![part.clone()],
            metadata: Map::new(),
            extensions: Vec::new(),
        })
        .collect()
}

/// What the tasks a message refers to have produced. One that the caller may not see is as good as none.
fn referred_to(call: &Call, message: &Message) -> Result<Vec<Artifact>, A2aError> {
    if message.reference_task_ids.len() > MAX_REFERENCES {
        return Err(InvalidField::new(
            "message.referenceTaskIds",
            format!("may name {MAX_REFERENCES} tasks"),
        )
        .into());
    }
    let mut artifacts = Vec::new();
    for id in &message.reference_task_ids {
        let Ok(task) = TaskId::parse(id) else { continue };
        let found = tasks::find(call.local.store.as_ref(), &call.local.id, &task, &call.by);
        if let Some(row) = found.map_err(|error| store(&error))?.filter(|row| call.may_see(&row.task)) {
            artifacts.extend(row.task.artifacts.into_iter().map(|artifact| Artifact {
                artifact_id: format!("{task}.{}", artifact.artifact_id),
                ..artifact
            }));
        }
    }
    Ok(artifacts)
}

/// Waits until a task is as wanted.
pub(super) async fn wait_for(
    call: &Call,
    task: &TaskId,
    is_it: impl Fn(&TaskRow) -> bool,
) -> Result<(), A2aError> {
    let seen = row(call, task)?;
    if is_it(&seen) {
        return Ok(());
    }
    let filter = Filter::Exactly(keys::task(&call.local.id, task, &seen.task.owner));
    let mut changes =
        call.local.store.watch(filter, call.local.store.head()).map_err(|error| store(&error))?;
    let left = call.left();
    tokio::pin!(left);
    while !is_it(&row(call, task)?) {
        tokio::select! {
            biased;
            change = changes.next() => drop(change.map_err(|error| store(&error))?),
            () = &mut left => {
                let message = format!("{} leaves; task {task} goes on, and GetTask tells how it stands", call.local.id);
                return Err(A2aError::new(A2aErrorKind::Unavailable, message).with("taskId", task));
            }
        }
    }
    Ok(())
}

/// Waits for the brain's first word: what follows the step that began the task.
async fn first_word(call: &Call, task: &TaskId) -> Result<(), A2aError> {
    let (row, _) = snapshot(call, task)?;
    if row.task.status.state.is_interrupted() {
        return Ok(());
    }
    let mut follow = follow(call, row, (0, 0))?;
    let mut begun = None;
    loop {
        let events = follow.next().await.map_err(|error| store(&error))?;
        let Some(first) = events.first() else { return Ok(()) };
        let step = *begun.get_or_insert(first.id.0);
        if events.iter().any(|seen| seen.id.0 > step || seen.is_last) {
            return Ok(());
        }
    }
}

fn row(call: &Call, task: &TaskId) -> Result<TaskRow, A2aError> {
    let found = tasks::find(call.local.store.as_ref(), &call.local.id, task, &call.by);
    found.map_err(|error| store(&error))?.ok_or_else(|| no_task(task.as_str()))
}

pub(super) fn snapshot(call: &Call, task: &TaskId) -> Result<(TaskRow, u64), A2aError> {
    let found = tasks::snapshot(call.local.store.as_ref(), &call.local.id, task, &call.by);
    found.map_err(|error| store(&error))?.ok_or_else(|| no_task(task.as_str()))
}
