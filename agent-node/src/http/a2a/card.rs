//! An agent's card, served with what caches need (A2A §8.6).

use super::{call::text, face::Face};
use crate::http::node_state::{HostedAgent, Node};
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use blackboard::refusal::Refusal;
use protocol::card::Card;
use reqwest::Url;

/// For how long a card may be taken from a cache, seconds.
const MAX_AGE: u32 = 300;

/// The card for who calls by a name of his own machine what others are told another name of: a container's port that is
/// published there. What stands in the card must be what he can call.
fn seen_from_here(local: &HostedAgent, host: &str) -> Option<Face> {
    let is_here = |name: &str| ["localhost", "127.0.0.1", "[::1]"].contains(&name);
    let (card, face) = (local.card.get(), local.face.get());
    let told = Url::parse(&card.endpoint).ok()?;
    let called = Url::parse(&format!("{}://{host}", told.scheme())).ok()?;
    if is_here(told.host_str()?) || !is_here(called.host_str()?) {
        return None;
    }
    let endpoint = format!("{}://{host}", told.scheme());
    let card = Card { endpoint, ..card.as_ref().clone() };
    Some(Face::new(&card, face.terms.clone(), face.schemes, None, &local.key))
}

/// The card of the port's agent.
pub(super) async fn public(request: HttpRequest, node: web::Data<Node>) -> Result<HttpResponse, Refusal> {
    let local = node.host(&request)?;
    let here = text(request.headers(), "host").and_then(|host| seen_from_here(local, host));
    let shown = local.face.get();
    let face = here.as_ref().unwrap_or(&shown);
    let known = text(request.headers(), "if-none-match").unwrap_or_default();
    let is_known =
        known.split(',').any(|tag| tag.trim() == "*" || tag.trim().trim_start_matches("W/") == face.etag);
    let mut answer = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    answer
        .insert_header((header::CACHE_CONTROL, format!("public, max-age={MAX_AGE}")))
        .insert_header((header::ETAG, face.etag.as_str()))
        .insert_header(header::LastModified(face.made));
    if is_known {
        return Ok(answer.finish());
    }
    Ok(answer.content_type("application/json").body(face.card.clone()))
}
