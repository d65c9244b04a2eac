//! Sends a task to an agent, and follows it to its end with the answers that a person gives on the way.

use super::{
    artifacts,
    client::{MeshClient, encoded},
    endpoints::AgentEndpoint,
    exit::{self, CliError, Exit},
    interrupt::InterruptSignals,
    output,
    prompt::{self, PromptEnd},
    questions::{how_to_answer, open_questions},
    watch::{TaskWatch, WatchProgress, status_of, text_of},
};
use crate::clock::wall_time;
use protocol::{
    ids::{SpaceId, TaskId},
    problem::Reason,
    question::Question,
    routes,
    task::{EXTENSION, TaskState},
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Sends a task to `recipient`, with a new id if it has none; returns its id and the answer.
pub(super) async fn send(
    client: &MeshClient,
    recipient: &AgentEndpoint,
    (mut payload, space): (Value, Option<&SpaceId>),
    signals: &mut InterruptSignals,
    at: &str,
) -> Result<(String, Value), CliError> {
    let unique = uuid::Uuid::now_v7();
    let task = payload["taskId"].as_str().map_or_else(|| format!("t-{}", unique.simple()), str::to_owned);
    payload["taskId"] = json!(task);
    let to = &recipient.agent;
    let mut message = json!({
        "messageId": unique,
        "fromAgentId": "me",
        "toAgentId": to,
        "type": "task-request",
        "payload": payload,
    });
    if let Some(space) = space {
        message["spaceId"] = json!(space);
    }
    let accepted = tokio::select! {
        accepted = client.post(&recipient.endpoint, routes::MESSAGES, &message) => accepted,
        exit = signals.next() => {
            let message = format!("stopped before {to} answered; `mesh tasks show {task}{at}` says whether it has task {task}");
            return Err(CliError::new(exit, message));
        }
    };
    let accepted = accepted.map_err(|mut failure| {
        if failure.reason == Some(Reason::CapabilityNeeded) {
            failure.message += "; say --capability NAME";
        }
        recipient.explain(failure)
    })?;
    let accepted_id = accepted["taskId"].as_str().and_then(|id| TaskId::parse(id).ok());
    Ok((accepted_id.map_or(task, String::from), accepted))
}

/// Says something to `recipient` alone in a context of the person (an A2A message); returns the task, which goes on. `parts` are those
/// of the message, `metadata` the members of the mesh's extension.
pub(super) async fn say_in_context(
    client: &MeshClient,
    recipient: &AgentEndpoint,
    context: &str,
    (parts, mut metadata): (Value, Value),
) -> Result<Value, CliError> {
    metadata["addressed"] = json!(true);
    let body = json!({
        "message": {
            "messageId": uuid::Uuid::now_v7(), "role": "ROLE_USER", "parts": parts, "contextId": context,
            "metadata": { EXTENSION: metadata },
        },
        "configuration": { "returnImmediately": true },
    });
    let sent = client.post(&recipient.endpoint, "/a2a/v1/message:send?A2A-Version=1.0", &body).await;
    Ok(sent.map_err(|failure| recipient.explain(failure))?["task"].take())
}

/// Prints what a task has made that was not printed as it arrived, or its last words if it has made nothing.
pub(super) async fn print_result(
    client: &MeshClient,
    endpoint: &str,
    done: &Value,
    progress: &WatchProgress,
) -> Result<(), CliError> {
    let mut made = artifacts::of_task(done);
    let message = text_of(&done["status"]);
    if made.is_empty() && !message.is_empty() {
        return output::bytes(message.as_bytes());
    }
    made.retain(|artifact| !progress.has_shown(&artifact.artifact_id));
    client.fetch_files(endpoint, &mut made).await?;
    artifacts::print(&made)
}

/// Follows a task to its end, or until it waits for an answer that is not given here; returns its state and the task.
pub(super) async fn follow(
    client: &MeshClient,
    endpoint: &str,
    task: &str,
    (watch, progress): (&TaskWatch, &mut WatchProgress),
    asks_here: bool,
    signals: &mut InterruptSignals,
) -> Result<(TaskState, Value), CliError> {
    let at = watch.at.as_str();
    loop {
        let state = tokio::select! {
            state = watch.go_on(client, endpoint, task, progress) => state?,
            exit = signals.next() => {
                let message = format!(
                    "no longer waits; task {task} goes on: `mesh tasks watch {task}{at}` follows it, `mesh tasks cancel {task}{at}` ends it"
                );
                return Err(CliError::new(exit, message));
            }
        };
        let mut now: Value = client.get(endpoint, &format!("{}/{}", routes::TASKS, encoded(task))).await?;
        if exit::of_state(state) != Exit::NeedsAnswer {
            return Ok((state, now));
        }
        // The question may have been answered meanwhile, or its time is over and the task is about to go on.
        let has_expired = |asked: &Question| asked.expires_at.is_some_and(|at| at <= wall_time());
        let open = open_questions(&now);
        let waits = status_of(&now["status"]).0.is_some_and(TaskState::is_interrupted);
        if !waits || !open.is_empty() && open.iter().all(has_expired) {
            continue;
        }
        if !asks_here {
            return Ok((state, now));
        }
        let exit = tokio::select! {
            end = prompt::answer_questions(client, endpoint, task, &mut now) => match end? {
                PromptEnd::Answered => continue,
                PromptEnd::Unanswered => return Ok((state, now)),
            },
            () = sleep_until(watch.until) => Exit::Timeout,
            exit = signals.next() => exit,
        };
        // Below the prompt.
        output::note("");
        let how = how_to_answer(&now, task, at);
        let message = format!(
            "no longer waits; task {task} waits for an answer: {how} gives it, `mesh tasks cancel {task}{at}` ends it"
        );
        return Err(CliError::new(exit, message));
    }
}

/// Returns at the deadline; never without one.
async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// How a task has ended that is not completed, or what it waits for.
pub(super) fn unfinished(task: &str, state: TaskState, done: &Value, at: &str) -> CliError {
    let message = output::plain(&text_of(&done["status"]));
    let end = exit::of_state(state);
    let message = match (end == Exit::NeedsAnswer, message.is_empty()) {
        (true, _) => {
            format!("task {task} asks: {message}; answer with {}", how_to_answer(done, task, at))
        }
        (false, true) => format!("task {task} {}", state.word()),
        (false, false) => format!("task {task} {}: {message}", state.word()),
    };
    CliError::new(end, message)
}
