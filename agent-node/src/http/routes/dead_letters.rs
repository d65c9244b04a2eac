//! `/a2a/dead-letters`: messages that were given up, and their second life.

use super::id;
use crate::{
    agent::RedriveDeadLetter,
    http::node_state::{HostedAgent, Node},
    journal::every,
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

/// Dead letters are the operator's: the user on this machine.
fn allow(by: &Principal) -> Result<(), Problem> {
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
    node: &Node,
    request: &HttpRequest,
    message: &MessageId,
) -> Result<(HostedAgent, DeadLetter), Problem> {
    for local in node.in_turn(request) {
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

/// Those of the port's agent, oldest first.
pub async fn list(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    allow(&by)?;
    let local = node.host(&request)?;
    let mut letters = Vec::new();
    every(local.store.as_ref(), &keys::all(&local.id, "dead"), |record| {
        let dead: DeadLetter = content::decode(&local.id, local.store.as_ref(), &record.value)?;
        letters.push(summary(local, &dead));
        Ok(())
    })
    .map_err(Problem::from)?;
    Ok(HttpResponse::Ok().json(json!({ "agentId": local.id, "deadLetters": letters })))
}

/// One, with its content.
pub async fn get(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    allow(&by)?;
    let (local, dead) = find(&node, &request, &id(&path)?)?;
    let mut body = summary(&local, &dead);
    if let Some(members) = body.as_object_mut() {
        members.insert("letter".into(), dead.letter.to_json());
    }
    Ok(HttpResponse::Ok().json(body))
}

/// Sends it again, under its own id.
pub async fn redrive(
    request: HttpRequest,
    node: web::Data<Node>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    allow(&by)?;
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
