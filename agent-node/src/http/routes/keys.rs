//! The keys of agents: those that this node's agents sign their cards with (RFC 7517), those that the registry has pinned, and
//! the replacement of keys by a person (DESIGN §8).

use super::person_token;
use crate::{
    http::{key_rotation, node_state::NodeState},
    key_records::{self, ToldCursor},
};
use actix_web::{HttpRequest, HttpResponse, web};
use protocol::{
    ids::AgentId,
    json::{self as strict_json, MAX_DEPTH},
    principal::{MeshService, Principal},
    problem::{Problem, Reason},
};
use registry::{
    pinned_keys::{KeyPage, PinnedKey},
    registrar::SupervisedRegistry,
};
use serde_json::json;
use std::sync::PoisonError;
use transport::refusal::Refusal;

/// Returns the keys of this node's agents as a JSON Web Key Set.
pub async fn jwks(node: web::Data<NodeState>) -> HttpResponse {
    let keys: Vec<_> = node.agents.values().map(|local| local.key.get().public().to_jwk()).collect();
    HttpResponse::Ok().insert_header(("cache-control", "max-age=300")).json(json!({ "keys": keys }))
}

/// Returns the key of the registry and those that it has pinned.
pub async fn pinned(
    node: web::Data<NodeState>,
    registry: web::Data<SupervisedRegistry>,
) -> Result<HttpResponse, Refusal> {
    let own = node.keys.own(MeshService::Registry.name());
    let history = node.keys.own_history(MeshService::Registry.name());
    let keys: Vec<PinnedKey> = registry.pinned_keys().await?;
    Ok(HttpResponse::Ok().json(json!({ "registry": own.as_deref(), "history": history, "keys": keys })))
}

/// Has the registry give up the key of an id.
pub async fn reset(
    request: HttpRequest,
    registry: web::Data<SupervisedRegistry>,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    check_person(&request, &by)?;
    let id: AgentId = super::id(&id)?;
    registry.reset_key(id.clone()).await?;
    Ok(HttpResponse::Ok().json(json!({ "id": id })))
}

/// Has the registry forget an agent that is not there.
pub async fn forget(
    request: HttpRequest,
    registry: web::Data<SupervisedRegistry>,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    check_person(&request, &by)?;
    let id: AgentId = super::id(&id)?;
    registry.forget(id.clone()).await?;
    Ok(HttpResponse::Ok().json(json!({ "id": id })))
}

/// Takes, for the board, what the registry says about keys. Answers how far the board has been told.
pub async fn put_records(
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    if *by != Principal::Service(MeshService::Registry) {
        return Err(
            Problem::new(Reason::Forbidden, format!("only the registry tells them, not {}", *by)).into()
        );
    }
    let page: KeyPage = serde_json::from_value(strict_json::parse(&body, MAX_DEPTH)?)
        .map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))?;
    key_records::take(&node.keys, &page)?;
    let mut told = node.told_cursor.lock().unwrap_or_else(PoisonError::into_inner);
    // After a restart of the board the pages before this one are missing.
    if page.after.is_none() || page.after == *told {
        *told = Some(page.cursor);
    }
    Ok(HttpResponse::Ok().json(ToldCursor { cursor: told.clone() }))
}

/// Replaces the key of an agent or a service of this process.
pub async fn rotate(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    id: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    check_person(&request, &by)?;
    let id: AgentId = super::id(&id)?;
    let identity = match Principal::of_signer(id.clone()) {
        Principal::Service(service) => key_rotation::rotate_service(&node, service).await?,
        Principal::Agent(_) | Principal::User(_) | Principal::Brain(_) => {
            key_rotation::rotate(&node, node.agent(&id)?).await?
        }
    };
    Ok(HttpResponse::Ok().json(identity.as_ref()))
}

/// Fails if the request does not carry the person's token: without it, every command of this machine could make it.
/// A configured caller is a person, too, but not the one whose mesh it is.
pub(super) fn check_person(request: &HttpRequest, by: &Principal) -> Result<(), Problem> {
    match *by == Principal::local_user() && person_token::is_persons(request, by) {
        true => Ok(()),
        false => {
            let message = "it needs the person's token: --token FILE (MESH_TOKEN_FILE) names it, `mesh token` prints it";
            Err(Problem::new(Reason::Forbidden, message))
        }
    }
}
