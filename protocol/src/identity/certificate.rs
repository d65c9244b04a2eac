//! Statements about the key of an id: the registry's certificate, the old key's consent to its successor, and the history of a
//! service's keys.

use super::{Base64Bytes, IdentityKey, PublicIdentity, is_signed, signature};
use crate::problem::{Problem, Reason};
use serde::{Deserialize, Serialize};

/// The most statements of a [`KeyHistory`]; older ones are dropped.
const MAX_HISTORY: usize = 32;

/// What the registry says: this id has this key. The number grows with each key of the id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// How the keys of a service replaced each other, oldest first. A process that knows one of them can follow it to the last one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<KeyChange>")]
pub struct KeyHistory(Vec<KeyChange>);

impl TryFrom<Vec<KeyChange>> for KeyHistory {
    type Error = String;

    fn try_from(changes: Vec<KeyChange>) -> Result<Self, String> {
        match changes.len() {
            0..=MAX_HISTORY => Ok(Self(changes)),
            many => Err(format!("a history of keys has at most {MAX_HISTORY} changes, not {many}")),
        }
    }
}

impl KeyHistory {
    /// The same with one more change. Beyond its limit of 32 it loses the oldest one: who knows only the key before that can't
    /// follow it.
    #[must_use]
    pub fn with(mut self, change: KeyChange) -> Self {
        self.0.push(change);
        let excess = self.0.len().saturating_sub(MAX_HISTORY);
        self.0.drain(..excess);
        self
    }

    /// Whether no key was replaced.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key that it ends with. Not proven.
    pub fn last(&self) -> Option<&PublicIdentity> {
        self.0.last().map(KeyChange::claimed)
    }

    /// Whether the owner of `from` says, over any number of changes, that `to` is its key.
    pub fn leads(&self, from: &PublicIdentity, to: &PublicIdentity) -> bool {
        let reached = self.0.iter().fold(from, |at, change| change.verify(at).unwrap_or(at));
        reached.is_same(to)
    }
}
