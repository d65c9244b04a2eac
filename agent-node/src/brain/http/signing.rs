//! Signatures of requests to a service, as Standard Webhooks defines them: HMAC-SHA256 over id, time and body. A bearer token
//! belongs to one task.

use crate::outbox::{a2a::credentials::SecretString, outbound_client::OutboundRequest};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use ring::hmac::{HMAC_SHA256, Key};
use std::time::{SystemTime, UNIX_EPOCH};

/// The beginning of a secret that is the base64 of the key (Standard Webhooks).
const ENCODED: &str = "whsec_";

/// Adds the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`.
pub(super) fn sign(
    request: OutboundRequest,
    secret: &SecretString,
    id: &str,
    now: SystemTime,
    body: &[u8],
) -> OutboundRequest {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
    let signed = [id.as_bytes(), b".", seconds.as_bytes(), b".", body].concat();
    let signature = STANDARD.encode(ring::hmac::sign(&key(secret), &signed));
    request
        .header("webhook-id", id)
        .header("webhook-timestamp", &seconds)
        .header("webhook-signature", &format!("v1,{signature}"))
}

/// The value of `Authorization` for the requests of one task; `turn` is the key of one of its turns. A service that knows the
/// token alone can't make that of another task.
pub(super) fn authorization(secret: &SecretString, turn: &str) -> String {
    let task = super::conversation(turn);
    let token = ring::hmac::sign(&key(secret), format!("task {task}").as_bytes());
    format!("Bearer {}", URL_SAFE_NO_PAD.encode(token))
}

fn key(secret: &SecretString) -> Key {
    let text = secret.expose();
    let decoded = text.strip_prefix(ENCODED).and_then(|encoded| STANDARD.decode(encoded).ok());
    Key::new(HMAC_SHA256, decoded.as_deref().unwrap_or(text.as_bytes()))
}
