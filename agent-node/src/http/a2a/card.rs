//! An agent's card, served with cache headers (A2A §8.6). Who does not name version 1.0 gets members of 0.3 beside those of 1.0.

use super::{
    call::{named_version, text},
    facade::AgentFacade,
};
use crate::http::node_state::{HostedAgent, NodeState};
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use protocol::{
    a2a::{
        v03,
        version::{ProtocolVersion, VERSION_PARAMETER},
    },
    card::Card,
};
use reqwest::Url;
use serde_json::Value;
use transport::refusal::Refusal;

/// How long a cache may keep a card, seconds.
const MAX_AGE: u32 = 300;

/// The card for a client that calls by a loopback name while the agent advertises another: a container's port published on
/// the client's machine. Its URLs must be reachable for that client. `None` for other clients, and if there is a public URL: a
/// proxy may have replaced the name by which the client called.
fn facade_for_loopback(local: &HostedAgent, host: &str) -> Option<AgentFacade> {
    let is_loopback = |name: &str| ["localhost", "127.0.0.1", "[::1]"].contains(&name);
    let (card, facade) = (local.card.get(), local.facade.get());
    if facade.policy.public_url.is_some() {
        return None;
    }
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
    let is_v1 = ProtocolVersion::requested(named_version(&request).as_deref()) == Ok(ProtocolVersion::V1);
    let etag =
        if is_v1 { facade.etag.clone() } else { format!("{}-0.3\"", facade.etag.trim_end_matches('"')) };
    let known = text(request.headers(), "if-none-match").unwrap_or_default();
    let is_known =
        known.split(',').any(|tag| tag.trim() == "*" || tag.trim().trim_start_matches("W/") == etag);
    let mut answer = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer
        .insert_header((header::CACHE_CONTROL, format!("public, max-age={MAX_AGE}")))
        .insert_header((header::VARY, VERSION_PARAMETER))
        .insert_header((header::ETAG, etag))
        .insert_header(header::LastModified(facade.created));
    if is_known {
        return Ok(answer.finish());
    }
    answer.content_type("application/json");
    Ok(match serde_json::from_slice::<Value>(&facade.card) {
        Ok(card) if !is_v1 => answer.body(v03::to_hybrid_card(card).to_string()),
        _ => answer.body(facade.card.clone()),
    })
}
