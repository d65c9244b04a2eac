//! An agent's card: made once, served with what caches need (A2A §8.6).

use super::call::text;
use crate::http::routes::Node;
use actix_web::{HttpRequest, HttpResponse, http::header, web};
use blackboard::refusal::Refusal;
use bytes::Bytes;
use protocol::{
    a2a::{
        card_signature,
        card_signature::SigningKey,
        terms::{Schemes, Terms},
    },
    card::Card,
    ids::Digest,
    routes,
};
use serde_json::{Value, json};
use std::time::SystemTime;

/// For how long a card may be taken from a cache, seconds.
const MAX_AGE: u32 = 300;

/// What an agent shows to A2A clients.
#[derive(Debug)]
pub struct Face {
    /// What it offers.
    pub terms: Terms,
    /// How callers prove who they are.
    pub schemes: Schemes,
    /// The card that is not for everyone.
    pub extended: Value,
    card: Bytes,
    etag: String,
    made: header::HttpDate,
}

impl Face {
    /// The face of the agent that `card` registers, each of its cards signed with `key`.
    pub fn new(card: &Card, terms: Terms, schemes: Schemes, grpc: Option<&str>, key: &SigningKey) -> Self {
        let jwks = format!("{}{}", card.endpoint, routes::JWKS);
        let of = |is_extended| {
            let mut card = json!(terms.card(card, schemes, grpc, is_extended));
            let signature = card_signature::sign(&card, key, Some(&jwks));
            if let Some(members) = card.as_object_mut() {
                members.insert("signatures".into(), json!([signature]));
            }
            card
        };
        let public = of(false).to_string();
        Self {
            extended: of(true),
            etag: format!("\"{}\"", Digest::of(public.as_bytes())),
            card: public.into(),
            made: SystemTime::now().into(),
            terms,
            schemes,
        }
    }
}

/// The card of the port's agent.
pub(super) async fn public(request: HttpRequest, node: web::Data<Node>) -> Result<HttpResponse, Refusal> {
    let face = &node.host(&request)?.face;
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
