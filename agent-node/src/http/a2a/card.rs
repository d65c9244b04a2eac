//! An agent's card, served with cache headers (A2A §8.6).

use super::{call::text, facade::AgentFacade};
use crate::http::node_state::{HostedAgent, NodeState};
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use blackboard::refusal::Refusal;
use protocol::card::Card;
use reqwest::Url;

/// How long a cache may keep a card, seconds.
const MAX_AGE: u32 = 300;

/// The card for a client that calls by a loopback name while the agent advertises another: a container's port published on
/// the client's machine. Its URLs must be reachable for that client. `None` for other clients.
fn facade_for_loopback(local: &HostedAgent, host: &str) -> Option<AgentFacade> {
    let is_loopback = |name: &str| ["localhost", "127.0.0.1", "[::1]"].contains(&name);
    let (card, facade) = (local.card.get(), local.facade.get());
    let advertised = Url::parse(&card.endpoint).ok()?;
    let called = Url::parse(&format!("{}://{host}", advertised.scheme())).ok()?;
    if is_loopback(advertised.host_str()?) || !is_loopback(called.host_str()?) {
        return None;
    }
    let endpoint = format!("{}://{host}", advertised.scheme());
    let card = Card { endpoint, ..card.as_ref().clone() };
    Some(AgentFacade::new(&card, facade.policy.clone(), facade.schemes, None, &local.key.get()))
}

/// The card of the port's agent.
pub(super) async fn public(
    request: HttpRequest,
    node: web::Data<NodeState>,
) -> Result<HttpResponse, Refusal> {
    let local = node.default_agent(&request)?;
    let loopback = text(request.headers(), "host").and_then(|host| facade_for_loopback(local, host));
    let usual = local.facade.get();
    let facade = loopback.as_ref().unwrap_or(&usual);
    let known = text(request.headers(), "if-none-match").unwrap_or_default();
    let is_known =
        known.split(',').any(|tag| tag.trim() == "*" || tag.trim().trim_start_matches("W/") == facade.etag);
    let mut answer = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer
        .insert_header((header::CACHE_CONTROL, format!("public, max-age={MAX_AGE}")))
        .insert_header((header::ETAG, facade.etag.as_str()))
        .insert_header(header::LastModified(facade.created));
    if is_known {
        return Ok(answer.finish());
    }
    Ok(answer.content_type("application/json").body(facade.card.clone()))
}
