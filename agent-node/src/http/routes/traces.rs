//! The trace of a task, from the journals: this agent's, and those of everyone it asked, each asked in its own name.
//!
//! A user sees the traces of tasks he may see; an agent sees what came of the messages it sent and of the signals it
//! published. So each answers for what it was asked to do, and asks on whoever it asked itself.

mod follow;
pub mod reactions;

use super::{id, tasks};
use crate::{
    http::node_state::{HostedAgent, Node},
    journal::first_step,
    telemetry::span::Span,
};
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::refusal::Refusal;
use engine::records::{Receipt, keys};
use follow::{DEEPEST, follow};
use protocol::{
    ids::{ConversationId, MessageId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How deep to follow.
#[derive(Debug, Deserialize)]
pub struct Depth {
    depth: Option<u32>,
}

/// A part of a trace.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    /// What is known, in no particular order.
    pub spans: Vec<Span>,
    /// What is not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

impl Part {
    fn add(&mut self, more: Part) {
        self.spans.extend(more.spans);
        self.missing.extend(more.missing);
    }
}

/// A part that could not be had.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// Whose.
    pub agent: String,
    /// The span it would hang under.
    pub span_id: String,
    /// Why.
    pub why: String,
}

/// A task's trace, for those who may see the task.
pub async fn of_task(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    depth: web::Query<Depth>,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let (local, row) = tasks::find(&request, &node, &task, &by)?;
    let part = follow(&node, local, row.task.conversation.clone(), deep(&depth)).await?;
    if part.spans.is_empty() {
        let message = format!("the journal of task {task} is not kept any more, or is older than traces are");
        return Err(Problem::new(Reason::Trimmed, message).into());
    }
    let trace = part.spans.first().map(|span| span.trace_id.clone());
    Ok(HttpResponse::Ok().json(json!({
        "agentId": local.id,
        "taskId": task,
        "traceId": trace,
        "spans": part.spans,
        "missing": part.missing,
    })))
}

/// What came of a message, for whoever sent it.
pub async fn of_message(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    depth: web::Query<Depth>,
) -> Result<HttpResponse, Refusal> {
    let message: MessageId = id(&path)?;
    for local in node.in_turn(&request) {
        if let Some(conversation) = opened_by(local, &message, &by)? {
            return Ok(HttpResponse::Ok().json(follow(&node, local, conversation, deep(&depth)).await?));
        }
    }
    Err(Problem::new(Reason::MessageNotFound, format!("no message {message} of yours")).into())
}

/// What came of a conversation, for whoever sent the message that opened it.
pub async fn of_conversation(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    depth: web::Query<Depth>,
) -> Result<HttpResponse, Refusal> {
    let conversation: ConversationId = id(&path)?;
    for local in node.in_turn(&request) {
        let first = first_step(local.store.as_ref(), &local.id, &conversation);
        let first = first.map_err(Problem::from)?;
        let origin = first.as_ref().and_then(|step| step.origin.as_deref());
        if origin.and_then(|origin| origin.message.as_ref()).is_some_and(|message| message.by == *by) {
            return Ok(HttpResponse::Ok().json(follow(&node, local, conversation, deep(&depth)).await?));
        }
    }
    Err(Problem::new(Reason::MessageNotFound, format!("no message of yours opened {conversation}")).into())
}

fn deep(depth: &Depth) -> u32 {
    depth.depth.unwrap_or(DEEPEST).min(DEEPEST)
}

/// The conversation that a message of `by` went to.
fn opened_by(
    local: &HostedAgent,
    message: &MessageId,
    by: &Principal,
) -> Result<Option<ConversationId>, Problem> {
    let of = keys::receipts(&local.id, message, by);
    let found = local.store.read(&of, 0, 1).map_err(Problem::from)?;
    let Some(record) = found.first() else { return Ok(None) };
    let receipt: Receipt = serde_json::from_slice(&record.value)
        .map_err(|error| Problem::new(Reason::Internal, format!("a receipt can't be read: {error}")))?;
    Ok(receipt.conversation_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ids::AgentId;

    #[test]
    fn receipts_are_found_where_they_are_written() {
        let (me, message) = (AgentId::parse("a").unwrap(), MessageId::parse("b:c:1:0").unwrap());
        let by = Principal::Agent(AgentId::parse("b").unwrap());
        let written = keys::receipt(&me, &message, &by, &AgentId::parse("b").unwrap());
        assert!(keys::receipts(&me, &message, &by).admits(&written));
    }
}
