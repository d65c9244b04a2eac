//! Tasks: send, show, list and cancel them, and answer their questions.

use super::invalid;
use crate::mcp::{
    api::{MeshApi, TaskAtEndpoint, answer_path, encoded, read_task},
    task_extension,
    task_output::{TaskOutput, beginning, open_questions},
    tool_call::{McpToolCall, ToolOutcome},
    waiting::{ElicitationSupport, follow, task_of_state},
};
use futures_util::future::join_all;
use protocol::{
    a2a::task::A2aTask,
    problem::{Problem, Reason},
    question::{Question, QuestionKind},
    routes,
    task::EXTENSION,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, time::Duration};

/// How long a tool may wait.
const MAX_WAIT_SECONDS: u64 = 300;

/// The most bytes of a description in a list.
const MAX_DESCRIPTION_BYTES: usize = 240;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SendTaskArguments {
    /// What to do, in words.
    description: String,
    /// The skill it needs, as list_agents shows it. Without it the agent does it or finds who can.
    #[serde(default)]
    capability: Option<String>,
    /// The agent that gets it and answers for it. Without it one is chosen.
    #[serde(default)]
    agent: Option<String>,
    /// What to do it with: any JSON.
    #[serde(default)]
    input: Option<Value>,
    /// Digests from put_artifact that the task refers to.
    #[serde(default)]
    artifacts: Vec<String>,
    /// When it must be done: a time as RFC 3339 writes it.
    #[serde(default)]
    deadline: Option<String>,
    /// An id of your own. The same id and content again is the same task, so that a repeated call sends it once.
    #[serde(default)]
    task_id: Option<String>,
    /// How long to wait for the result, at most 300 seconds.
    #[serde(default = "half_a_minute")]
    #[schemars(range(max = 300))]
    wait_seconds: u64,
}

