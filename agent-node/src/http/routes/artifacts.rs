//! `/a2a/artifacts`: upload and download of content by digest.

use super::messages::proof_of;
use crate::{artifacts, http::node_state::NodeState};
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use protocol::{
    ids::Digest,
    principal::Principal,
    problem::{Problem, Reason},
    routes::MESH_FILE,
};
use serde_json::json;
use transport::refusal::Refusal;

/// Whose content it is: a brain's is its agent's.
fn owner(by: &Principal) -> Principal {
    match by {
        Principal::Brain(agent) => Principal::Agent(agent.clone()),
        Principal::Agent(_) | Principal::User(_) | Principal::Service(_) => by.clone(),
    }
}

/// Stores the body at the port's agent; answers with its digest.
pub async fn put(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    body: web::Bytes,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?;
    if body.is_empty() {
        return Err(Problem::new(Reason::InvalidField, "an artifact has content").into());
    }
    let media_type =
        request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let bytes = body.len();
    let now = node.clock.wall();
    let (by, max) = (owner(&by), node.limits.max_artifact_bytes_per_principal);
    node.artifact_quota.add(local.store.as_ref(), &local.id, &by, bytes, max)?;
    let store = local.store.as_ref();
    let digest = match request.headers().contains_key(MESH_FILE) {
        true => artifacts::put_as_file(store, &local.id, &by, now, media_type, body).await,
        false => artifacts::put(store, &local.id, &by, now, media_type, body).await,
    };
    let digest = digest.map_err(Problem::from)?;
    Ok(HttpResponse::Created().json(json!({ "sha256": digest, "bytes": bytes })))
}

/// Returns the content with this digest.
pub async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
) -> Result<HttpResponse, Refusal> {
    let digest =
        Digest::parse(&path).map_err(|error| Problem::new(Reason::InvalidField, error.to_string()))?;
    for local in node.agents_in_lookup_order(&request) {
        let (store, proof) = (local.store.as_ref(), proof_of(&request));
        let read = async |by: &Principal| artifacts::bytes(store, &local.id, &digest, by, proof).await;
        // Files of a prompt are for the brain alone.
        let found = match read(&owner(&by)).await {
            Err(problem) if problem.reason == Reason::ArtifactNotFound => read(&by).await,
            found => found,
        };
        match found {
            Ok((content, media_type)) => {
                let named = media_type.filter(|named| header::HeaderValue::from_str(named).is_ok());
                let media_type = named.unwrap_or_else(|| "application/octet-stream".to_owned());
                return Ok(HttpResponse::Ok()
                    .content_type(media_type)
                    // It may be a page with scripts; a browser must not run it as a part of the API's origin.
                    .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
                    .insert_header((header::CONTENT_DISPOSITION, "attachment"))
                    .insert_header((header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"))
                    .body(content));
            }
            Err(problem) if problem.reason == Reason::ArtifactNotFound => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Problem::new(Reason::ArtifactNotFound, format!("no artifact {digest} of yours")).into())
}
