//! `GET /a2a/messages/{id}`: the status of a message, for its sender.

use super::super::id;
use crate::{
    agent::IsPending,
    http::node_state::{HostedAgent, NodeState},
    tasks,
};
use actix_web::{HttpRequest, HttpResponse, web};
use engine::records::{Receipt, keys};
use protocol::{
    ids::{AgentId, MessageId},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;
use store::{Filter, Record};
use transport::refusal::Refusal;

/// Limit of further messages of the same id in an answer.
const MAX_OTHERS: usize = 100;

/// Number of receipts per read.
const PAGE: usize = 64;

/// Selects one of several messages with the same id.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageStatusQuery {
    from_agent_id: Option<String>,
}

/// Returns the status of a message. `accepted` is false until it is recorded. If its sender used the id several times, under
/// several names or for several agents, the answer describes the newest one, the port's agent's first, and lists `others`.
pub async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    query: web::Query<MessageStatusQuery>,
) -> Result<HttpResponse, Refusal> {
    let message: MessageId = id(&path)?;
    let name: Option<AgentId> = query.from_agent_id.as_deref().map(id).transpose()?;
    if let Some(answer) = recorded(&node, &request, &by, &message, name.as_ref())? {
        return Ok(HttpResponse::Ok().json(answer));
    }
    for local in node.agents_in_lookup_order(&request) {
        let pending =
            IsPending { message: message.clone(), by: by.clone().into_inner(), sent_as: name.clone() };
        if let Ok(Ok(true)) = tokio::time::timeout(node.ack(), local.actor.send(pending)).await {
            let status = json!({ "messageId": message, "accepted": false, "recipient": local.id });
            return Ok(HttpResponse::Ok().json(status));
        }
    }
    // The message may have been recorded between the first read and the question to the agent.
    if let Some(answer) = recorded(&node, &request, &by, &message, name.as_ref())? {
        return Ok(HttpResponse::Ok().json(answer));
    }
    let under = name.map(|name| format!(" from {name}")).unwrap_or_default();
    Err(Problem::new(Reason::MessageNotFound, format!("no message {message}{under} of yours")).into())
}

fn recorded(
    node: &NodeState,
    request: &HttpRequest,
    by: &Principal,
    message: &MessageId,
    name: Option<&AgentId>,
) -> Result<Option<Value>, Problem> {
    let mut found = Vec::new();
    for local in node.agents_in_lookup_order(request) {
        let filter = match name {
            Some(name) => Filter::Exactly(keys::receipt(&local.id, message, by, name)),
            None => keys::receipts(&local.id, message, by),
        };
        for record in newest(local, &filter)? {
            let task = parse_receipt(&record)?.task_id;
            if super::super::tasks::is_shown(request, local, task.as_ref(), by)? {
                found.push((local, record));
            }
        }
    }
    let Some(((local, record), others)) = found.split_first() else { return Ok(None) };
    let mut answer = full_status(local, record, by, message)?;
    let others = others.iter().take(MAX_OTHERS).map(|(local, record)| summary(local, record));
    let others: Vec<Value> = others.collect::<Result<_, _>>()?;
    if !others.is_empty() {
        answer["fromAgentId"] = json!(keys::sent_as(&record.key));
        answer["others"] = json!(others);
    }
    Ok(Some(answer))
}

/// The newest receipts that `filter` admits, newest first, up to the limit of an answer.
fn newest(local: &HostedAgent, filter: &Filter) -> Result<VecDeque<Record>, Problem> {
    let (mut found, mut after) = (VecDeque::new(), 0);
    loop {
        let page = local.store.read(filter, after, PAGE).map_err(Problem::from)?;
        let is_last = page.len() < PAGE;
        for record in page {
            after = record.revision;
            found.push_front(record);
        }
        found.truncate(MAX_OTHERS + 1);
        if is_last {
            return Ok(found);
        }
    }
}

fn full_status(
    local: &HostedAgent,
    record: &Record,
    by: &Principal,
    message: &MessageId,
) -> Result<Value, Problem> {
    let receipt = parse_receipt(record)?;
    let outcome = tasks::conversation_outcome(local.store.as_ref(), &local.id, by, &receipt);
    let outcome = outcome.map_err(Problem::from)?;
    Ok(json!({
        "messageId": message,
        "accepted": true,
        "recipient": local.id,
        "type": receipt.kind,
        "taskId": receipt.task_id,
        "conversationId": receipt.conversation_id,
        "receivedAt": receipt.at,
        "outcome": outcome,
        "extra": receipt.extra,
    }))
}

/// The members that select another message of the same id.
fn summary(local: &HostedAgent, record: &Record) -> Result<Value, Problem> {
    let receipt = parse_receipt(record)?;
    Ok(json!({
        "recipient": local.id,
        "fromAgentId": keys::sent_as(&record.key),
        "type": receipt.kind,
        "taskId": receipt.task_id,
        "conversationId": receipt.conversation_id,
        "receivedAt": receipt.at,
    }))
}

fn parse_receipt(record: &Record) -> Result<Receipt, Problem> {
    serde_json::from_slice(&record.value)
        .map_err(|error| Problem::new(Reason::Internal, format!("a receipt can't be read: {error}")))
}
