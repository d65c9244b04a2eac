//! Statements about the key of an id: the registry's certificate, and the old key's consent to its successor.

use super::{Base64Bytes, IdentityKey, PublicIdentity, is_signed, signature};
use crate::problem::{Problem, Reason};
use serde::{Deserialize, Serialize};

/// What the registry says: this id has this key. The number grows with each key of the id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyCertificate {
    identity: PublicIdentity,
    number: u64,
    signature: Base64Bytes<64>,
}

impl KeyCertificate {
    fn statement(identity: &PublicIdentity, number: u64) -> String {
        let PublicIdentity { id, keys, .. } = identity;
        format!("agent-mesh certificate 1\n{id}\n{number}\n{}\n{}", keys.ed25519, keys.x25519)
    }

    /// The certificate of the registry with the key `registry`.
    pub fn new(registry: &IdentityKey, identity: &PublicIdentity, number: u64) -> Self {
        let signature = signature(registry.signing(), &Self::statement(identity, number));
        Self { identity: identity.clone(), number, signature }
    }

    /// The identity that it certifies, if `registry` made it.
    pub fn verify(&self, registry: &PublicIdentity) -> Result<&PublicIdentity, Problem> {
        let statement = Self::statement(&self.identity, self.number);
        match is_signed(&registry.keys.ed25519, &statement, &self.signature) {
            true => Ok(&self.identity),
            false => {
                let message =
                    format!("the certificate of {} is not by the registry of this mesh", self.identity.id);
                Err(Problem::new(Reason::KeyMismatch, message))
            }
        }
    }

    /// The identity that it claims to certify. Not proven.
    pub fn claimed(&self) -> &PublicIdentity {
        &self.identity
    }

    /// How many keys the id has had, this one included.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// What the owner of an old key says: this key replaces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyChange {
    to: PublicIdentity,
    signature: Base64Bytes<64>,
}

impl KeyChange {
    fn statement(from: &PublicIdentity, to: &PublicIdentity) -> String {
        let (from, PublicIdentity { id, keys, .. }) = (from.keys.ed25519, to);
        format!("agent-mesh key change 1\n{id}\n{from}\n{}\n{}", keys.ed25519, keys.x25519)
    }

    /// The statement of `from` that `to` replaces it.
    pub fn new(from: &IdentityKey, to: &PublicIdentity) -> Self {
        let signature = signature(from.signing(), &Self::statement(from.public(), to));
        Self { to: to.clone(), signature }
    }

    /// The new identity that it claims. Not proven.
    pub fn claimed(&self) -> &PublicIdentity {
        &self.to
    }

    /// The new identity, if `from` said so and both have the same id.
    pub fn verify(&self, from: &PublicIdentity) -> Result<&PublicIdentity, Problem> {
        let is_right = self.to.id == from.id
            && is_signed(&from.keys.ed25519, &Self::statement(from, &self.to), &self.signature);
        match is_right {
            true => Ok(&self.to),
            false => {
                let message =
                    format!("{}: the change of its key is not signed by the key that it has", from.id);
                Err(Problem::new(Reason::KeyMismatch, message))
            }
        }
    }
}
