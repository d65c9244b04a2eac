//! `GET /a2a/messages/{id}`: what became of a message, for whoever sent it.

use super::super::id;
use crate::{
    agent::IsPending,
    http::node_state::{HostedAgent, Node},
    tasks,
};
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::{
    refusal::Refusal,
    store::{Filter, Record},
};
use engine::records::{Receipt, keys};
use protocol::{
    ids::{AgentId, MessageId},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// As many messages of one id as an answer tells of, besides the one it is about.
const MOST_OTHERS: usize = 100;

/// As many receipts as are read at once.
const PAGE: usize = 64;

/// Which of several messages of one id.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Which {
    /// The name it was sent under.
    from_agent_id: Option<String>,
}

/// What became of a message. `accepted` is false while it is not recorded yet. Where its sender used the id several times,
/// under several names or for several agents, the answer is about the newest, those for the port's agent first, and has the
/// `others`.
pub async fn get(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    which: web::Query<Which>,
) -> Result<HttpResponse, Refusal> {
    let message: MessageId = id(&path)?;
    let name: Option<AgentId> = which.from_agent_id.as_deref().map(id).transpose()?;
    if let Some(answer) = recorded(&node, &request, &by, &message, name.as_ref())? {
        return Ok(HttpResponse::Ok().json(answer));
    }
    for local in node.in_turn(&request) {
        let pending =
            IsPending { message: message.clone(), by: by.clone().into_inner(), sent_as: name.clone() };
        if let Ok(Ok(true)) = tokio::time::timeout(node.ack(), local.actor.send(pending)).await {
            let seen = json!({ "messageId": message, "accepted": false, "recipient": local.id });
            return Ok(HttpResponse::Ok().json(seen));
        }
    }
    // What was not recorded at the first look may have been before the agent was asked.
    if let Some(answer) = recorded(&node, &request, &by, &message, name.as_ref())? {
        return Ok(HttpResponse::Ok().json(answer));
    }
    let under = name.map(|name| format!(" from {name}")).unwrap_or_default();
    Err(Problem::new(Reason::MessageNotFound, format!("no message {message}{under} of yours")).into())
}

/// What is recorded of it, if anything.
fn recorded(
    node: &Node,
    request: &HttpRequest,
    by: &Principal,
    message: &MessageId,
    name: Option<&AgentId>,
) -> Result<Option<Value>, Problem> {
    let mut found = Vec::new();
    for local in node.in_turn(request) {
        let those = match name {
            Some(name) => Filter::Exactly(keys::receipt(&local.id, message, by, name)),
            None => keys::receipts(&local.id, message, by),
        };
        found.extend(newest(local, &those)?.into_iter().map(|record| (local, record)));
    }
    let Some(((local, record), others)) = found.split_first() else { return Ok(None) };
    let mut answer = told(local, record, message)?;
    let others = others.iter().take(MOST_OTHERS).map(|(local, record)| named(local, record));
    let others: Vec<Value> = others.collect::<Result<_, _>>()?;
    if !others.is_empty() {
        answer["fromAgentId"] = json!(keys::sent_as(&record.key));
        answer["others"] = json!(others);
    }
    Ok(Some(answer))
}

/// The newest of the receipts that `those` admits, newest first: as many as are told of.
fn newest(local: &HostedAgent, those: &Filter) -> Result<VecDeque<Record>, Problem> {
    let (mut found, mut after) = (VecDeque::new(), 0);
    loop {
        let page = local.store.read(those, after, PAGE).map_err(Problem::from)?;
        let is_last = page.len() < PAGE;
        for record in page {
            after = record.revision;
            found.push_front(record);
        }
        found.truncate(MOST_OTHERS + 1);
        if is_last {
            return Ok(found);
        }
    }
}

/// All there is to tell of one.
fn told(local: &HostedAgent, record: &Record, message: &MessageId) -> Result<Value, Problem> {
    let receipt = parsed(record)?;
    let outcome =
        tasks::conversation_outcome(local.store.as_ref(), &local.id, &receipt).map_err(Problem::from)?;
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

/// What it takes to ask for another one.
fn named(local: &HostedAgent, record: &Record) -> Result<Value, Problem> {
    let receipt = parsed(record)?;
    Ok(json!({
        "recipient": local.id,
        "fromAgentId": keys::sent_as(&record.key),
        "type": receipt.kind,
        "taskId": receipt.task_id,
        "conversationId": receipt.conversation_id,
        "receivedAt": receipt.at,
    }))
}

fn parsed(record: &Record) -> Result<Receipt, Problem> {
    serde_json::from_slice(&record.value)
        .map_err(|error| Problem::new(Reason::Internal, format!("a receipt can't be read: {error}")))
}
