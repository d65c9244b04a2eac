//! Which key belongs to which id, pure: the first registration pins it, and its owner or a person replaces it (DESIGN §8). The
//! names of departed agents stay reserved for their keys. Every change has a revision, so that others can follow them.

use protocol::{
    identity::{KeyCertificate, KeyChange, KeyHistory, PublicIdentity},
    ids::AgentId,
    problem::{Problem, Reason},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most ids with a pinned key.
pub const MAX_PINNED_KEYS: usize = 100_000;
/// The most records of a [`KeyPage`], which must fit into a request's body.
const MAX_PAGE: usize = 100;
/// The most keys of [`PinnedKey::former`]; the oldest are forgotten.
const MAX_FORMER: usize = 32;

/// The stored record of an id's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedKey {
    pub id: AgentId,
    /// Its key; `None` after a reset, until the id registers again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PublicIdentity>,
    /// Grows with each key of the id, also if the registry loses its data: the wall time at which the key was pinned, in
    /// milliseconds.
    pub number: u64,
    /// The fingerprints of the keys that it had before, the newest last. None of them is pinned again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<String>,
}

/// What the registry says about the key of an id: its certificate, or that it has given the key up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRecord {
    pub id: AgentId,
    /// [`PinnedKey::number`]. A certificate with this number or a lower one is void after a reset.
    pub number: u64,
    /// The certificate; `None` after a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<KeyCertificate>,
}

/// How far a reader has followed the records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyCursor {
    /// Which life of the registry counts the revisions.
    pub life: String,
    /// The last revision that was read.
    pub revision: u64,
}

/// Records in the order of their last change.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyPage {
    /// The registry's own key.
    pub registry: PublicIdentity,
    /// How it came to be.
    #[serde(default, skip_serializing_if = "KeyHistory::is_empty")]
    pub history: KeyHistory,
    /// Where the page begins; `None` is the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<KeyCursor>,
    pub records: Vec<KeyRecord>,
    /// Where the page ends.
    pub cursor: KeyCursor,
    /// Whether there are more.
    pub has_more: bool,
}

/// The keys of all ids, with their certificates.
#[derive(Debug, Default)]
pub struct PinnedKeys {
    pins: BTreeMap<AgentId, CertifiedPin>,
    /// The id that each revision changed last.
    order: BTreeMap<u64, AgentId>,
    /// An id of each name in lower case. A registry of an earlier version may hold several.
    folded: BTreeMap<String, AgentId>,
}

#[derive(Debug)]
struct CertifiedPin {
    pin: PinnedKey,
    certificate: Option<KeyCertificate>,
    revision: u64,
}

impl PinnedKeys {
    /// Fails if another key than that of `identity` is pinned for its id, or if none is and the id has had this one before.
    pub fn check(&self, identity: &PublicIdentity) -> Result<(), Problem> {
        match self.identity(identity.id()) {
            Some(pinned) if !pinned.is_same(identity) => {
                let id = identity.id();
                let message = format!(
                    "another key is pinned for {id}: {}, not {}. If this is the owner of {id}, put back its key file (keys/{id}.ed25519 \
                     in its data directory), or have a person run `mesh keys reset {id}`; else choose another id",
                    pinned.fingerprint(),
                    identity.fingerprint()
                );
                Err(Problem::new(Reason::KeyMismatch, message).with("pinned", pinned.fingerprint()))
            }
            Some(_) => Ok(()),
            None => self.check_former(identity).and_then(|()| self.check_name(identity.id())),
        }
    }

    fn check_former(&self, identity: &PublicIdentity) -> Result<(), Problem> {
        let (id, key) = (identity.id(), identity.fingerprint());
        match self.pins.get(id).is_some_and(|certified| certified.pin.former.contains(&key)) {
            true => Err(Problem::new(
                Reason::KeyReset,
                format!("the key {key} of {id} was reset: {id} needs a new one"),
            )),
            false => Ok(()),
        }
    }

    /// Fails if `id` is not known, but one that differs from it in case only.
    fn check_name(&self, id: &AgentId) -> Result<(), Problem> {
        let other = self.folded.get(&folded(id)).filter(|other| *other != id && !self.pins.contains_key(id));
        other.map_or(Ok(()), |other| {
            let message =
                format!("{id} differs from {other}, which is taken, in case only: choose another id");
            Err(Problem::new(Reason::AgentIdTaken, message))
        })
    }

    /// The record that pins `identity` at `now`; `None` if it is pinned. Fails if another key is.
    pub fn pin(&self, identity: &PublicIdentity, now: WallTime) -> Result<Option<PinnedKey>, Problem> {
        self.check(identity)?;
        if self.identity(identity.id()).is_some() {
            return Ok(None);
        }
        check_agreement(identity)?;
        if self.pins.len() >= MAX_PINNED_KEYS && !self.pins.contains_key(identity.id()) {
            let message = format!("the registry has keys of its limit of {MAX_PINNED_KEYS} ids");
            return Err(Problem::new(Reason::Overloaded, message));
        }
        Ok(Some(self.next(identity.id(), Some(identity.clone()), now)))
    }

