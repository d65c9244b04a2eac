//! `/a2a/contexts`: the A2A contexts of a user, which are the chats with an agent.

use crate::http::node_state::{HostedAgent, NodeState};
use actix_web::{HttpRequest, HttpResponse, web};
use engine::context_records::{self, A2aContextId};
use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
};
use serde::Deserialize;
use serde_json::json;
use store::Lane;
use transport::refusal::Refusal;

/// The query of a list of contexts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextListQuery {
    #[serde(default = "usual_limit")]
    limit: usize,
}

fn usual_limit() -> usize {
    50
}

/// The query about one context.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextQuery {
    tenant: Option<String>,
}

const MAX_CONTEXTS: usize = 1_000;

/// Lists the contexts that the caller has with the port's agent, the one that was used last first: at most `limit` (50).
pub async fn list(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    query: web::Query<ContextListQuery>,
) -> Result<HttpResponse, Refusal> {
    if !(1..=MAX_CONTEXTS).contains(&query.limit) {
        let message = format!("limit must be 1 to {MAX_CONTEXTS}");
        return Err(Problem::new(Reason::InvalidField, message).into());
    }
    let local = node.default_agent(&request)?.clone();
    let id = local.id.clone();
    let listed = at_store(local, move |HostedAgent { id, store, .. }| {
        context_records::list(store.as_ref(), id, &by, query.limit)
    });
    Ok(HttpResponse::Ok().json(json!({ "agentId": id, "contexts": listed.await? })))
}

/// Returns a context with its turns, as the next turn is given them.
pub async fn get(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    query: web::Query<ContextQuery>,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?.clone();
    let of = A2aContextId { context_id: path.into_inner(), tenant: query.into_inner().tenant };
    let unknown = unknown(&local, &of);
    let found = at_store(local, move |HostedAgent { id, store, .. }| {
        context_records::find(store.as_ref(), id, &by, of)
    });
    Ok(HttpResponse::Ok().json(found.await?.ok_or(unknown)?))
}

/// Forgets a context: the next message in it begins anew. Its tasks are kept as long as others.
pub async fn forget(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    query: web::Query<ContextQuery>,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?.clone();
    let of = A2aContextId { context_id: path.into_inner(), tenant: query.into_inner().tenant };
    let (unknown, mut is_known) = (unknown(&local, &of), false);
    let store = local.store.clone();
    loop {
        let (local, of, by) = (local.clone(), of.clone(), by.clone());
        let batch = at_store(local, move |HostedAgent { id, store, .. }| {
            context_records::deletion(store.as_ref(), id, &by, &of)
        });
        let Some(batch) = batch.await? else { break };
        is_known = true;
        store.commit(Lane::Progress, batch).await.map_err(Problem::from)?;
    }
    if is_known { Ok(HttpResponse::NoContent().finish()) } else { Err(unknown.into()) }
}

/// Gives a context that was handed over back to the port's agent: the next message in it is answered by that one.
pub async fn take_back(
    request: HttpRequest,
    node: web::Data<NodeState>,
    by: web::ReqData<Principal>,
    path: web::Path<String>,
    query: web::Query<ContextQuery>,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?.clone();
    let of = A2aContextId { context_id: path.into_inner(), tenant: query.into_inner().tenant };
    let not_handed = {
        let message = format!("{} has handed over no context {:?} of yours", local.id, of.context_id);
        Problem::new(Reason::ContextNotFound, message)
    };
    let store = local.store.clone();
    let batch = at_store(local, move |HostedAgent { id, store, .. }| {
        context_records::taking_back(store.as_ref(), id, &by, &of)
    });
    store.commit(Lane::Progress, batch.await?.ok_or(not_handed)?).await.map_err(Problem::from)?;
    Ok(HttpResponse::NoContent().finish())
}

fn unknown(local: &HostedAgent, of: &A2aContextId) -> Problem {
    Problem::new(Reason::ContextNotFound, format!("{} has no context {:?} of yours", local.id, of.context_id))
}

/// Reads at the store of an agent, beside the requests of others.
async fn at_store<T: Send + 'static>(
    local: HostedAgent,
    read: impl FnOnce(&HostedAgent) -> Result<T, store::Error> + Send + 'static,
) -> Result<T, Problem> {
    let read = web::block(move || read(&local)).await;
    read.map_err(|error| Problem::new(Reason::Overloaded, error.to_string()))?.map_err(Problem::from)
}
