//! What tokens of a mesh look like.

/// How the person's token begins.
pub(crate) const PERSON_PREFIX: &str = "mesh-person-";
/// How a brain's token begins.
pub(crate) const BRAIN_PREFIX: &str = "mesh-brain-";
/// How the token of an agent's own process begins.
pub(crate) const PEER_PREFIX: &str = "mesh-peer-";

/// A random token of 244 bits: the prefix and hexadecimal digits.
pub(crate) fn random_token(prefix: &str) -> String {
    format!("{prefix}{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}
