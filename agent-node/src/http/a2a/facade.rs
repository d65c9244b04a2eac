//! An agent's A2A cards and policy, built when its card changes, not per request.

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

/// What an agent presents to A2A clients.
#[derive(Debug)]
pub struct AgentFacade {
    /// What it offers to clients.
    pub policy: AgentPolicy,
    /// The authentication schemes of callers.
    pub schemes: CallerSchemes,
    /// Where it takes A2A over gRPC, if it does.
    pub grpc: Option<AgentInterface>,
    /// The extended card, for authenticated callers.
    pub extended: Value,
    pub(super) card: Bytes,
    pub(super) etag: String,
    pub(super) created: header::HttpDate,
}

impl AgentFacade {
    /// The facade of the agent that `card` registers. Both of its A2A cards are signed with `key`.
    pub fn new(
        card: &Card,
        policy: AgentPolicy,
        schemes: CallerSchemes,
        grpc: Option<AgentInterface>,
        key: &SigningKey,
    ) -> Self {
        let jwks = format!("{}{}", policy.base_url(card), routes::JWKS);
        let signed_card = |is_extended| {
            let mut card = json!(policy.card(card, schemes, grpc.as_ref(), is_extended));
            let signature = card_signature::sign(&card, key, Some(&jwks));
            if let Some(members) = card.as_object_mut() {
                members.insert("signatures".into(), json!([signature]));
            }
            card
        };
        let public = signed_card(false).to_string();
        Self {
            extended: signed_card(true),
            etag: format!("\"{}\"", Digest::of(public.as_bytes())),
            card: public.into(),
            created: SystemTime::now().into(),
            policy,
            schemes,
            grpc,
        }
    }
}
