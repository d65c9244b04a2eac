//! The key that two identities share: HKDF over their X25519 agreement, both ids, both keys and the day.

use super::{IdentityKey, PublicIdentity};
use crate::signature::Secret;
use ring::hkdf;
use x25519_dalek::PublicKey as AgreementPublicKey;

/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// What two identities have agreed on; both sides compute the same.
#[derive(Debug, Clone)]
pub struct PairSecret {
    derives: hkdf::Prk,
    parties: String,
}

impl PairSecret {
    /// What `own` agrees on with `peer`. `None` if the key of `peer` is a point of low order, which agrees with nobody.
    pub fn new(own: &IdentityKey, peer: &PublicIdentity) -> Option<Self> {
        let shared = own.agreement.diffie_hellman(&AgreementPublicKey::from(peer.keys.x25519.0));
        if !shared.was_contributory() {
            return None;
        }
        let derives = hkdf::Salt::new(hkdf::HKDF_SHA256, b"agent-mesh pair key 1").extract(shared.as_bytes());
        let mut parties = [own.public().as_ref(), peer]
            .map(|PublicIdentity { id, keys, .. }| format!("{id}\n{}\n{}\n", keys.ed25519, keys.x25519));
        parties.sort();
        Some(Self { derives, parties: parties.concat() })
    }

    /// The day of a signature that was made at this time, in Unix seconds: the signature names the time, so both sides use the
    /// key of the same day, also around midnight.
    pub fn day(created: u64) -> u64 {
        created / DAY_S
    }

    /// The key of that day.
    pub fn key(&self, day: u64) -> Secret {
        let mut key = [0; 32];
        let info = [self.parties.as_bytes(), &day.to_be_bytes()];
        let derived = self.derives.expand(&info, hkdf::HKDF_SHA256);
        let Ok(()) = derived.and_then(|derived| derived.fill(&mut key)) else {
            unreachable!("a hash of 32 bytes is asked for 32 bytes")
        };
        let Ok(key) = Secret::new(&key) else { unreachable!("32 bytes are long enough") };
        key
    }
}
