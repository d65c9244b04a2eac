//! A brain's access to the mesh: a token that is good at its own node only.

use crate::token_format::{BRAIN_PREFIX, random_token};
use protocol::{
    a2a::card_signature::SigningKey,
    ids::{AgentId, Digest},
};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};
use transport::key_ring::KeyRing;

/// The address of its node, and a token for it. A new one is made at each start of the node.
#[derive(Clone)]
pub struct BrainAccess {
    url: String,
    token: String,
    /// The keys of the node, and the URL under which others find the agent's.
    signer: Option<(KeyRing, String)>,
}

/// The access of one agent's brain, set when the node listens.
pub type BrainAccessCell = Arc<OnceLock<BrainAccess>>;

/// The variable with the address of the brain's node.
pub const NODE_URL: &str = "MESH_NODE_URL";
/// The variable with the brain's token.
pub const BRAIN_TOKEN: &str = "MESH_BRAIN_TOKEN";

impl BrainAccess {
    /// A new token for the node at `url`.
    pub fn new(url: String) -> Self {
        Self { url, token: random_token(BRAIN_PREFIX), signer: None }
    }

    /// The same, of an agent that signs with its key in `keys`, which others find at `issuer`.
    #[must_use]
    pub fn signing(self, keys: KeyRing, issuer: String) -> Self {
        Self { signer: Some((keys, issuer)), ..self }
    }

    /// The key with which `agent` signs now, and where others find its public half.
    pub(in crate::brain) fn signer(&self, agent: &AgentId) -> Option<(Arc<SigningKey>, &str)> {
        let (keys, issuer) = self.signer.as_ref()?;
        Some((keys.own_signing_key(agent.as_str())?, issuer))
    }

    /// The digest of the token, by which the node recognises it.
    pub fn digest(&self) -> Digest {
        Digest::of(self.token.as_bytes())
    }

    /// The address of the node.
    pub(in crate::brain) fn url(&self) -> &str {
        &self.url
    }

    /// The token, for a service.
    pub(in crate::brain) fn token(&self) -> &str {
        &self.token
    }

    /// The variables in which the brain finds it.
    pub(super) fn variables(&self) -> [(&'static str, &str); 2] {
        [(NODE_URL, &self.url), (BRAIN_TOKEN, &self.token)]
    }
}

impl fmt::Debug for BrainAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrainAccess").field("url", &self.url).finish_non_exhaustive()
    }
}
