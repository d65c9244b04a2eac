//! What an agent shows to A2A clients: made when its card changes, not per request.

use actix_web::http::header;
use bytes::Bytes;
use protocol::{
    a2a::{
        agent_policy::{AgentPolicy, CallerSchemes},
        card::AgentInterface,
        card_signature,
        card_signature::SigningKey,
    },
    card::Card,
    ids::Digest,
    routes,
};
use serde_json::{Value, json};
use std::time::SystemTime;

/// What an agent shows to A2A clients.
#[derive(Debug)]
pub struct Face {
    /// What it offers.
    pub terms: AgentPolicy,
    /// How callers prove who they are.
    pub schemes: CallerSchemes,
    /// The card that is not for everyone.
    pub extended: Value,
    pub(super) card: Bytes,
    pub(super) etag: String,
    pub(super) made: header::HttpDate,
}

impl Face {
    /// The face of the agent that `card` registers, each of its cards signed with `key`.
    pub fn new(
        card: &Card,
        terms: AgentPolicy,
        schemes: CallerSchemes,
        grpc: Option<AgentInterface>,
        key: &SigningKey,
    ) -> Self {
        let jwks = format!("{}{}", card.endpoint, routes::JWKS);
        let of = |is_extended| {
            let mut card = json!(terms.card(card, schemes, grpc.as_ref(), is_extended));
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
