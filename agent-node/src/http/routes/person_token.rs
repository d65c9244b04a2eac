//! The digest of the person's token, for the processes of the mesh.

use crate::{http::node_state::NodeState, node::token_sync::PersonTokenDigest};
use actix_web::{HttpRequest, HttpResponse, http::header::AUTHORIZATION, web};
use blackboard::refusal::Refusal;
use protocol::{
    ids::Digest,
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

/// Whether a request is proven to be a person's: by the person's token, or by the credential of a configured caller.
pub(in crate::http) fn is_persons(request: &HttpRequest, node: &NodeState, by: &Principal) -> bool {
    if *by != Principal::local_user() {
        return matches!(by, Principal::User(_));
    }
    let value = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.and_then(|value| value.split_once(' ')).map(|(_, token)| token.trim());
    token.is_some_and(|token| node.tokens.person() == Some(Digest::of(token.as_bytes())))
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
