//! `GET /a2a/tools`: what the brain of the agent of the port can call, and the state of its tool servers.

use super::keys::check_person;
use crate::http::node_state::{HostedAgent, NodeState};
use actix_web::{HttpRequest, HttpResponse, web};
use protocol::principal::Principal;
use serde_json::{Value, json};
use transport::refusal::Refusal;

/// The kind of the brain of `local` and what it can call, with the secrets of the process masked. No tool server is started for it.
pub(in crate::http) fn tools_of(node: &NodeState, local: &HostedAgent) -> Value {
    let brain = local.status.brain();
    let mut tools = json!(brain.as_ref().map(|brain| brain.tools()).unwrap_or_default());
    tools["agentId"] = json!(local.id);
    tools["brain"] = json!(brain.map(|brain| brain.name()));
    node.telemetry.capture().masked(&tools)
}

/// Shows the tools to the person of the mesh: commands and the times of calls are not for others.
pub async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
) -> Result<HttpResponse, Refusal> {
    check_person(&request, &by)?;
    Ok(HttpResponse::Ok().json(tools_of(&node, node.default_agent(&request)?)))
}
