//! The digest of the person's token, for the processes of the mesh.

use crate::{http::node_state::NodeState, node::token_sync::PersonTokenDigest};
use actix_web::{HttpResponse, web};
use blackboard::refusal::Refusal;
use protocol::{
    json,
    principal::{MeshService, Principal},
    problem::{Problem, Reason},
};

/// Returns the digest to an agent or a service.
pub async fn get(node: web::Data<NodeState>, by: web::ReqData<Principal>) -> Result<HttpResponse, Refusal> {
    if !by.is_of_mesh() {
        return Err(Problem::new(
            Reason::Forbidden,
            format!("for the processes of the mesh, not for {}", *by),
        )
        .into());
    }
    let unknown = || Problem::new(Reason::Overloaded, "the token is not known yet");
    let sha256 = node.tokens.person().ok_or_else(unknown)?;
    Ok(HttpResponse::Ok().json(PersonTokenDigest { sha256 }))
}

/// Accepts the token with the digest that the registry tells.
pub async fn put(
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    if *by != Principal::Service(MeshService::Registry) {
        return Err(
            Problem::new(Reason::Forbidden, format!("only the registry tells it, not {}", *by)).into()
        );
    }
    let told = json::parse(&body, json::MAX_DEPTH)?;
    let told: PersonTokenDigest = serde_json::from_value(told)
        .map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))?;
    node.tokens.set_person(told.sha256);
    Ok(HttpResponse::NoContent().finish())
}