    /// The record that replaces the key of `id` as its owner says. `None` if it is replaced already.
    pub fn change(
        &self,
        id: &AgentId,
        change: &KeyChange,
        now: WallTime,
    ) -> Result<Option<PinnedKey>, Problem> {
        let pinned = self.identity(id).ok_or_else(|| no_key(id))?;
        if change.claimed().is_same(pinned) {
            return Ok(None);
        }
        let to = change.verify(pinned)?.clone();
        check_agreement(&to)?;
        Ok(Some(self.next(id, Some(to), now)))
    }

    /// The record that gives up the key of `id`: the next one that registers under it is pinned.
    pub fn reset(&self, id: &AgentId, now: WallTime) -> Result<PinnedKey, Problem> {
        self.identity(id).ok_or_else(|| no_key(id))?;
        Ok(self.next(id, None, now))
    }

    fn next(&self, id: &AgentId, identity: Option<PublicIdentity>, now: WallTime) -> PinnedKey {
        let before = self.pins.get(id).map(|certified| &certified.pin);
        let number = u64::try_from(now.0).unwrap_or(0).max(before.map_or(0, |pin| pin.number) + 1);
        let mut former = before.map_or_else(Vec::new, |pin| pin.former.clone());
        former.extend(before.and_then(|pin| pin.identity.as_ref()).map(PublicIdentity::fingerprint));
        former.drain(..former.len().saturating_sub(MAX_FORMER));
        PinnedKey { id: id.clone(), identity, number, former }
    }

    /// Takes a record that is durable, with its certificate.
    pub fn apply(&mut self, pin: PinnedKey, certificate: Option<KeyCertificate>) {
        let revision = self.revision() + 1;
        let id = pin.id.clone();
        if let Some(before) = self.pins.insert(id.clone(), CertifiedPin { pin, certificate, revision }) {
            self.order.remove(&before.revision);
        }
        self.folded.entry(folded(&id)).or_insert_with(|| id.clone());
        self.order.insert(revision, id);
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.order.last_key_value().map_or(0, |(revision, _)| *revision)
    }

    /// At most [`MAX_PAGE`] records that changed after `revision`, the last revision among them, and whether there are more.
    pub fn changed_after(&self, revision: u64) -> (Vec<KeyRecord>, u64, bool) {
        let mut changed = self.order.range(revision.saturating_add(1)..).map(|(_, id)| id);
        let pins = changed.by_ref().take(MAX_PAGE).filter_map(|id| self.pins.get(id));
        let (mut records, mut last) = (Vec::new(), revision);
        for CertifiedPin { pin, certificate, revision } in pins {
            let PinnedKey { id, number, .. } = pin.clone();
            records.push(KeyRecord { id, number, certificate: certificate.clone() });
            last = *revision;
        }
        let has_more = changed.next().is_some();
        (records, last, has_more)
    }

    /// The pinned key of `id`.
    pub fn identity(&self, id: &AgentId) -> Option<&PublicIdentity> {
        self.pins.get(id)?.pin.identity.as_ref()
    }

    /// The certificate of the key of `id`.
    pub fn certificate(&self, id: &AgentId) -> Option<KeyCertificate> {
        self.pins.get(id)?.certificate.clone()
    }

    /// Every record, by id.
    pub fn all(&self) -> impl Iterator<Item = &PinnedKey> {
        self.pins.values().map(|certified| &certified.pin)
    }
}

fn folded(id: &AgentId) -> String {
    id.as_str().to_ascii_lowercase()
}

/// Fails if no one can agree on a key with `identity`: it could prove nothing, and would block its name.
fn check_agreement(identity: &PublicIdentity) -> Result<(), Problem> {
    match identity.can_agree() {
        true => Ok(()),
        false => {
            let message =
                format!("the X25519 key of {} is of low order, which agrees with nobody", identity.id());
            Err(Problem::new(Reason::InvalidField, message))
        }
    }
}

