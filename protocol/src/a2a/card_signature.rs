//! Who vouches for a card: a detached JWS (RFC 7515) over the card in canonical form (A2A §8.4).
//!
//! Signed is the card without its signatures, without members that say no more than their absence would, and without those that
//! a card of 1.0 has for clients of 0.3. We sign with Ed25519 and verify that and ES256, which is what others sign with.

mod defaults;
mod keys;

pub use defaults::without_defaults;
pub use keys::{PublicKey, SigningKey};

use super::{jcs::canonical, v03};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use std::fmt;

/// Why a signature does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardSignatureError {
    /// The card carries no signature.
    Unsigned,
    /// The signature can't be read; the text says where it breaks off.
    Malformed(String),
    /// It was made by an algorithm that is not taken; the text names it.
    Algorithm(String),
    /// The key is unknown; the text names it.
    UnknownKey(String),
    /// The key is known, and it did not sign this card.
    Forged(String),
}

impl fmt::Display for CardSignatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned => f.write_str("the card is not signed"),
            Self::Malformed(what) => write!(f, "a signature can't be read: {what}"),
            Self::Algorithm(name) => write!(f, "a signature by {name:?} is not taken; EdDSA and ES256 are"),
            Self::UnknownKey(kid) => write!(f, "the key {kid:?} is not known"),
            Self::Forged(kid) => write!(f, "the key {kid:?} did not sign this card as it is"),
        }
    }
}

/// What is signed: the bytes of `card` in canonical form.
pub fn payload(card: &Value) -> String {
    let mut card = card.clone();
    if let Some(members) = card.as_object_mut() {
        members.remove("signatures");
    }
    canonical(&without_defaults(card))
}

/// `card` signed by `key`: an entry for its `signatures`. `jku` is the URL of the public key.
pub fn sign(card: &Value, key: &SigningKey, jku: Option<&str>) -> Value {
    let mut header = json!({ "alg": "EdDSA", "kid": key.public().kid(), "typ": "JOSE" });
    if let (Some(members), Some(jku)) = (header.as_object_mut(), jku) {
        members.insert("jku".to_owned(), json!(jku));
    }
    let protected = URL_SAFE_NO_PAD.encode(canonical(&header));
    let signature = key.sign(input(&protected, &payload(card)).as_bytes());
    json!({ "protected": protected, "signature": URL_SAFE_NO_PAD.encode(signature) })
}

/// The unverified header of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardSignatureClaim {
    pub kid: String,
    pub alg: String,
    /// The URL of the key, as the header names it.
    pub jku: Option<String>,
    protected: String,
    signature: Vec<u8>,
}

/// The signatures of `card` as they present themselves, each readable or not.
pub fn claims(card: &Value) -> Vec<Result<CardSignatureClaim, CardSignatureError>> {
    let signatures = card["signatures"].as_array().map(Vec::as_slice).unwrap_or_default();
    signatures.iter().map(claim).collect()
}

fn claim(signature: &Value) -> Result<CardSignatureClaim, CardSignatureError> {
    let malformed = |what: &str| CardSignatureError::Malformed(what.to_owned());
    let protected = signature["protected"].as_str().ok_or_else(|| malformed("no protected header"))?;
    let bytes = decode(protected).ok_or_else(|| malformed("the protected header is no base64url"))?;
    let header: Map<String, Value> =
        serde_json::from_slice(&bytes).map_err(|_| malformed("the protected header is no JSON object"))?;
    if header.contains_key("crit") {
        return Err(malformed("it has critical extensions"));
    }
    let member = |name: &str| header.get(name).and_then(Value::as_str).map(str::to_owned);
    let text = signature["signature"].as_str().unwrap_or_default();
    Ok(CardSignatureClaim {
        kid: member("kid").ok_or_else(|| malformed("no kid"))?,
        alg: member("alg").ok_or_else(|| malformed("no alg"))?,
        jku: member("jku"),
        protected: protected.to_owned(),
        signature: decode(text)
            .filter(|s| !s.is_empty())
            .ok_or_else(|| malformed("no signature in base64url"))?,
    })
}

/// Whether one of `card`'s signatures holds under one of `keys`; the name of its key, or every doubt.
pub fn verify(card: &Value, keys: &[PublicKey]) -> Result<String, Vec<CardSignatureError>> {
    let mut doubts = Vec::new();
    for claim in claims(card) {
        match claim.and_then(|claim| check(card, &claim, keys).map(|()| claim.kid)) {
            Ok(kid) => return Ok(kid),
            Err(doubt) => doubts.push(doubt),
        }
    }
    if doubts.is_empty() {
        doubts.push(CardSignatureError::Unsigned);
    }
    Err(doubts)
}

fn check(card: &Value, claim: &CardSignatureClaim, keys: &[PublicKey]) -> Result<(), CardSignatureError> {
    if !PublicKey::ALGORITHMS.contains(&claim.alg.as_str()) {
        return Err(CardSignatureError::Algorithm(claim.alg.clone()));
    }
    let mut named = keys.iter().filter(|key| key.kid() == claim.kid).peekable();
    if named.peek().is_none() {
        return Err(CardSignatureError::UnknownKey(claim.kid.clone()));
    }
    // Signers differ on which defaults they omit; all forms mean the same. Members of 0.3 are not signed beside those of 1.0.
    let mut whole = card.clone();
    if let Some(members) = whole.as_object_mut() {
        members.remove("signatures");
    }
    let own = v03::without_v03_members(&whole);
    let forms = match v03::is_v03_card(card) {
        true => vec![canonical(&whole), canonical(&v03::to_v03_signed(&whole))],
        false => vec![payload(&own), canonical(&own), payload(card), canonical(&whole)],
    };
    let holds = named.any(|key| {
        forms
            .iter()
            .any(|form| key.verifies(&claim.alg, input(&claim.protected, form).as_bytes(), &claim.signature))
    });
    if holds { Ok(()) } else { Err(CardSignatureError::Forged(claim.kid.clone())) }
}

fn input(protected: &str, payload: &str) -> String {
    format!("{protected}.{}", URL_SAFE_NO_PAD.encode(payload))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests;
