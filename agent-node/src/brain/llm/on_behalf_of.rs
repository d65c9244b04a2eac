//! Whom a call of a tool is for, as a signed token: `forward: user`.
//!
//! The token is a JWT (RFC 7519, EdDSA as in RFC 8037) under the key with which the agent signs its card, so that a tool server checks it
//! by the keys at `iss` + `/.well-known/jwks.json`. It lies in `_meta` of the call, as MCP has for what a client adds.

use crate::{
    brain::{TurnRequest, exec::access::BrainAccess},
    clock::wall_time,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// The member of `_meta` with the token.
pub(super) const ON_BEHALF_OF: &str = "agent-mesh/on-behalf-of";
/// How long a token is good, seconds.
const LIFE: i64 = 60;

/// A token for one call in the turn of `request`, for the server `audience`: its URL, or its name if it is a command. `None` if the
/// turn is about no task.
pub(super) fn token(access: &BrainAccess, audience: &str, request: &TurnRequest) -> Option<String> {
    let root = request.root.as_ref()?;
    let (key, issuer) = access.signer(&request.agent)?;
    let now = wall_time().0 / 1000;
    let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": key.public().kid() });
    let claims = json!({
        "iss": issuer,
        "sub": root.principal.to_string(),
        "proven": root.proven_user().is_some(),
        "agent": request.agent,
        "aud": audience,
        "task": request.prompt.about.task_id(),
        "iat": now,
        "exp": now + LIFE,
        "jti": uuid::Uuid::new_v4().simple().to_string(),
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()));
    Some(format!("{signed}.{signature}"))
}