fn no_key(id: &AgentId) -> Problem {
    Problem::new(Reason::AgentNotFound, format!("no key is pinned for {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use protocol::{a2a::card_signature::SigningKey, identity::IdentityKey};
    use serde_json::json;
    use std::sync::Arc;

    fn key(id: &str, seed: u8) -> IdentityKey {
        IdentityKey::new(AgentId::parse(id).unwrap(), Arc::new(SigningKey::from_seed(&[seed; 32])))
    }

    #[test]
    fn the_first_key_stays_until_its_owner_or_a_person_replaces_it() {
        let (old, new, thief) = (key("a", 1), key("a", 2), key("a", 3));
        let id = old.public().id().clone();
        let mut pins = PinnedKeys::default();
        let now = WallTime(1_000);
        let first = pins.pin(old.public(), now).unwrap().unwrap();
        assert_eq!((first.number, first.identity.as_ref()), (1_000, Some(old.public().as_ref())));
        pins.apply(first, None);
        assert_eq!(pins.pin(old.public(), now), Ok(None), "a repeat");
        let refused = pins.pin(thief.public(), now).unwrap_err();
        assert_eq!(refused.reason, Reason::KeyMismatch);
        assert!(refused.message.contains("mesh keys reset a"), "{refused}");

        let stolen = KeyChange::new(&thief, thief.public());
        assert_eq!(pins.change(&id, &stolen, now).unwrap_err().reason, Reason::KeyMismatch);
        let change = KeyChange::new(&old, new.public());
        let changed = pins.change(&id, &change, now).unwrap().unwrap();
        assert_eq!(changed.number, 1_001, "it grows, whatever the clock says");
        pins.apply(changed, None);
        assert_eq!(pins.change(&id, &change, now), Ok(None), "a repeat");
        assert!(pins.check(old.public()).is_err());

        let reset = pins.reset(&id, WallTime(5_000)).unwrap();
        pins.apply(reset, None);
        assert_eq!(pins.identity(&id), None);
        for given_up in [&old, &new] {
            assert_eq!(pins.pin(given_up.public(), now).unwrap_err().reason, Reason::KeyReset);
        }
        assert_eq!(pins.pin(thief.public(), WallTime(0)).unwrap().unwrap().number, 5_001);
        assert_eq!(pins.reset(&id, now).unwrap_err().reason, Reason::AgentNotFound);
    }

    #[test]
    fn a_name_that_differs_from_a_pinned_one_in_case_only_is_refused() {
        let mut pins = PinnedKeys::default();
        let first = pins.pin(key("builder-01", 1).public(), WallTime(1)).unwrap().unwrap();
        pins.apply(first, None);
        for id in ["Builder-01", "BUILDER-01"] {
            let refused = pins.pin(key(id, 2).public(), WallTime(2)).unwrap_err();
            assert_eq!(refused.reason, Reason::AgentIdTaken);
            assert!(refused.message.contains("differs from builder-01"), "{refused}");
        }
        assert!(pins.pin(key("builder-02", 2).public(), WallTime(2)).unwrap().is_some());
        // Of a store in which both are pinned each keeps its key.
        let other = PinnedKey {
            id: AgentId::parse("Builder-01").unwrap(),
            identity: Some(key("Builder-01", 2).public().as_ref().clone()),
            number: 1,
            former: Vec::new(),
        };
        pins.apply(other, None);
        for (id, seed) in [("builder-01", 1), ("Builder-01", 2)] {
            assert_eq!(pins.pin(key(id, seed).public(), WallTime(3)), Ok(None), "{id}");
        }
    }

    #[test]
    fn a_key_that_agrees_with_nobody_is_not_pinned() {
        // An identity whose X25519 key is zero, signed by its Ed25519 key.
        let signing = SigningKey::from_seed(&[5; 32]);
        let base64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let ed25519 = signing.public().to_jwk()["x"].as_str().unwrap().to_owned();
        let x25519 = base64(&[0; 32]);
        let signed = signing.sign(format!("agent-mesh identity 1\na\n{ed25519}\n{x25519}").as_bytes());
        let low: PublicIdentity = serde_json::from_value(
            json!({ "id": "a", "ed25519": ed25519, "x25519": x25519, "signature": base64(&signed) }),
        )
        .unwrap();
        let refused = PinnedKeys::default().pin(&low, WallTime(1)).unwrap_err();
        assert!(refused.reason == Reason::InvalidField && refused.message.contains("low order"), "{refused}");
    }

    #[test]
    fn records_are_read_in_pages_in_the_order_of_their_last_change() {
        let mut pins = PinnedKeys::default();
        assert_eq!(pins.changed_after(0), (vec![], 0, false));
        for at in 0..=MAX_PAGE {
            let pin = pins.pin(key(&format!("a-{at}"), 1).public(), WallTime(1)).unwrap().unwrap();
            pins.apply(pin, None);
        }
        let (records, last, has_more) = pins.changed_after(0);
        assert!(records.len() == MAX_PAGE && has_more, "{}", records.len());
        let (rest, last, has_more) = pins.changed_after(last);
        assert!(rest.len() == 1 && rest[0].id.as_str() == format!("a-{MAX_PAGE}") && !has_more, "{rest:?}");
        assert_eq!(pins.changed_after(last), (vec![], last, false));
        let id = AgentId::parse("a-0").unwrap();
        let reset = pins.reset(&id, WallTime(9)).unwrap();
        pins.apply(reset, None);
        let (changed, _, _) = pins.changed_after(last);
        assert_eq!(changed, [KeyRecord { id, number: 9, certificate: None }]);
        assert_eq!(pins.changed_after(0).0[0].id.as_str(), "a-1");
    }
}
