//! The trace of a task, built from journals: this agent's, and those of the agents it sent requests to.
//!
//! A user may read the traces of tasks that it may see; an agent may read what its messages and signals caused. Each agent
//! therefore returns its own spans and, in its own name, fetches those of the agents it sent requests to.

pub(in crate::http) mod collect;
pub mod reactions;

use super::{id, tasks};
use crate::{
    http::node_state::{HostedAgent, NodeState},
    journal::first_step,
    telemetry::span::Span,
};
use actix_web::{HttpRequest, HttpResponse, web};
use collect::{MAX_DEPTH, collect};
use engine::records::{Receipt, keys};
use protocol::{
    ids::{ConversationId, MessageId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use transport::refusal::Refusal;

/// The query of a trace.
#[derive(Debug, Deserialize)]
pub struct TraceQuery {
    depth: Option<u32>,
}

/// A part of a trace.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TracePart {
    /// The spans found, in no particular order.
    pub spans: Vec<Span>,
    /// The parts that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingTracePart>,
}

impl TracePart {
    fn add(&mut self, more: TracePart) {
        self.spans.extend(more.spans);
        self.missing.extend(more.missing);
    }
}

/// A part of a trace that could not be read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingTracePart {
    pub agent: String,
    /// The span that is its parent.
    pub span_id: String,
    pub why: String,
}

/// Returns a task's trace to a caller who may see the task.
pub async fn of_task(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    query: web::Query<TraceQuery>,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let (local, row) = tasks::find(&request, &node, &task, &by)?;
    let part = collect(&node, local, row.task.conversation.clone(), max_depth(&query)).await?;
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

/// Returns what a message caused, to its sender.
pub async fn of_message(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    query: web::Query<TraceQuery>,
) -> Result<HttpResponse, Refusal> {
    let message: MessageId = id(&path)?;
    for local in node.agents_in_lookup_order(&request) {
        if let Some((conversation, task)) = conversation_of_message(local, &message, &by)?
            && tasks::is_shown(&request, local, task.as_ref(), &by)?
        {
            return Ok(HttpResponse::Ok().json(collect(&node, local, conversation, max_depth(&query)).await?));
        }
    }
    Err(Problem::new(Reason::MessageNotFound, format!("no message {message} of yours")).into())
}

/// Returns a conversation's part of a trace, to the sender of the message that opened it.
pub async fn of_conversation(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    query: web::Query<TraceQuery>,
) -> Result<HttpResponse, Refusal> {
    let conversation: ConversationId = id(&path)?;
    for local in node.agents_in_lookup_order(&request) {
        let first = first_step(local.store.as_ref(), &local.id, &conversation);
        let first = first.map_err(Problem::from)?;
        let origin = first.as_ref().and_then(|step| step.origin.as_deref());
        let is_senders =
            origin.and_then(|origin| origin.message.as_ref()).is_some_and(|message| message.by == *by);
        let task = origin.and_then(|origin| origin.task.as_ref());
        if is_senders && tasks::is_shown(&request, local, task, &by)? {
            return Ok(HttpResponse::Ok().json(collect(&node, local, conversation, max_depth(&query)).await?));
        }
    }
    Err(Problem::new(Reason::MessageNotFound, format!("no message of yours opened {conversation}")).into())
}

fn max_depth(query: &TraceQuery) -> u32 {
    query.depth.unwrap_or(MAX_DEPTH).min(MAX_DEPTH)
}

/// The conversation that received a message of `by`, and its task.
fn conversation_of_message(
    local: &HostedAgent,
    message: &MessageId,
    by: &Principal,
) -> Result<Option<(ConversationId, Option<TaskId>)>, Problem> {
    let filter = keys::receipts(&local.id, message, by);
    let found = local.store.read(&filter, 0, 1).map_err(Problem::from)?;
    let Some(record) = found.first() else { return Ok(None) };
    let receipt: Receipt = serde_json::from_slice(&record.value)
        .map_err(|error| Problem::new(Reason::Internal, format!("a receipt can't be read: {error}")))?;
    Ok(receipt.conversation_id.map(|conversation| (conversation, receipt.task_id)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ids::AgentId;

    #[test]
    fn the_filter_admits_the_key_of_a_receipt() {
        let (me, message) = (AgentId::parse("a").unwrap(), MessageId::parse("b:c:1:0").unwrap());
        let by = Principal::Agent(AgentId::parse("b").unwrap());
        let written = keys::receipt(&me, &message, &by, &AgentId::parse("b").unwrap());
        assert!(keys::receipts(&me, &message, &by).admits(&written));
    }
}