fn half_a_minute() -> u64 {
    30
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GetTaskArguments {
    /// The task's id.
    task_id: String,
    /// How long to wait until it ends or asks, at most 300 seconds; 0 shows it as it is.
    #[serde(default)]
    #[schemars(range(max = 300))]
    wait_seconds: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListTasksArguments {
    /// How many, at most 100.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
}

fn twenty() -> usize {
    20
}

#[derive(Serialize, JsonSchema)]
pub(super) struct TaskList {
    tasks: Vec<ListedTask>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListedTask {
    task_id: String,
    /// The agent that answers for it.
    agent_id: String,
    state: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// How many questions are open.
    questions: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CancelTaskArguments {
    /// The task's id.
    task_id: String,
    /// Why.
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Inbox {}

#[derive(Serialize, JsonSchema)]
pub(super) struct InboxList {
    items: Vec<InboxItem>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct InboxItem {
    agent_id: String,
    task_id: String,
    /// What the task is.
    description: String,
    /// The question: id, kind, text, and options, schema or call.
    question: Value,
}

/// A decision on an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum QuestionDecision {
    /// Yes.
    Approve,
    /// No. It also declines to answer a question of another kind.
    Deny,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AnswerQuestionArguments {
    /// The task's id.
    task_id: String,
    /// The question's id; the only open question that takes a text if absent.
    #[serde(default)]
    question_id: Option<String>,
    /// The answer: a text, or one of the options of a choice.
    #[serde(default)]
    text: Option<String>,
    /// The values of a form.
    #[serde(default)]
    values: Option<Map<String, Value>>,
    /// The decision on an approval.
    #[serde(default)]
    decision: Option<QuestionDecision>,
    /// Why, beside a decision.
    #[serde(default)]
    reason: Option<String>,
}

pub(super) async fn send(
    call: &mut McpToolCall<'_>,
    arguments: SendTaskArguments,
) -> Result<ToolOutcome, Problem> {
    let wait = wait_of(arguments.wait_seconds)?;
    // A client that repeats the call with answers goes on with its task.
    if let Some(task) = call.request_state.as_deref().and_then(task_of_state) {
        let TaskAtEndpoint { endpoint, .. } = call.api.find(&task).await?;
        return follow(call, &endpoint, &task, wait).await;
    }
    let (endpoint, task) = submit(call.api, arguments).await?;
    if call.context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks()) {
        let seen = call.api.task_at(&endpoint, &task).await?;
        let may_approve = call.api.may_approve(&endpoint).await;
        return Ok(ToolOutcome::Created(task_extension::handle(&seen, may_approve)));
    }
    follow(call, &endpoint, &task, wait).await
}

/// Sends the task; returns the base URL of the agent that has it, and its id.
async fn submit(api: &MeshApi, arguments: SendTaskArguments) -> Result<(String, String), Problem> {
    let SendTaskArguments { description, capability, agent, input, artifacts, deadline, task_id, .. } =
        arguments;
    let mut payload = json!({ "description": description });
    if let Some(members) = payload.as_object_mut() {
        members.extend(capability.clone().map(|name| ("capability".to_owned(), name.into())));
        members.extend(input.map(|input| ("input".to_owned(), input)));
        members.extend(deadline.map(|deadline| ("deadline".to_owned(), deadline.into())));
        members.extend(task_id.map(|id| ("taskId".to_owned(), id.into())));
        members.extend((!artifacts.is_empty()).then(|| ("artifacts".to_owned(), artifacts.into())));
    }
    let recipient = api.recipient(agent.as_deref(), capability.as_deref()).await?;
    let message = json!({
        "messageId": uuid::Uuid::now_v7(),
        "fromAgentId": "mcp",
        "toAgentId": recipient.agent,
        "type": "task-request",
        "payload": payload,
    });
    let accepted = api.send(&recipient.endpoint, &message).await?;
    let task = accepted["taskId"].as_str().unwrap_or_default().to_owned();
    Ok((recipient.endpoint, task))
}

pub(super) async fn get(
    call: &mut McpToolCall<'_>,
    arguments: GetTaskArguments,
) -> Result<ToolOutcome, Problem> {
    let wait = wait_of(arguments.wait_seconds)?;
    let TaskAtEndpoint { endpoint, task } = call.api.find(&arguments.task_id).await?;
    if wait.is_zero() && call.input_responses.is_none() {
        return Ok(ToolOutcome::Task(Box::new(TaskOutput::of(&task))));
    }
    follow(call, &endpoint, &task.id, wait).await
}

fn wait_of(seconds: u64) -> Result<Duration, Problem> {
    match seconds <= MAX_WAIT_SECONDS {
        true => Ok(Duration::from_secs(seconds)),
        false => Err(invalid(format!("waitSeconds: {seconds} is more than {MAX_WAIT_SECONDS}"))),
    }
}

pub(super) async fn list(
    call: &mut McpToolCall<'_>,
    arguments: ListTasksArguments,
) -> Result<ToolOutcome, Problem> {
    if !(1..=100).contains(&arguments.limit) {
        return Err(invalid("limit: must be 1 to 100"));
    }
    let path = format!("{}?limit={}", routes::TASKS, arguments.limit);
    let endpoints = call.api.every_agent().await?;
    let answers = join_all(endpoints.iter().map(|endpoint| call.api.get::<Value>(endpoint, &path))).await;
    // The agents that work for the accountable one list the task, too; theirs have a path.
    let mut tasks: BTreeMap<String, ListedTask> = BTreeMap::new();
    for answer in answers {
        let mut answer = answer?;
        let agent = answer["agentId"].as_str().unwrap_or_default().to_owned();
        for task in answer["tasks"].as_array_mut().map(std::mem::take).unwrap_or_default() {
            let task = read_task(task)?;
            let path = task.metadata.get(EXTENSION).and_then(|ours| ours["path"].as_array());
            if path.is_none_or(Vec::is_empty) {
                tasks.insert(task.id.clone(), listed(&task, &agent));
            }
        }
    }
    let mut tasks: Vec<_> = tasks.into_values().collect();
    tasks.sort_by(|one, other| other.since.cmp(&one.since));
    tasks.truncate(arguments.limit);
    ToolOutcome::data(&TaskList { tasks })
}

fn listed(task: &A2aTask, agent: &str) -> ListedTask {
    let ours = task.metadata.get(EXTENSION).map(|ours| &ours["description"]);
    ListedTask {
        task_id: task.id.clone(),
        agent_id: agent.to_owned(),
        state: task.status.state.word().to_owned(),
        since: task.status.timestamp.map(|at| at.to_string()),
        description: ours
            .and_then(Value::as_str)
            .map(|text| beginning(text, MAX_DESCRIPTION_BYTES).to_owned()),
        questions: open_questions(task).len(),
    }
}

pub(super) async fn cancel(
    call: &mut McpToolCall<'_>,
    arguments: CancelTaskArguments,
) -> Result<ToolOutcome, Problem> {
    let task = cancel_task(call.api, &arguments.task_id, arguments.reason).await?;
    Ok(ToolOutcome::Task(Box::new(TaskOutput::of(&task))))
}

pub(super) async fn cancel_task(
    api: &MeshApi,
    task: &str,
    reason: Option<String>,
) -> Result<A2aTask, Problem> {
    let TaskAtEndpoint { endpoint, .. } = api.find(task).await?;
    let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    read_task(api.post(&endpoint, &format!("{}/{}/cancel", routes::TASKS, encoded(task)), &body).await?)
}

pub(super) async fn inbox(call: &mut McpToolCall<'_>, _: Inbox) -> Result<ToolOutcome, Problem> {
    let endpoints = call.api.agent_endpoints().await?;
    let answers =
        join_all(endpoints.iter().map(|endpoint| call.api.get::<Value>(endpoint, routes::INBOX))).await;
    let mut items = BTreeMap::new();
    for answer in answers {
        for item in answer?["items"].as_array_mut().map(std::mem::take).unwrap_or_default() {
            let unreadable = |error: serde_json::Error| Problem::new(Reason::Internal, error.to_string());
            let item: InboxItem = serde_json::from_value(item).map_err(unreadable)?;
            items.insert(item.question["id"].to_string(), item);
        }
    }
    ToolOutcome::data(&InboxList { items: items.into_values().collect() })
}

pub(super) async fn answer(
    call: &mut McpToolCall<'_>,
    arguments: AnswerQuestionArguments,
) -> Result<ToolOutcome, Problem> {
    let AnswerQuestionArguments { task_id, question_id, text, values, decision, reason } = arguments;
    let TaskAtEndpoint { endpoint, task } = call.api.find(&task_id).await?;
    if decision == Some(QuestionDecision::Approve) {
        let id = question_id.ok_or_else(|| invalid("questionId: names what is approved"))?;
        let open = open_questions(&task);
        let question = open.iter().find(|question| question.id == id);
        let missing =
            || Problem::new(Reason::NotAwaitingAnswer, format!("task {task_id} has no open question {id}"));
        return approve(call, &endpoint, &task_id, question.ok_or_else(missing)?).await;
    }
    let mut body = Map::new();
    body.extend(question_id.map(|id| ("questionId".to_owned(), id.into())));
    body.extend(text.map(|text| ("text".to_owned(), text.into())));
    body.extend(values.map(|values| ("values".to_owned(), Value::Object(values))));
    body.extend(decision.map(|_| ("decision".to_owned(), "deny".into())));
    body.extend(reason.map(|reason| ("reason".to_owned(), reason.into())));
    let task = read_task(call.api.post(&endpoint, &answer_path(&task_id), &Value::Object(body)).await?)?;
    Ok(ToolOutcome::Task(Box::new(TaskOutput::of(&task))))
}

/// Puts an approval to the person at the client. A tool's arguments are written by a model, so they never approve.
async fn approve(
    call: &mut McpToolCall<'_>,
    endpoint: &str,
    task: &str,
    question: &Question,
) -> Result<ToolOutcome, Problem> {
    if question.kind != QuestionKind::Approval {
        return Err(invalid(format!("question {} is no approval: answer it by text or values", question.id)));
    }
    let why = match ElicitationSupport::of(call) {
        ElicitationSupport::None => "this client can't ask one (no elicitation)",
        ElicitationSupport::InputRequired | ElicitationSupport::ServerRequest
            if !call.api.may_approve(endpoint).await =>
        {
            "this client has no credential of one"
        }
        ElicitationSupport::InputRequired | ElicitationSupport::ServerRequest => {
            return follow(call, endpoint, task, Duration::ZERO).await;
        }
    };
    let message = format!(
        "a person approves, not a tool call, and {why}: mesh answer {task} --question {} --approve",
        question.id
    );
    Err(Problem::new(Reason::Forbidden, message))
}
