//! The operations that send a message: it begins a task, or continues one.

use super::{
    call::{A2aCall, store, task_not_found, unavailable},
    caller_tasks::{a2a_task, follow, row, snapshot, wait_for, with_artifacts},
    files,
    stream::TaskEventStream,
    webhooks,
};
use crate::{agent::AnswerTaskRequest, inbox::TakeMessage, tasks};
use engine::{IncomingMessage, records::TaskRow};
use protocol::{
    a2a::{
        agent_policy::{ANY, TaskMetadata, data_of},
        error::{A2aError, A2aErrorKind},
        event::{SendMessageResponse, StreamResponse},
        hitl,
        json::InvalidField,
        limits::{MAX_CONTEXT, MAX_REFERENCES},
        message::Message,
        part::{Artifact, PartContent},
        request::SendMessage,
    },
    envelope::Envelope,
    ids::{Address, AgentId, Capability, Digest, MessageId, QuestionId, TaskId},
    message::{Payload, TaskRequest},
    principal::SenderProof,
    question::{Answer, Decision, Question},
    task::{A2aRequestContext, Status, Task, TaskState, TaskTerms},
};
use serde_json::Map;

struct AcceptedMessage {
    task: TaskId,
    /// Whether the message began the task.
    is_new: bool,
}

/// Sends a message and waits until the task ends or is interrupted, unless the client wants an immediate answer.
pub(super) async fn send(call: &A2aCall, request: SendMessage) -> Result<SendMessageResponse, A2aError> {
    let configuration = request.configuration.clone().unwrap_or_default();
    let AcceptedMessage { task, is_new } = accept(call, request).await?;
    call.release_permit();
    if !configuration.return_immediately {
        let is_due = |row: &TaskRow| row.ended_at.is_some() || row.task.status.state.is_interrupted();
        let row = wait_for(call, &task, is_due).await?;
        if row.ended_at.is_some() {
            return answer(call, &with_artifacts(call, row)?, configuration.history_length);
        }
    } else if is_new && call.local.facade.get().policy.direct {
        wait_for_first_output(call, &task).await?;
    }
    answer(call, &snapshot(call, &task)?.0, configuration.history_length)
}

fn answer(call: &A2aCall, row: &TaskRow, history: Option<usize>) -> Result<SendMessageResponse, A2aError> {
    if row.task.is_message {
        return Ok(SendMessageResponse::Message(Box::new(row.task.answer_a2a())));
    }
    Ok(SendMessageResponse::Task(Box::new(a2a_task(call, row, history)?)))
}

pub(super) async fn stream(call: &A2aCall, request: SendMessage) -> Result<TaskEventStream, A2aError> {
    let history = request.configuration.as_ref().and_then(|configuration| configuration.history_length);
    let AcceptedMessage { task, is_new } = accept(call, request).await?;
    call.release_permit();
    let (row, head) = snapshot(call, &task)?;
    let (first, after) = if is_new {
        // The task as first accepted, so that the stream repeats every event.
        let initial = Task {
            status: Status::of(TaskState::Submitted),
            changed_at: row.task.created_at,
            artifacts: Vec::new(),
            history: Vec::new(),
            doer: None,
            is_message: false,
            ..row.task.clone()
        };
        (initial.to_a2a().with_history(history), (0, 0))
    } else {
        (a2a_task(call, &row, history)?, (head, usize::MAX))
    };
    let is_direct = is_new && call.local.facade.get().policy.direct;
    let follower = follow(call, row, after)?;
    let events = TaskEventStream::new(follower, StreamResponse::Task(Box::new(first)), call)
        .closing_when_interrupted();
    Ok(if is_direct { events.holding_back() } else { events })
}

async fn accept(call: &A2aCall, mut request: SendMessage) -> Result<AcceptedMessage, A2aError> {
    let facade = call.local.facade.get();
    facade.policy.check_modes(&request.message)?;
    files::keep(call, &mut request.message).await?;
    let webhook =
        request.configuration.as_ref().and_then(|config| config.task_push_notification_config.clone());
    if let Some(webhook) = &webhook {
        if !facade.policy.push_notifications {
            return Err(A2aError::new(
                A2aErrorKind::PushNotificationNotSupported,
                "this agent calls no webhooks",
            ));
        }
        webhooks::check(call, webhook)
            .await
            .map_err(|invalid| A2aError::from(invalid.under("configuration.taskPushNotificationConfig")))?;
    }
    let accepted = match request.message.task_id.clone() {
        Some(task) => continue_task(call, &task, request.message, webhook).await?,
        None => {
            let task = begin_task(call, request).await?;
            if let Some(webhook) = webhook {
                let (row, _) = snapshot(call, &task)?;
                webhooks::put(call, row, webhook, (0, 0)).await?;
            }
            AcceptedMessage { task, is_new: true }
        }
    };
    Ok(accepted)
}

