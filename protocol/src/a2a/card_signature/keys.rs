//! The keys: Ed25519 to sign with, that and P-256 to verify by, as JSON Web Keys (RFC 7517, 8037).

use super::super::jcs::canonical;
use crate::ids::Digest;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    hkdf,
    signature::{ECDSA_P256_SHA256_FIXED, ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};
use serde_json::{Value, json};
use std::fmt;

/// An agent's own key.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    derives: hkdf::Prk,
    public: PublicKey,
}

impl SigningKey {
    /// The key derived from `seed`; the seed is as secret as the key.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let Ok(pair) = Ed25519KeyPair::from_seed_unchecked(seed) else {
            unreachable!("any 32 bytes are a seed")
        };
        let public = PublicKey::named(Curve::Ed25519, pair.public_key().as_ref().to_vec(), None);
        let derives = hkdf::Salt::new(hkdf::HKDF_SHA256, b"agent-mesh").extract(seed);
        Self { pair, derives, public }
    }

    /// A secret of its own for that purpose (HKDF-SHA256, RFC 5869); nothing about the key follows from it.
    pub fn secret_for(&self, purpose: &str) -> [u8; 32] {
        let mut secret = [0; 32];
        let purpose = [purpose.as_bytes()];
        let derived = self.derives.expand(&purpose, hkdf::HKDF_SHA256);
        let Ok(()) = derived.and_then(|derived| derived.fill(&mut secret)) else {
            unreachable!("a hash of 32 bytes is asked for 32 bytes")
        };
        secret
    }

    /// Its public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// A signature of `message`.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("kid", &self.public.kid).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Curve {
    Ed25519,
    P256,
}

/// A key that signatures are checked by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    kid: String,
    curve: Curve,
    point: Vec<u8>,
}

impl PublicKey {
    /// The algorithms it can check (RFC 7518, 8037, 9864).
    pub const ALGORITHMS: &'static [&'static str] = &["EdDSA", "Ed25519", "ES256"];

    fn named(curve: Curve, point: Vec<u8>, kid: Option<&str>) -> Self {
        let mut key = Self { kid: String::new(), curve, point };
        key.kid = kid.map_or_else(|| key.thumbprint(), str::to_owned);
        key
    }

    /// The bytes of an Ed25519 key; zeros for one of another kind, which verifies nothing.
    pub(crate) fn ed25519(&self) -> [u8; 32] {
        match self.curve {
            Curve::Ed25519 => self.point.as_slice().try_into().unwrap_or_default(),
            Curve::P256 => [0; 32],
        }
    }

    /// Its name: the one it was given, else its thumbprint.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// RFC 7638: a name that follows from the key itself.
    pub fn thumbprint(&self) -> String {
        URL_SAFE_NO_PAD.encode(Digest::of(canonical(&self.members()).as_bytes()).bytes())
    }

    fn members(&self) -> Value {
        let coded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self.curve {
            Curve::Ed25519 => json!({ "kty": "OKP", "crv": "Ed25519", "x": coded(&self.point) }),
            Curve::P256 => {
                let (x, y) = self.point[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "x": coded(x), "y": coded(y) })
            }
        }
    }

    /// As a JSON Web Key.
    pub fn to_jwk(&self) -> Value {
        let mut jwk = self.members();
        if let Some(members) = jwk.as_object_mut() {
            let alg = if self.curve == Curve::Ed25519 { "EdDSA" } else { "ES256" };
            members.extend([
                ("kid".to_owned(), json!(self.kid)),
                ("alg".to_owned(), json!(alg)),
                ("use".to_owned(), json!("sig")),
            ]);
        }
        jwk
    }

    /// The key in a JSON Web Key; `None` for a kind that is not taken, and for what is no key.
    pub fn from_jwk(jwk: &Value) -> Option<Self> {
        let bytes =
            |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str()?).ok().filter(|bytes| bytes.len() == 32);
        let (curve, point) = match (jwk["kty"].as_str()?, jwk["crv"].as_str()?) {
            ("OKP", "Ed25519") => (Curve::Ed25519, bytes("x")?),
            ("EC", "P-256") => (Curve::P256, [vec![4], bytes("x")?, bytes("y")?].concat()),
            _ => return None,
        };
        Some(Self::named(curve, point, jwk["kid"].as_str()))
    }

    /// The keys of a JSON Web Key Set that are taken.
    pub fn from_jwks(jwks: &Value) -> Vec<Self> {
        jwks["keys"].as_array().into_iter().flatten().filter_map(Self::from_jwk).collect()
    }

    /// Whether it made `signature` over `message` by the algorithm `alg`.
    pub fn verifies(&self, alg: &str, message: &[u8], signature: &[u8]) -> bool {
        match (self.curve, alg) {
            (Curve::Ed25519, "EdDSA" | "Ed25519") => {
                UnparsedPublicKey::new(&ED25519, &self.point).verify(message, signature).is_ok()
            }
            (Curve::P256, "ES256") => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.point)
                .verify(message, signature)
                .is_ok(),
            (Curve::Ed25519 | Curve::P256, _) => false,
        }
    }
}
