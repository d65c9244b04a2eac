//! A message too large to be posted: its sender has put the payload here as an artifact, and the message names it by
//! digest. It is put in its place before anything looks at the message.

use crate::{
    artifacts,
    http::node_state::{HostedAgent, Node},
};
use actix_web::HttpRequest;
use protocol::{
    envelope::{PAYLOAD_REF, payload_ref},
    ids::{Address, Digest},
    principal::Principal,
    problem::{Problem, Reason},
};
use serde_json::Value;

/// A payload that came ahead of its message.
pub(super) struct Carried {
    local: HostedAgent,
    digest: Digest,
    by: Principal,
}

/// Puts the payload in its place, if the message names one. `artifact_not_found` asks the sender to put it (again).
pub(super) fn unpack(
    request: &HttpRequest,
    node: &Node,
    json: &mut Value,
    by: &Principal,
) -> Result<Option<Carried>, Problem> {
    let Some(digest) = payload_ref(json)? else { return Ok(None) };
    if by.agent().is_none() {
        let message =
            format!("{PAYLOAD_REF} is for agents; put content and refer to it in payload.artifacts");
        return Err(Problem::new(Reason::Forbidden, message));
    }
    let to = json.get("toAgentId").and_then(|to| serde_json::from_value(to.clone()).ok());
    let local = match &to {
        Some(Address::Agent(id)) => node.agent(id)?,
        Some(Address::Capability(_)) | None => node.host(request)?,
    };
    let stored = artifacts::read(local.store.as_ref(), &local.id, &digest, by)?;
    let depth = node.limits.max_depth + super::PASSED_ON_DEPTH;
    let payload = protocol::json::parse(&stored.content, depth)?;
    if let Some(members) = json.as_object_mut() {
        members.remove(PAYLOAD_REF);
        members.insert("payload".to_owned(), payload);
    }
    Ok(Some(Carried { local: local.clone(), digest, by: by.clone() }))
}

impl Carried {
    /// The message is recorded: what came ahead of it has served its turn. If this is lost, it goes when its time is up.
    pub(super) fn let_go(self) {
        let Self { local, digest, by } = self;
        actix_web::rt::spawn(async move {
            if let Err(error) = artifacts::release(local.store.as_ref(), &local.id, &digest, &by).await {
                tracing::debug!(agent = %local.id, %digest, %error, "a payload that was carried is kept for its time");
            }
        });
    }
}