/// Delivers a message to an existing task.
async fn continue_task(
    call: &A2aCall,
    id: &str,
    message: Message,
    webhook: Option<protocol::a2a::push::PushConfig>,
) -> Result<AcceptedMessage, A2aError> {
    let task = call.task_id(id)?;
    let (row, head) = snapshot(call, &task)?;
    if !call.may_see(&row.task) {
        return Err(task_not_found(id));
    }
    if message.context_id.as_deref().is_some_and(|context| context != row.task.context_id()) {
        let is = row.task.context_id();
        return Err(
            InvalidField::new("message.contextId", format!("task {task} belongs to context {is}")).into()
        );
    }
    let ended = |state: TaskState| {
        let message = format!("task {task} has ended: {}; it takes no further message", state.word());
        A2aError::new(A2aErrorKind::UnsupportedOperation, message).with("taskId", &task)
    };
    let accepted = AcceptedMessage { task: task.clone(), is_new: false };
    // A repeated message is accepted again, even if the task has ended meanwhile.
    if call.wants_extension() && row.task.history.iter().any(|known| known.message_id == message.message_id) {
        return Ok(accepted);
    }
    if row.ended_at.is_some() {
        return Err(ended(row.task.status.state));
    }
    call.check_quota(serde_json::to_vec(&message).map_or(0, |json| json.len()))?;
    let questions = row.task.status.questions.clone();
    if let Some(webhook) = webhook {
        webhooks::put(call, row, webhook, (head, usize::MAX)).await?;
    }
    if let Some(response) = hitl::response_of(&message).filter(|_| call.wants_hitl()) {
        let decided = hitl::answers(response, &questions)
            .map_err(|why| InvalidField::new(format!("message.metadata.{}", hitl::HITL_EXTENSION), why))?;
        answer_each(call, (&task, &questions), decided, message).await?;
        return Ok(accepted);
    }
    let data = || data_of(&message).map(|data| data.to_string()).unwrap_or_default();
    let text = Some(message.as_text()).filter(|text| !text.is_empty()).unwrap_or_else(data);
    let answer = AnswerTaskRequest {
        task: task.clone(),
        by: call.by.clone(),
        question: None,
        answer: Answer::Text(text),
        message: Some(Box::new(message)),
        is_persons: false,
    };
    match call.local.actor.send(answer).await.map_err(unavailable)? {
        Ok(_) => Ok(accepted),
        Err(problem) => {
            let error = A2aError::from(problem);
            // The task ended meanwhile.
            Err(if error.kind == A2aErrorKind::TaskNotCancelable {
                ended(row_state(call, &task)?)
            } else {
                error
            })
        }
    }
}

/// Answers questions of a task by their ids. Nothing is answered if one of them may not be.
async fn answer_each(
    call: &A2aCall,
    (task, open): (&TaskId, &[Question]),
    decided: Vec<(String, Answer)>,
    message: Message,
) -> Result<(), A2aError> {
    let approves = decided.iter().any(|(_, answer)| answer.decision() == Some(Decision::Approve));
    if approves && !call.is_persons {
        let why = "to approve needs the person's token or the credential of a configured caller";
        return Err(A2aError::new(A2aErrorKind::Forbidden, why).with("taskId", task));
    }
    let mut message = Some(Box::new(message));
    for (question, mut answer) in decided {
        let asked = open.iter().find(|asked| asked.id == question);
        if let (Some(key), Some(asked)) = (&call.person, asked) {
            answer.prove_by(key, asked);
        }
        let question = QuestionId::parse(&question)
            .map_err(|error| A2aError::new(A2aErrorKind::Internal, error.to_string()))?;
        let answer = AnswerTaskRequest {
            task: task.clone(),
            by: call.by.clone(),
            question: Some(question),
            answer,
            message: message.take(),
            is_persons: call.is_persons,
        };
        call.local.actor.send(answer).await.map_err(unavailable)??;
    }
    Ok(())
}

fn row_state(call: &A2aCall, task: &TaskId) -> Result<TaskState, A2aError> {
    Ok(row(call, task)?.task.status.state)
}

