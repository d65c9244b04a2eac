//! `/a2a/dead-letters`: list, read and redrive messages that were given up.

use super::{id, messages::proof_of};
use crate::{
    agent::RedriveDeadLetter,
    http::node_state::{HostedAgent, NodeState},
};
use actix_web::{HttpRequest, HttpResponse, web};
use engine::{
    content,
    records::{DeadLetter, TaskRow, keys, lists},
};
use patterns::session::{CAPABILITY, is_confidential, seat};
use protocol::{
    ids::MessageId,
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Error, Filter, Key, ListOrder, ListPosition, ListQuery};
use transport::refusal::Refusal;

/// Fails unless `by` is the operator, the user of this machine.
pub(in crate::http) fn check_operator(by: &Principal) -> Result<(), Problem> {
    if *by == Principal::local_user() {
        return Ok(());
    }
    Err(Problem::new(Reason::Forbidden, "dead letters are for the operator"))
}

/// Whether a dead letter may be shown: one of a session only to a person who has proven who they are.
fn is_shown(local: &HostedAgent, dead: &DeadLetter, proof: SenderProof) -> Result<bool, Error> {
    if proof == SenderProof::Credential {
        return Ok(true);
    }
    let payload = dead.letter.payload.to_json();
    if seat::is_seat_input(payload.get("input")) || payload["capability"] == CAPABILITY {
        return Ok(false);
    }
    let Some(task) = dead.letter.payload.task_id() else { return Ok(true) };
    let of_task = Filter::Below(Key::new(&[local.id.as_str(), "task", task.as_str()]));
    for record in local.store.read(&of_task, 0, MAX_LETTERS)? {
        let row: TaskRow = content::decode(&local.id, local.store.as_ref(), &record.value)?;
        if is_confidential(&row.task) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn summary(local: &HostedAgent, dead: &DeadLetter) -> Value {
    json!({
        "messageId": dead.message_id,
        "from": local.id,
        "to": dead.letter.to_agent_id,
        "type": dead.letter.kind(),
        "taskId": dead.letter.payload.task_id(),
        "reason": dead.reason,
        "message": dead.message,
        "at": dead.at,
    })
}

fn find(
    node: &NodeState,
    request: &HttpRequest,
    message: &MessageId,
) -> Result<(HostedAgent, DeadLetter), Problem> {
    let proof = proof_of(request);
    for local in node.agents_in_lookup_order(request) {
        let key = keys::dead_letter(&local.id, message);
        let found = local.store.latest(&key).map_err(Problem::from)?;
        if let Some(record) = found {
            let dead =
                content::decode(&local.id, local.store.as_ref(), &record.value).map_err(Problem::from)?;
            if is_shown(local, &dead, proof).map_err(Problem::from)? {
                return Ok((local.clone(), dead));
            }
        }
    }
    Err(Problem::new(Reason::MessageNotFound, format!("no dead letter {message}")))
}

/// The query of a list of dead letters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetterQuery {
    limit: Option<String>,
    after: Option<String>,
}

const MAX_LETTERS: usize = 1_000;

/// A position as text: `time-record`.
fn parse_position(text: &str) -> Result<ListPosition, Problem> {
    let read = || {
        let (at, record) = text.rsplit_once('-')?;
        Some(ListPosition { at: at.parse().ok()?, record: record.parse().ok()? })
    };
    read().ok_or_else(|| Problem::new(Reason::InvalidField, "after must be the next of an earlier list"))
}

/// Lists the dead letters of the port's agent, oldest first: at most `limit` (1,000), those behind `after`. If there are
/// more, `next` is the `after` of the rest.
pub async fn list(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    query: web::Query<DeadLetterQuery>,
) -> Result<HttpResponse, Refusal> {
    check_operator(&by)?;
    let local = node.default_agent(&request)?.clone();
    let limit = match query.limit.as_deref().map(str::parse) {
        None => MAX_LETTERS,
        Some(Ok(limit @ 1..=MAX_LETTERS)) => limit,
        Some(Ok(_) | Err(_)) => {
            let message = format!("limit must be 1 to {MAX_LETTERS}");
            return Err(Problem::new(Reason::InvalidField, message).into());
        }
    };
    let after = query.after.as_deref().map(parse_position).transpose()?;
    let page = ListQuery { after, ..ListQuery::oldest(lists::by_age(&local.id, "dead")) };
    let proof = proof_of(&request);
    let listed = web::block(move || {
        let (letters, next) = page_of(&local, &page, limit, proof)?;
        let letters: Vec<_> = letters.iter().map(|dead| summary(&local, dead)).collect();
        Ok::<_, Error>(json!({ "agentId": local.id, "deadLetters": letters, "next": next }))
    });
    let body = listed.await.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?;
    Ok(HttpResponse::Ok().json(body.map_err(Problem::from)?))
}

/// Those of `page` that may be shown, at most `limit`, and where the rest begins.
fn page_of(
    local: &HostedAgent,
    page: &ListQuery,
    limit: usize,
    proof: SenderProof,
) -> Result<(Vec<DeadLetter>, Option<String>), Error> {
    let store = local.store.as_ref();
    let (keys, mut letters) = (store.list(page, limit)?, Vec::new());
    let last = keys.last().filter(|_| keys.len() == limit).map(|last| last.position);
    for listed in &keys {
        if let Some(record) = store.latest(&listed.key)? {
            let dead: DeadLetter = content::decode(&local.id, store, &record.value)?;
            if is_shown(local, &dead, proof)? {
                letters.push(dead);
            }
        }
    }
    Ok((letters, last.map(|ListPosition { at, record }| format!("{at}-{record}"))))
}

/// The newest dead letters of an agent that may be shown to who has proven itself so.
pub(in crate::http) fn newest(
    local: &HostedAgent,
    limit: usize,
    proof: SenderProof,
) -> Result<Vec<DeadLetter>, Error> {
    let order = ListOrder::NewestFirst;
    let newest = ListQuery { order, ..ListQuery::oldest(lists::by_age(&local.id, "dead")) };
    Ok(page_of(local, &newest, limit, proof)?.0)
}

/// Returns one dead letter with its content.
pub async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    check_operator(&by)?;
    let (local, dead) = find(&node, &request, &id(&path)?)?;
    let mut body = summary(&local, &dead);
    if let Some(members) = body.as_object_mut() {
        members.insert("letter".into(), dead.letter.to_json());
    }
    Ok(HttpResponse::Ok().json(body))
}

/// Sends a dead letter again, under its own id.
pub async fn redrive(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    check_operator(&by)?;
    let message: MessageId = id(&path)?;
    let (local, _) = find(&node, &request, &message)?;
    let ack = local
        .actor
        .send(RedriveDeadLetter { message })
        .await
        .map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))??;
    Ok(HttpResponse::Accepted().json(
        json!({ "messageId": ack.message_id, "accepted": true, "conversationId": ack.conversation_id }),
    ))
}
