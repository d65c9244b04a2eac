//! `/a2a/schedules`: the schedules of a user at the agent of the port.

use super::messages::proof_of;
use crate::{
    http::node_state::{HostedAgent, NodeState},
    schedules::ScheduleView,
};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use engine::schedule::Schedule;
use protocol::{
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};
use serde::Deserialize;
use serde_json::{Value, json};
use transport::refusal::Refusal;

/// Lists the schedules of the caller at the port's agent.
pub async fn list(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?;
    let schedules = local.schedules.list(&by).await?;
    Ok(HttpResponse::Ok().json(json!({ "agentId": local.id, "schedules": schedules })))
}

/// Returns a schedule: when it is due, what ran last, and what was left out.
pub async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    name: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let schedules = &node.default_agent(&request)?.schedules;
    Ok(HttpResponse::Ok().json(schedules.get(&by, &name).await?))
}

/// Adds a schedule: its name, and the members of a schedule of a file. Its tasks have the rights of the caller.
pub async fn add(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::ReqData<Bytes>,
) -> Result<HttpResponse, Refusal> {
    let (local, proof) = (node.default_agent(&request)?, user(&request, &by)?);
    let mut json = protocol::json::parse(&body, node.limits.max_depth)?;
    let invalid = |what: String, field: &'static str| {
        Refusal(Problem::new(Reason::InvalidField, what).with("field", field))
    };
    let name = json.as_object_mut().and_then(|members| members.remove("name"));
    let Some(Value::String(name)) = name else {
        return Err(invalid("name is missing: the schedule needs one".to_owned(), "name"));
    };
    let schedule = Schedule::deserialize(json).map_err(|error| invalid(error.to_string(), "schedule"))?;
    Ok(HttpResponse::Created().json(local.schedules.add((&by, proof), &name, schedule).await?))
}

/// Pauses a schedule.
pub async fn pause(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    name: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    Ok(HttpResponse::Ok().json(set_paused(&request, &node, (&by, &name), true).await?))
}

/// Lets a paused schedule go on.
pub async fn resume(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    name: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    Ok(HttpResponse::Ok().json(set_paused(&request, &node, (&by, &name), false).await?))
}

/// Begins a task of a schedule now.
pub async fn run(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    name: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let (local, proof) = (node.default_agent(&request)?, user(&request, &by)?);
    let task = local.schedules.run_now((&by, proof), &name).await?;
    Ok(HttpResponse::Accepted().json(json!({ "name": *name, "taskId": task })))
}

/// Removes a schedule. Its tasks stay.
pub async fn remove(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    name: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let (local, proof) = (node.default_agent(&request)?, user(&request, &by)?);
    local.schedules.remove((&by, proof), &name).await?;
    Ok(HttpResponse::NoContent().finish())
}

async fn set_paused(
    request: &HttpRequest,
    node: &NodeState,
    (by, name): (&Principal, &str),
    pauses: bool,
) -> Result<ScheduleView, Problem> {
    let HostedAgent { schedules, .. } = node.default_agent(request)?;
    schedules.pause((by, user(request, by)?), name, pauses).await
}

/// What proves the user. Fails for an agent or a service: a schedule has the rights of a user.
fn user(request: &HttpRequest, by: &Principal) -> Result<SenderProof, Problem> {
    match by {
        Principal::User(_) => Ok(proof_of(request)),
        Principal::Agent(_) | Principal::Service(_) | Principal::Brain(_) => {
            Err(Problem::new(Reason::Forbidden, format!("{by} is no user; schedules are made by users")))
        }
    }
}
