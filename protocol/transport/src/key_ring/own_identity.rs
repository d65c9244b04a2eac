//! An identity of this process, with the keys that it shares with each peer.

use super::GRACE;
use dashmap::DashMap;
use protocol::{
    identity::{IdentityKey, KeyCertificate, KeyHistory, PairSecret, PublicIdentity},
    signature::{Secret, SignatureClaim},
};
use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

/// The most shared keys kept; beyond that all are computed anew.
const MAX_PAIRS: usize = 16_384;

pub(super) struct OwnIdentity {
    key: IdentityKey,
    certificate: RwLock<Option<KeyCertificate>>,
    pairs: DashMap<String, SharedKey>,
    history: KeyHistory,
    /// The identity that this one has replaced in this life of the process, and when.
    previous: Option<(Arc<OwnIdentity>, Instant)>,
}

/// What is shared with one peer, and the key of the latest day.
struct SharedKey {
    peer: Arc<PublicIdentity>,
    secret: PairSecret,
    day: u64,
    key: Secret,
}

impl OwnIdentity {
    pub(super) fn new(key: IdentityKey, history: KeyHistory, previous: Option<Arc<Self>>) -> Self {
        let previous = previous.map(|previous| (previous, Instant::now()));
        Self { key, certificate: RwLock::default(), pairs: DashMap::new(), history, previous }
    }

    pub(super) fn history(&self) -> &KeyHistory {
        &self.history
    }

    pub(super) fn secret(&self) -> &IdentityKey {
        &self.key
    }

    pub(super) fn certificate(&self) -> Option<KeyCertificate> {
        self.certificate.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the certificate, if it is of this key.
    pub(super) fn set_certificate(&self, certificate: &KeyCertificate) {
        let mut current = self.certificate.write().unwrap_or_else(PoisonError::into_inner);
        let is_later = current.as_ref().is_none_or(|current| current.number() <= certificate.number());
        if certificate.claimed().is_same(self.key.public()) && is_later {
            *current = Some(certificate.clone());
        }
    }

    /// The key shared with `peer` at `now`. `None` if the peer's key agrees with nobody.
    pub(super) fn key_of(&self, peer: &Arc<PublicIdentity>, now: u64) -> Option<Secret> {
        let mut key = None;
        self.with_key(peer, now, now, |shared| key = Some(shared.clone()));
        key
    }

    /// Whether `peer` made the claim for this identity, or for the one that it has replaced a short time ago.
    pub(super) fn has_made(&self, peer: &Arc<PublicIdentity>, claim: &SignatureClaim, now: u64) -> bool {
        let mut is_right = false;
        self.with_key(peer, claim.created(), now, |key| is_right = claim.is_signed_by(key));
        let previous = self.previous.as_ref().filter(|(_, since)| since.elapsed() < GRACE);
        is_right || previous.is_some_and(|(previous, _)| previous.has_made(peer, claim, now))
    }

    /// Calls `with` with the key of the day of `created`. Only a key of the day of `now` is kept: anybody may name any time.
    fn with_key(&self, peer: &Arc<PublicIdentity>, created: u64, now: u64, with: impl FnOnce(&Secret)) {
        let (id, day) = (peer.id().as_str(), PairSecret::day(created));
        let secret = match self.pairs.get(id).filter(|shared| shared.peer.is_same(peer)) {
            Some(shared) if shared.day == day => return with(&shared.key),
            Some(shared) => Some(shared.secret.clone()),
            None => PairSecret::new(&self.key, peer),
        };
        let Some(secret) = secret else { return };
        let key = secret.key(day);
        with(&key);
        if day == PairSecret::day(now) {
            if self.pairs.len() >= MAX_PAIRS {
                self.pairs.clear();
            }
            self.pairs.insert(id.to_owned(), SharedKey { peer: peer.clone(), secret, day, key });
        }
    }
}
