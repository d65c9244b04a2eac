//! The trace of a task, from the journals: this agent's, and those of everyone it asked, each asked in its own name.
//!
//! A user sees the traces of tasks he may see; an agent sees what came of the messages it sent. So each answers for what
//! it was asked to do, and asks on whoever it asked itself.

use super::{Local, Node, id, tasks};
use crate::{
    agent::{steps, store_problem},
    conversation::record::Receipt,
    telemetry::{capture::Capture, names as n, span::Span, story},
};
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::{
    refusal::Refusal,
    store::{Filter, Key},
    wire::Call,
};
use futures_util::future::{LocalBoxFuture, join_all};
use protocol::{
    ids::{AgentId, ConversationId, MessageId, TaskId},
    message::Kind,
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

/// How many agents deep a trace is followed.
const DEEPEST: u32 = 8;
/// How long an agent at the deepest place may take; every one above it this much longer.
const PER_LEVEL: Duration = Duration::from_millis(750);

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

fn deep(depth: &Depth) -> u32 {
    depth.depth.unwrap_or(DEEPEST).min(DEEPEST)
}

/// The conversation that a message of `by` went to.
fn opened_by(local: &Local, message: &MessageId, by: &Principal) -> Result<Option<ConversationId>, Problem> {
    let key = Key::new(&[local.id.as_str(), "receipt", message.as_str(), &by.to_string()]);
    let found = local.store.read(&Filter::Below(key), 0, 1).map_err(|error| store_problem(&error))?;
    let Some(record) = found.first() else { return Ok(None) };
    let receipt: Receipt = serde_json::from_slice(&record.value)
        .map_err(|error| Problem::new(Reason::Internal, format!("a receipt can't be read: {error}")))?;
    Ok(receipt.conversation_id)
}

/// What a message opened elsewhere, as a span tells of it.
struct Asked {
    to: AgentId,
    message: MessageId,
    span_id: String,
}

fn asked(me: &AgentId, span: &Span) -> Option<Asked> {
    let opens = [Kind::TaskRequest, Kind::Award, Kind::HelpRequest].map(Kind::wire);
    let is_sent = [Some("tell"), Some("award")].contains(&span.text(n::MESH_SPAN));
    if !is_sent || !opens.contains(&span.text(n::MESH_TYPE)?) {
        return None;
    }
    let to = span.text(n::PEER_TO)?;
    let to = if to.starts_with("capability:") { me.clone() } else { AgentId::parse(to).ok()? };
    Some(Asked {
        to,
        message: MessageId::parse(span.text(n::MESH_MESSAGE)?).ok()?,
        span_id: span.span_id.clone(),
    })
}

/// The spans of a conversation, and of all that it led to.
fn follow<'a>(
    node: &'a Node,
    local: &'a Local,
    conversation: ConversationId,
    depth: u32,
) -> LocalBoxFuture<'a, Result<Part, Problem>> {
    Box::pin(async move {
        let (store, me, id) = (local.store.clone(), local.id.clone(), conversation);
        let read = web::block(move || {
            let steps = steps(store.as_ref(), &me, &id)?;
            let told = story::of(&me, &id, &steps, &Capture::default()).into_iter().map(|told| told.span);
            Ok(told.chain(story::offers(&me, &id, &steps, &Capture::default())).collect())
        });
        let told = read.await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?;
        let told = told.map_err(|error: blackboard::store::Error| store_problem(&error))?;
        let mut part = Part { spans: told, missing: Vec::new() };
        let asked: Vec<_> = part.spans.iter().filter_map(|span| asked(&local.id, span)).collect();
        let parts = join_all(asked.iter().map(|asked| part_of(node, local, asked, depth))).await;
        for (asked, answer) in asked.into_iter().zip(parts) {
            match answer {
                Ok(more) => {
                    part.spans.extend(more.spans);
                    part.missing.extend(more.missing);
                }
                Err(problem) => part.missing.push(Missing {
                    agent: asked.to.to_string(),
                    span_id: asked.span_id,
                    why: problem.message,
                }),
            }
        }
        let mut seen = BTreeSet::new();
        part.spans.retain(|span| seen.insert(span.span_id.clone()));
        Ok(part)
    })
}

async fn part_of(node: &Node, local: &Local, asked: &Asked, depth: u32) -> Result<Part, Problem> {
    if depth == 0 {
        return Err(Problem::new(Reason::TooManyHops, format!("more than {DEEPEST} agents deep")));
    }
    let by = Principal::Agent(local.id.clone());
    if let Some(other) = node.agents.get(&asked.to) {
        return match opened_by(other, &asked.message, &by)? {
            Some(conversation) => follow(node, other, conversation, depth - 1).await,
            None => Err(Problem::new(Reason::MessageNotFound, format!("{} has not taken it", asked.to))),
        };
    }
    let crate::peers::Whereabouts::At(endpoint) = node.peers.whereabouts(&asked.to) else {
        return Err(Problem::new(Reason::AgentNotFound, format!("{} is not there", asked.to)));
    };
    let url = format!("{endpoint}{}/{}/trace?depth={}", routes::MESSAGES, asked.message, depth - 1);
    let call = Call::get(&url, asked.to.as_str()).within(PER_LEVEL * depth.max(1));
    local.wire.json(call).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::record::keys;

    #[test]
    fn receipts_are_found_where_they_are_written() {
        let (me, message) = (AgentId::parse("a").unwrap(), MessageId::parse("b:c:1:0").unwrap());
        let by = Principal::Agent(AgentId::parse("b").unwrap());
        let written = keys::receipt(&me, &message, &by, &AgentId::parse("b").unwrap());
        let looked = Filter::Below(Key::new(&[me.as_str(), "receipt", message.as_str(), &by.to_string()]));
        assert!(looked.admits(&written));
    }
}
