//! The public keys that this node's agents sign their cards with (RFC 7517).

use crate::http::node_state::NodeState;
use actix_web::{HttpResponse, web};
use serde_json::json;

/// Returns all of them as a JSON Web Key Set.
pub async fn jwks(node: web::Data<NodeState>) -> HttpResponse {
    let keys: Vec<_> = node.agents.values().map(|local| local.key.public().to_jwk()).collect();
    HttpResponse::Ok().insert_header(("cache-control", "max-age=300")).json(json!({ "keys": keys }))
}
