//! Waits for a task, puts its questions to the person at the client, and tells the client how the task goes on.

use super::{
    api::{MeshApi, StatusEvents},
    elicitation::{self, ElicitationOutcome},
    task_output::{TaskOutput, open_questions},
    tool_call::{McpToolCall, ToolOutcome},
};
use futures_util::StreamExt;
use protocol::{
    a2a::task::A2aTask,
    problem::Problem,
    question::{Question, QuestionKind},
};
use rmcp::model::{
    ElicitResult, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    ProgressNotificationParam, ProtocolVersion, Request,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How long a person has for one elicitation. Then the question stays open, and the tool returns.
const MAX_ELICITATION: Duration = Duration::from_secs(600);

/// How a client can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElicitationSupport {
    None,
    /// By a request of the server (before 2026-07-28).
    ServerRequest,
    /// By a result that the client answers with a repeated call (from 2026-07-28 on).
    InputRequired,
}

impl ElicitationSupport {
    pub(super) fn of(call: &McpToolCall<'_>) -> Self {
        let declared = call.context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
        // A client that names neither mode supports forms.
        let has_forms = declared.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        let version = call.context.protocol_version();
        match (has_forms, version) {
            (false, _) => Self::None,
            (true, Some(version)) if version.as_str() >= ProtocolVersion::V_2026_07_28.as_str() => {
                Self::InputRequired
            }
            (true, _) => Self::ServerRequest,
        }
    }
}

/// Waits up to `wait` until the task ends or asks what can't be asked here. The time that a person takes does not count.
pub(super) async fn follow(
    call: &mut McpToolCall<'_>,
    endpoint: &str,
    task: &str,
    wait: Duration,
) -> Result<ToolOutcome, Problem> {
    let support = ElicitationSupport::of(call);
    let mut deadline = Instant::now() + wait;
    let mut notes = Vec::new();
    let may_approve = call.api.may_approve(endpoint).await;
    loop {
        let seen = settled(call, endpoint, task, deadline).await?;
        let questions = open_questions(&seen);
        let asked: Vec<_> = askable(&questions, may_approve).collect();
        let asks = !seen.status.state.is_terminal() && !asked.is_empty() && notes.is_empty();
        match (support, asked.first()) {
            (ElicitationSupport::InputRequired, Some(_)) if asks => {
                let Some(responses) = call.input_responses.take() else {
                    return Ok(ToolOutcome::InputRequired(input_required(&asked, task)));
                };
                notes.extend(apply(call.api, endpoint, task, &asked, &responses).await);
            }
            (ElicitationSupport::ServerRequest, Some(question)) if asks => {
                let started = Instant::now();
                let outcome = elicit(call, question).await;
                notes.extend(settle(call.api, endpoint, task, question, outcome).await);
                deadline += started.elapsed();
            }
            _ => {
                let mut output = TaskOutput::of(&seen);
                notes.extend(questions.iter().filter_map(|question| not_asked(task, question, may_approve)));
                output.notes.extend(notes);
                return Ok(ToolOutcome::Task(Box::new(output)));
            }
        }
    }
}

/// The questions that the person at the client can be asked. `may_approve` says whether an approval from there counts.
pub(super) fn askable(questions: &[Question], may_approve: bool) -> impl Iterator<Item = &Question> {
    questions.iter().filter(move |question| is_askable(question, may_approve))
}

fn is_askable(question: &Question, may_approve: bool) -> bool {
    (may_approve || question.kind != QuestionKind::Approval) && elicitation::request(question).is_some()
}

/// How a question of `task` is answered that can't be asked here.
fn not_asked(task: &str, question: &Question, may_approve: bool) -> Option<String> {
    let id = &question.id;
    match question.kind {
        _ if is_askable(question, may_approve) => None,
        QuestionKind::Approval => Some(format!(
            "question {id} is an approval, and is not asked here: the person answers it with `mesh answer {task} --question {id} --approve` or `--deny`"
        )),
        QuestionKind::Text | QuestionKind::Choice | QuestionKind::Form | QuestionKind::Credential => {
            Some(format!("question {id} can't be asked by a form here; `mesh answer` answers it"))
        }
    }
}

/// The result that asks the client for answers.
fn input_required(questions: &[&Question], task: &str) -> InputRequiredResult {
    let requests = input_requests(questions.iter().copied());
    let mut result = InputRequiredResult::from_input_requests(requests);
    result.request_state = Some(json!({ "taskId": task }).to_string());
    result
}

