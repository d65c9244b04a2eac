//! The person's token: what it is checked by, for the processes of the mesh; whether a request is the person's.

use crate::http::{edge::bearer_token, node_state::NodeState};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, http::header::AUTHORIZATION, web};
use protocol::{
    identity::{PersonKey, PersonPublicKey},
    json,
    principal::{MeshService, Principal, SenderProof},
    problem::{Problem, Reason},
};
use serde::{Deserialize, Serialize};
use transport::refusal::Refusal;

/// What the person's token is checked by, as one process tells it to another. It proves nothing itself.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonVerifier {
    /// The public key that follows from the token.
    pub public_key: PersonPublicKey,
}

/// Returns the person's public key to an agent or a service.
pub async fn get(node: web::Data<NodeState>, by: web::ReqData<Principal>) -> Result<HttpResponse, Refusal> {
    if !by.is_of_mesh() {
        return Err(Problem::new(
            Reason::Forbidden,
            format!("for the processes of the mesh, not for {}", *by),
        )
        .into());
    }
    let unknown = || Problem::new(Reason::Overloaded, "the token is not known yet");
    let public_key = node.tokens.person().ok_or_else(unknown)?;
    Ok(HttpResponse::Ok().json(PersonVerifier { public_key }))
}

/// Whether a request is proven to be a person's: by the person's token or a ticket made with it, or by the credential of a
/// configured caller.
pub(in crate::http) fn is_persons(request: &HttpRequest, by: &Principal) -> bool {
    matches!(by, Principal::User(_)) && request.extensions().get() == Some(&SenderProof::Credential)
}

/// The key of the person whose token a request carries. By a ticket the person's command signs approvals itself.
pub(in crate::http) fn key(request: &HttpRequest, node: &NodeState) -> Option<PersonKey> {
    node.tokens.person_key(token(request)?)
}

fn token(request: &HttpRequest) -> Option<&str> {
    bearer_token(request.headers().get(AUTHORIZATION)?.to_str().ok()?)
}

/// Accepts the person's key that the registry tells.
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
    let told: PersonVerifier = serde_json::from_value(told)
        .map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))?;
    node.tokens.set_person(told.public_key);
    Ok(HttpResponse::NoContent().finish())
}
