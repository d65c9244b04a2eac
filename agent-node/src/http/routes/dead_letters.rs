//! `/a2a/dead-letters`: list, read and redrive messages that were given up.

use super::id;
use crate::{
    agent::RedriveDeadLetter,
    http::node_state::{HostedAgent, NodeState},
    journal::for_each_record,
};
use actix_web::{HttpRequest, HttpResponse, web};
use blackboard::refusal::Refusal;
use engine::{
    content,
    records::{DeadLetter, keys},
};
use protocol::{
    ids::MessageId,
    principal::Principal,
    problem::{Problem, Reason},
};
use serde_json::{Value, json};

/// Fails unless `by` is the operator, the user of this machine.
fn check_operator(by: &Principal) -> Result<(), Problem> {
    if *by == Principal::local_user() {
        return Ok(());
    }
    Err(Problem::new(Reason::Forbidden, "dead letters are for the operator"))
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
    for local in node.agents_in_lookup_order(request) {
        let key = keys::dead_letter(&local.id, message);
        let found = local.store.latest(&key).map_err(Problem::from)?;
        if let Some(record) = found {
            let dead =
                content::decode(&local.id, local.store.as_ref(), &record.value).map_err(Problem::from)?;
            return Ok((local.clone(), dead));
        }
    }
    Err(Problem::new(Reason::MessageNotFound, format!("no dead letter {message}")))
}

/// Lists the dead letters of the port's agent, oldest first.
pub async fn list(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    check_operator(&by)?;
    let local = node.default_agent(&request)?;
    let mut letters = Vec::new();
    for_each_record(local.store.as_ref(), &keys::all(&local.id, "dead"), |record| {
        let dead: DeadLetter = content::decode(&local.id, local.store.as_ref(), &record.value)?;
        letters.push(summary(local, &dead));
        Ok(())
    })
    .map_err(Problem::from)?;
    Ok(HttpResponse::Ok().json(json!({ "agentId": local.id, "deadLetters": letters })))
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
