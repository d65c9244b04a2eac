//! Messages whose payload is too large for one request: the sender uploads the payload as an artifact, and the message names
//! its digest. The payload is inserted before the message is parsed.

use crate::{
    artifacts,
    http::node_state::{HostedAgent, NodeState},
};
use actix_web::HttpRequest;
use protocol::{
    envelope::{PAYLOAD_REF, payload_ref},
    ids::{Address, Digest},
    principal::{Principal, SenderProof},
    problem::{Problem, Reason},
};
use serde_json::Value;

/// A payload that was uploaded before its message.
pub(super) struct LargePayload {
    local: HostedAgent,
    digest: Digest,
    by: Principal,
}

/// Inserts the payload if the message names one. Fails with `artifact_not_found` if the sender must upload it (again).
pub(super) async fn inline(
    request: &HttpRequest,
    node: &NodeState,
    json: &mut Value,
    by: &Principal,
) -> Result<Option<LargePayload>, Problem> {
    let Some(digest) = payload_ref(json)? else { return Ok(None) };
    if by.agent().is_none() {
        let message =
            format!("{PAYLOAD_REF} is for agents; put content and refer to it in payload.artifacts");
        return Err(Problem::new(Reason::Forbidden, message));
    }
    let to = json.get("toAgentId").and_then(|to| serde_json::from_value(to.clone()).ok());
    let local = match &to {
        Some(Address::Agent(id)) => node.agent(id)?,
        Some(Address::Capability(_)) | None => node.default_agent(request)?,
    };
    let (store, proof) = (local.store.as_ref(), SenderProof::Credential);
    let (content, _) = artifacts::bytes(store, &local.id, &digest, by, proof).await?;
    let depth = node.limits.max_depth + super::FORWARDED_DEPTH;
    let payload = protocol::json::parse(&content, depth)?;
    if let Some(members) = json.as_object_mut() {
        members.remove(PAYLOAD_REF);
        members.insert("payload".to_owned(), payload);
    }
    Ok(Some(LargePayload { local: local.clone(), digest, by: by.clone() }))
}

impl LargePayload {
    /// Releases the artifact once the message is recorded. If the release fails, retention deletes it later.
    pub(super) fn release(self) {
        let Self { local, digest, by } = self;
        actix_web::rt::spawn(async move {
            if let Err(error) = artifacts::release(local.store.as_ref(), &local.id, &digest, &by).await {
                tracing::debug!(agent = %local.id, %digest, %error, "an uploaded payload can't be released; retention deletes it");
            }
        });
    }
}
