//! Requests for tasks that a person makes by a button or a verb, without writing the message.

use super::messages;
use crate::{
    agent::CancelTaskRequest,
    http::node_state::{HostedAgent, NodeState},
};
use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
    task::TaskSpec,
};
use serde_json::{Value, json};
use transport::refusal::Refusal;

/// Sends a task request with these members of a message and this payload to the agent `to`. Returns the id of the task, and the
/// answer.
pub(in crate::http) async fn send(
    request: &HttpRequest,
    node: &NodeState,
    by: Principal,
    to: &AgentId,
    (mut message, mut payload): (Value, Value),
) -> Result<(String, HttpResponse), Refusal> {
    let task = format!("t-{}", uuid::Uuid::now_v7().simple());
    payload["taskId"] = json!(task);
    if by.agent().is_none() {
        message["fromAgentId"] = json!("me");
    }
    message["toAgentId"] = json!(to);
    message["type"] = json!("task-request");
    message["payload"] = payload;
    let answer = messages::receive(request, node, by, Bytes::from(message.to_string())).await?;
    Ok((task, answer))
}

/// Ends a task at its agent.
pub(in crate::http) async fn cancel(
    local: &HostedAgent,
    task: TaskId,
    by: Principal,
    reason: String,
) -> Result<(), Problem> {
    let canceled = local.actor.send(CancelTaskRequest { task, by, reason }).await;
    canceled.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?.map(drop)
}

/// Sends the task `spec` again, as a new one whose thread names it.
pub(in crate::http) async fn send_again(
    request: &HttpRequest,
    node: &NodeState,
    by: Principal,
    to: &AgentId,
    spec: &TaskSpec,
) -> Result<(String, HttpResponse), Refusal> {
    let mut message = json!({ "threadId": spec.task_id });
    if let Some(space) = &spec.space {
        message["spaceId"] = json!(space);
    }
    send(request, node, by, to, (message, payload_of(spec))).await
}

/// The payload of a message that asks for what `spec` asks for, without an id.
pub(in crate::http) fn payload_of(spec: &TaskSpec) -> Value {
    let mut payload = json!({ "description": spec.description });
    let members = [
        ("capability", spec.capability.as_ref().map(|capability| json!(capability))),
        ("input", spec.input.clone()),
        ("acceptedModes", (!spec.accepted_modes.is_empty()).then(|| json!(spec.accepted_modes))),
        ("budget", (!spec.budget.is_none()).then(|| json!(spec.budget))),
        ("accept", spec.accept.as_ref().map(|accept| json!(accept))),
        ("inlineArtifacts", (!spec.artifacts.is_empty()).then(|| json!(spec.artifacts))),
    ];
    for (name, value) in members {
        if let Some(value) = value {
            payload[name] = value;
        }
    }
    payload
}