async fn begin_task(call: &A2aCall, request: SendMessage) -> Result<TaskId, A2aError> {
    let context = request.message.context_id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    if context.chars().count() > MAX_CONTEXT || context.chars().any(char::is_control) {
        let problem = format!("may have {MAX_CONTEXT} characters, no control ones");
        return Err(InvalidField::new("message.contextId", problem).into());
    }
    // Deduplicates only for clients that request the mesh's extension; others may use an id for two messages.
    let body = serde_json::to_vec(&request).unwrap_or_default();
    let (name, digest) = match call.wants_extension() {
        true => {
            let name = Digest::of(format!("{:?}|{}", call.tenant, request.message.message_id).as_bytes());
            (format!("a2a-{name}"), Digest::of(&body))
        }
        false => (format!("a2a-{}", uuid::Uuid::now_v7()), Digest::of(&body)),
    };
    call.check_quota(body.len())?;
    let metadata = TaskMetadata::of(&request.message.metadata, &request.metadata)?;
    let is_any = |skill: &Capability| skill.as_str() == ANY && call.local.card.get().skills.is_empty();
    let message = request.message;
    let terms = TaskTerms {
        description: description(&message),
        capability: metadata.capability.filter(|skill| !is_any(skill)),
        input: metadata.input.or_else(|| data_of(&message)),
        deadline: metadata.deadline,
        accepted_modes: request.configuration.map(|config| config.accepted_output_modes).unwrap_or_default(),
    };
    let task_request = TaskRequest {
        inline_artifacts: files(&message).into_iter().chain(referenced_artifacts(call, &message)?).collect(),
        ..TaskRequest::new(terms)
    };
    let internal = |error: protocol::ids::BadId| A2aError::new(A2aErrorKind::Internal, error.to_string());
    let envelope = Box::new(Envelope {
        message_id: MessageId::parse(&name).map_err(internal)?,
        from_agent_id: AgentId::parse("mesh").map_err(internal)?,
        to_agent_id: Address::Agent(call.local.id.clone()),
        payload: Payload::TaskRequest(task_request),
        timestamp: None,
        conversation_id: None,
        in_reply_to: None,
        thread_id: None,
        space_id: None,
        reply_conversation_id: None,
        reply_to: None,
        expires_at: None,
        path: Vec::new(),
        extra: Map::new(),
    });
    let contact = Some(Box::new(A2aRequestContext {
        context_id: Some(context),
        tenant: call.tenant.clone(),
        is_addressed: metadata.is_addressed,
        message,
    }));
    let incoming = IncomingMessage {
        envelope,
        by: call.by.clone(),
        proof: if call.is_persons { SenderProof::Credential } else { SenderProof::Address },
        digest,
        trace: call.trace.clone(),
        contact,
        origin: None,
        approval: None,
    };
    let ack = call.local.actor.send(TakeMessage(incoming)).await.map_err(unavailable)??;
    let no_task = || A2aError::new(A2aErrorKind::Internal, "the message was taken, and no task came of it");
    ack.task_id.ok_or_else(no_task)
}

/// The description of the task: the message's text, or a reference to its files.
fn description(message: &Message) -> String {
    let text = message.as_text();
    if !text.trim().is_empty() {
        return text;
    }
    let names: Vec<_> = message.parts.iter().filter_map(|part| part.filename.as_deref()).collect();
    if names.is_empty() { "see the message's parts".to_owned() } else { format!("see {}", names.join(", ")) }
}

/// The message's files, each as an input artifact of the task.
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

/// The artifacts of the tasks that a message references. Tasks that the caller may not see are ignored.
fn referenced_artifacts(call: &A2aCall, message: &Message) -> Result<Vec<Artifact>, A2aError> {
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

/// Waits for the brain's first output: an event of a step after the one that began the task, or the end.
async fn wait_for_first_output(call: &A2aCall, task: &TaskId) -> Result<(), A2aError> {
    let (row, _) = snapshot(call, task)?;
    if row.task.status.state.is_interrupted() {
        return Ok(());
    }
    let mut follower = follow(call, row, (0, 0))?;
    let mut first_step = None;
    loop {
        let events = follower.next().await.map_err(|error| store(&error))?;
        let Some(first) = events.first() else { return Ok(()) };
        let step = *first_step.get_or_insert(first.id.0);
        if events.iter().any(|event| event.id.0 > step || event.is_last) {
            return Ok(());
        }
    }
}