/// The elicitations of these questions, each under its question's id.
pub(super) fn input_requests<'a>(questions: impl Iterator<Item = &'a Question>) -> InputRequests {
    let request = |question: &Question| {
        let params = elicitation::request(question)?;
        Some((question.id.clone(), InputRequest::Elicitation(Request::new(params))))
    };
    questions.filter_map(request).collect()
}

/// The task that a client's repeated call goes on with.
pub(super) fn task_of_state(state: &str) -> Option<String> {
    let state: Value = serde_json::from_str(state).ok()?;
    state["taskId"].as_str().map(str::to_owned)
}

/// Answers those of the [`askable`] questions that the client has responded to. Returns what went wrong or stays open.
pub(super) async fn apply(
    api: &MeshApi,
    endpoint: &str,
    task: &str,
    asked: &[&Question],
    responses: &InputResponses,
) -> Vec<String> {
    let mut notes = Vec::new();
    for question in asked {
        let Some(response) = responses.get(&question.id) else { continue };
        let result = serde_json::from_value::<ElicitResult>(response.clone());
        let result =
            result.map_err(|error| format!("question {}: no elicitation result: {error}", question.id));
        notes.extend(settle(api, endpoint, task, question, result).await);
    }
    notes
}

/// Answers a question as the person did. Returns what went wrong, or that it stays open.
async fn settle(
    api: &MeshApi,
    endpoint: &str,
    task: &str,
    question: &Question,
    result: Result<ElicitResult, String>,
) -> Option<String> {
    let result = match result {
        Ok(result) => result,
        Err(note) => return Some(note),
    };
    match elicitation::outcome(question, &result) {
        ElicitationOutcome::LeftOpen(note) => Some(note),
        ElicitationOutcome::Answer(body) => {
            let answered = api.answer(endpoint, task, question, body).await;
            answered.err().map(|problem| format!("the answer is not taken: {}", problem.message))
        }
    }
}

/// Asks the client by a request of the server.
pub(super) async fn elicit(call: &McpToolCall<'_>, question: &Question) -> Result<ElicitResult, String> {
    let Some(params) = elicitation::request(question) else {
        return Err(format!("question {} can't be a form", question.id));
    };
    let asked = call.context.peer.create_elicitation(params);
    tokio::select! {
        answered = tokio::time::timeout(MAX_ELICITATION, asked) => match answered {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(format!("question {} could not be asked: {error}", question.id)),
            Err(_) => Err(format!("question {} got no answer in time; it stays open", question.id)),
        },
        () = call.context.ct.cancelled() => Err(format!("question {} stays open", question.id)),
    }
}

/// Waits until the task has ended or an open question, or the time is over, or the client cancels. Returns the task.
async fn settled(
    call: &mut McpToolCall<'_>,
    endpoint: &str,
    task: &str,
    deadline: Instant,
) -> Result<A2aTask, Problem> {
    let is_settled = |task: &A2aTask| task.status.state.is_terminal() || !open_questions(task).is_empty();
    let seen = call.api.task_at(endpoint, task).await?;
    if is_settled(&seen) || deadline <= Instant::now() {
        return Ok(seen);
    }
    let mut events: StatusEvents = call.api.events(endpoint, task).await?;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = tokio::time::sleep_until(deadline) => None,
            () = call.context.ct.cancelled() => None,
        };
        let Some(Ok(event)) = event else { return call.api.task_at(endpoint, task).await };
        report_progress(call, event.message).await;
        if !["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&event.state.as_str()) {
            // The stream begins with the first event: an earlier question may be answered.
            let seen = call.api.task_at(endpoint, task).await?;
            if is_settled(&seen) {
                return Ok(seen);
            }
        }
    }
}

/// Tells a client that wants it how the task goes on.
async fn report_progress(call: &mut McpToolCall<'_>, message: Option<String>) {
    let Some(token) = call.context.meta.get_progress_token() else { return };
    call.progress += 1.0;
    let mut progress = ProgressNotificationParam::new(token, call.progress);
    progress.message = message;
    if let Err(error) = call.context.peer.notify_progress(progress).await {
        tracing::debug!(%error, "a progress notification is not delivered");
    }
}
