//! The keys of agents and services (DESIGN §8): who owns which id, and the key that two of them share.
//!
//! An identity is an Ed25519 key, which signs cards and statements, and an X25519 key derived from the same seed and
//! signed by it. Two identities agree on a key without a message between them (RFC 7748); their requests and responses carry
//! an `hmac-sha256` under it. Three statements exist: [`PublicIdentity`], by the identity about itself; [`KeyCertificate`], by
//! the registry about an id; [`KeyChange`], by an old key about the one that replaces it. A [`KeyHistory`] is a chain of the latter.
//! A [`PersonKey`] proves who has the person's token.

mod certificate;
mod pair_key;
mod person;
#[cfg(test)]
mod tests;

pub use certificate::{KeyCertificate, KeyChange, KeyHistory};
pub use pair_key::PairSecret;
pub use person::{ApprovalProof, PersonKey, PersonPublicKey, TICKET_PREFIX, approval_digest};

use crate::{a2a::card_signature::SigningKey, ids::AgentId};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};
use x25519_dalek::{PublicKey as AgreementPublicKey, StaticSecret};

/// The secret half of an identity.
pub struct IdentityKey {
    signing: Arc<SigningKey>,
    agreement: StaticSecret,
    public: Arc<PublicIdentity>,
}

impl IdentityKey {
    /// The identity of `id` whose Ed25519 key is `signing`.
    pub fn new(id: AgentId, signing: Arc<SigningKey>) -> Self {
        let agreement = StaticSecret::from(signing.secret_for("x25519"));
        let keys = IdentityKeys {
            ed25519: Base64Bytes(signing.public().ed25519()),
            x25519: Base64Bytes(AgreementPublicKey::from(&agreement).to_bytes()),
        };
        let signature = signature(&signing, &PublicIdentity::statement(&id, &keys));
        Self { signing, agreement, public: Arc::new(PublicIdentity { id, keys, signature }) }
    }

    /// Its public half.
    pub fn public(&self) -> &Arc<PublicIdentity> {
        &self.public
    }

    /// Its Ed25519 key.
    pub fn signing(&self) -> &Arc<SigningKey> {
        &self.signing
    }
}

impl fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// The public half of an identity. One that exists has a valid signature of itself.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedIdentity")]
pub struct PublicIdentity {
    id: AgentId,
    #[serde(flatten)]
    keys: IdentityKeys,
    signature: Base64Bytes<64>,
}

/// What one process tells another about itself, under the join secret: who it is, and the registry's certificate for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The keys of the one who speaks.
    pub identity: PublicIdentity,
    /// Its certificate; services have none, nor has an agent before its first contact with the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<KeyCertificate>,
    /// In the registry's answer: the certificate of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callers: Option<KeyCertificate>,
    /// Of a service whose key was replaced: how.
    #[serde(default, skip_serializing_if = "KeyHistory::is_empty")]
    pub history: KeyHistory,
}

/// The two public keys of an identity.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct IdentityKeys {
    ed25519: Base64Bytes<32>,
    x25519: Base64Bytes<32>,
}

/// A [`PublicIdentity`] before its signature is checked.
#[derive(Deserialize)]
struct UncheckedIdentity {
    id: AgentId,
    ed25519: Base64Bytes<32>,
    x25519: Base64Bytes<32>,
    signature: Base64Bytes<64>,
}

impl TryFrom<UncheckedIdentity> for PublicIdentity {
    type Error = String;

    fn try_from(unchecked: UncheckedIdentity) -> Result<Self, String> {
        let UncheckedIdentity { id, ed25519, x25519, signature } = unchecked;
        let keys = IdentityKeys { ed25519, x25519 };
        match is_signed(&keys.ed25519, &Self::statement(&id, &keys), &signature) {
            true => Ok(Self { id, keys, signature }),
            false => Err(format!("the keys of {id} are not signed by its Ed25519 key")),
        }
    }
}

impl PublicIdentity {
    fn statement(id: &AgentId, keys: &IdentityKeys) -> String {
        format!("agent-mesh identity 1\n{id}\n{}\n{}", keys.ed25519, keys.x25519)
    }

    /// Whose it is.
    pub fn id(&self) -> &AgentId {
        &self.id
    }

    /// Whether both are the same id with the same keys.
    pub fn is_same(&self, other: &Self) -> bool {
        self.id == other.id && self.keys == other.keys
    }

    /// Whether others can agree on a key with it. False for an X25519 point of low order.
    pub fn can_agree(&self) -> bool {
        let anybody = StaticSecret::from([1; 32]);
        anybody.diffie_hellman(&AgreementPublicKey::from(self.keys.x25519.0)).was_contributory()
    }

    /// A short name of the keys for people: the first 16 characters of the Ed25519 key.
    pub fn fingerprint(&self) -> String {
        self.keys.ed25519.to_string().chars().take(16).collect()
    }
}

impl fmt::Debug for PublicIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.fingerprint())
    }
}

/// Bytes that are base64url without padding in JSON and in statements.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Base64Bytes<const N: usize>([u8; N]);

impl<const N: usize> TryFrom<String> for Base64Bytes<N> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = URL_SAFE_NO_PAD.decode(&text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| format!("a key or signature is {N} bytes in base64url without padding"))
    }
}

impl<const N: usize> fmt::Debug for Base64Bytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> fmt::Display for Base64Bytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<const N: usize> Serialize for Base64Bytes<N> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

fn signature(key: &SigningKey, statement: &str) -> Base64Bytes<64> {
    let signature = key.sign(statement.as_bytes());
    let Ok(bytes) = signature.try_into() else { unreachable!("an Ed25519 signature has 64 bytes") };
    Base64Bytes(bytes)
}

fn is_signed(key: &Base64Bytes<32>, statement: &str, signature: &Base64Bytes<64>) -> bool {
    UnparsedPublicKey::new(&ED25519, &key.0).verify(statement.as_bytes(), &signature.0).is_ok()
}
