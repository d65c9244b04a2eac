//! `/a2a/tasks`: the house use view of tasks, for curl. A task is A2A's Task; a stream is A2A's stream responses.

use super::id;
use crate::{
    agent::{Answer, Cancel},
    http::{
        events,
        node_state::{HostedAgent, Node},
    },
    tasks,
};
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::refusal::Refusal;
use engine::PeerLocation;
use engine::records::TaskRow;
use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many tasks to list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listing {
    limit: Option<String>,
}

/// Most tasks in one list.
const MOST: usize = 1_000;

/// The task as the port's own agent has it; where that one has none, or the port is nobody's, as the agent has it that is
/// accountable for it: nobody it came through.
pub(super) fn find<'a>(
    request: &HttpRequest,
    node: &'a Node,
    task: &TaskId,
    by: &Principal,
) -> Result<(&'a HostedAgent, TaskRow), Problem> {
    let own = node.of_port(request).map(|local| &local.id);
    let mut best: Option<(&HostedAgent, TaskRow)> = None;
    for local in node.in_turn(request) {
        let found = tasks::find(local.store.as_ref(), &local.id, task, by).map_err(Problem::from)?;
        let Some(row) = found else { continue };
        if own == Some(&local.id) {
            return Ok((local, row));
        }
        let hops = |row: &TaskRow| row.task.spec.path.len();
        if best.as_ref().is_none_or(|(_, best)| hops(&row) < hops(best)) {
            best = Some((local, row));
        }
    }
    best.ok_or_else(|| Problem::new(Reason::TaskNotFound, format!("no task {task} of yours")))
}

/// The tasks of the port's agent that the caller may see, newest change first.
pub async fn list(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    listing: web::Query<Listing>,
) -> Result<HttpResponse, Refusal> {
    let local = node.host(&request)?;
    let limit = match listing.limit.as_deref().map(str::parse) {
        None => 50,
        Some(Ok(limit @ 1..=MOST)) => limit,
        Some(Ok(_) | Err(_)) => {
            return Err(Problem::new(Reason::InvalidField, format!("limit must be 1 to {MOST}")).into());
        }
    };
    let tasks = tasks::list(local.store.as_ref(), &local.id, &by, limit).map_err(Problem::from)?;
    let tasks: Vec<_> = tasks.iter().map(protocol::task::Task::to_a2a).collect();
    Ok(HttpResponse::Ok().json(json!({ "agentId": local.id, "tasks": tasks })))
}

/// One task.
pub async fn get(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let (_, row) = find(&request, &node, &id(&path)?, &by)?;
    Ok(HttpResponse::Ok().json(row.task.to_a2a()))
}

/// What happens to a task, from the first event on or after `Last-Event-ID`; ends with the terminal one.
pub async fn events(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let (local, row) = find(&request, &node, &id(&path)?, &by)?;
    let last = request.headers().get("last-event-id").and_then(|header| header.to_str().ok());
    let after = match last {
        Some(text) => events::parse_id(text).ok_or_else(|| {
            Problem::new(Reason::InvalidField, format!("Last-Event-ID {text:?} is none of this stream's"))
        })?,
        None => (0, 0),
    };
    Ok(events::of_task(local.store.clone(), local.id.clone(), row, after).await?)
}

/// Why a bid won, candidate by candidate: as this agent has it, or the one of this node that it works for.
pub async fn award(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let (local, row) = find(&request, &node, &task, &by)?;
    let award_of = |local: &HostedAgent, row: &TaskRow| {
        let award = tasks::award(local.store.as_ref(), &local.id, &row.task.conversation);
        award.map_err(Problem::from)
    };
    let told =
        |local: &HostedAgent, award| HttpResponse::Ok().json(json!({ "agentId": local.id, "award": award }));
    if let Some(award) = award_of(local, &row)? {
        return Ok(told(local, award));
    }
    let Principal::Agent(owner) = &row.task.owner else {
        let message = format!("task {task} was not awarded: {} did it itself", local.id);
        return Err(Problem::new(Reason::TaskNotFound, message).into());
    };
    if let Some(awarding) = node.agents.get(owner) {
        let row = tasks::find(awarding.store.as_ref(), owner, &task, &by).map_err(Problem::from)?;
        if let Some(award) = row.map(|row| award_of(awarding, &row)).transpose()?.flatten() {
            return Ok(told(awarding, award));
        }
    }
    Err(with_its_owner(&node, &local.id, &task, owner).into())
}

/// The award of a task that `me` does for `owner`, whose it is to tell.
fn with_its_owner(node: &Node, me: &AgentId, task: &TaskId, owner: &AgentId) -> Problem {
    let message =
        format!("{me} has task {task} from {owner}, and only {owner} knows how it was awarded: ask there");
    match node.peers.locate(owner) {
        PeerLocation::At(endpoint) => {
            let message = format!("{message}, at {endpoint} or where that is published");
            Problem::new(Reason::TaskNotFound, message).with("endpoint", endpoint)
        }
        PeerLocation::Departed => Problem::new(Reason::TaskNotFound, format!("{message} when it is back")),
        PeerLocation::Here | PeerLocation::Unknown => Problem::new(Reason::TaskNotFound, message),
    }
    .with("owner", owner.as_str())
}

/// Ends a task.
pub async fn cancel(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let reason = member(&node, &body, "reason")?.unwrap_or_else(|| "cancelled by its owner".to_owned());
    let (local, _) = find(&request, &node, &task, &by)?;
    let cancel = Cancel { task: task.clone(), by: by.clone().into_inner(), reason };
    local.actor.send(cancel).await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))??;
    let (_, row) = find(&request, &node, &task, &by)?;
    Ok(HttpResponse::Ok().json(row.task.to_a2a()))
}

/// Answers what a task asked.
pub async fn answer(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    let task: TaskId = id(&path)?;
    let text = member(&node, &body, "text")?
        .ok_or_else(|| Problem::new(Reason::InvalidField, "text is required"))?;
    let (local, _) = find(&request, &node, &task, &by)?;
    let answer = Answer { task: task.clone(), by: by.clone().into_inner(), text, message: None };
    local.actor.send(answer).await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))??;
    let (_, row) = find(&request, &node, &task, &by)?;
    Ok(HttpResponse::Ok().json(row.task.to_a2a()))
}

/// One text member of a small JSON body; no body is an empty object.
fn member(node: &Node, body: &[u8], name: &str) -> Result<Option<String>, Problem> {
    if body.is_empty() {
        return Ok(None);
    }
    let invalid = |what: &str| Problem::new(Reason::InvalidField, what.to_owned());
    let Value::Object(mut members) = protocol::json::parse(body, node.limits.max_depth)? else {
        return Err(invalid("the body must be a JSON object"));
    };
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(&format!("{name} must be a text"))),
    }
}
