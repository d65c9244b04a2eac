use super::*;
use protocol::{a2a::card_signature::SigningKey, ids::Digest};

fn agent(id: &str) -> AgentId {
    AgentId::parse(id).unwrap()
}

pub(crate) fn keyed(id: &str, byte: u8) -> IdentityKey {
    IdentityKey::new(agent(id), Arc::new(SigningKey::from_seed(&[byte; 32])))
}

/// The identity of `id` in tests.
pub(crate) fn identity(id: &str) -> IdentityKey {
    keyed(id, 1)
}

/// The keys of a process with these agents and services.
pub(crate) fn ring(own: &[&str]) -> KeyRing {
    let keys = KeyRing::new(Secret::new(&[7; 32]).unwrap(), None);
    own.iter().for_each(|id| keys.set_own(identity(id)));
    keys
}

fn parts<'a>(recipient: &'a str) -> SignedParts<'a> {
    SignedParts {
        method: "POST",
        path_and_query: "/a2a/messages",
        recipient,
        message_id: Some("m-1"),
        digest: Digest::of(b"{}"),
    }
}

/// Midnight of some day.
const MIDNIGHT: u64 = 86_400 * 20_000;

/// Whether `verifier` accepts, at `now`, what `signer` signed as `me` for `recipient` at `created`.
fn accepts(
    verifier: &KeyRing,
    (signer, me): (&KeyRing, &str),
    recipient: &str,
    created: u64,
    now: u64,
) -> Result<AgentId, Problem> {
    let headers = signer.sign_request(&agent(me), &parts(recipient), created).unwrap();
    let presented = PresentedSignature {
        content_digest: Some(&headers.content_digest),
        signature_input: Some(&headers.signature_input),
        signature: Some(&headers.signature),
    };
    verifier.verify_request(&parts(recipient), &presented, now).map(|claim| claim.agent().clone())
}

/// Two processes that know each other's keys.
fn pair() -> (KeyRing, KeyRing) {
    let (a, b) = (ring(&["a"]), ring(&["b"]));
    a.set_pinned(identity("b").public().clone(), 1);
    b.set_pinned(identity("a").public().clone(), 1);
    (a, b)
}

#[test]
fn a_request_is_its_signers_and_nobody_elses() {
    let (a, b) = pair();
    assert_eq!(accepts(&b, (&a, "a"), "b", MIDNIGHT, MIDNIGHT).unwrap().as_str(), "a");
    let thief = ring(&[]);
    thief.set_own(keyed("a", 2));
    thief.set_pinned(identity("b").public().clone(), 1);
    assert_eq!(
        accepts(&b, (&thief, "a"), "b", MIDNIGHT, MIDNIGHT).unwrap_err().reason,
        Reason::Unauthenticated
    );
    assert!(accepts(&b, (&b, "b"), "a", MIDNIGHT, MIDNIGHT).is_err(), "not for its own process");
    let unknown = ring(&["c"]);
    unknown.set_pinned(identity("b").public().clone(), 1);
    let refused = accepts(&b, (&unknown, "c"), "b", MIDNIGHT, MIDNIGHT).unwrap_err();
    assert!(refused.message.contains("no key of c is known"), "{refused}");
}

#[test]
fn around_midnight_both_days_count_and_a_forged_time_is_stale() {
    let (a, b) = pair();
    for (created, now) in
        [(MIDNIGHT - 1, MIDNIGHT + 200), (MIDNIGHT + 200, MIDNIGHT - 1), (MIDNIGHT, MIDNIGHT)]
    {
        assert!(accepts(&b, (&a, "a"), "b", created, now).is_ok(), "{created} {now}");
    }
    let late = accepts(&b, (&a, "a"), "b", MIDNIGHT - 1, MIDNIGHT + 300).unwrap_err();
    assert_eq!(late.reason, Reason::StaleSignature);
    let next_year = accepts(&b, (&a, "a"), "b", MIDNIGHT * 2, MIDNIGHT).unwrap_err();
    assert_eq!(next_year.reason, Reason::StaleSignature);
    assert!(accepts(&b, (&a, "a"), "b", MIDNIGHT, MIDNIGHT).is_ok());
}

#[test]
fn a_key_is_replaced_by_a_later_certificate_of_the_registry_only() {
    let registry = ring(&["registry"]);
    let certificate = |byte, number| registry.certify(keyed("a", byte).public(), number).unwrap();
    let b = ring(&["b"]);
    assert_eq!(b.learn(&certificate(1, 1)).unwrap_err().reason, Reason::RegistryUnavailable);
    b.pin_service(identity("registry").public(), &KeyHistory::default()).unwrap();
    b.learn(&certificate(1, 5)).unwrap();
    assert_eq!(b.learn(&certificate(1, 3)), Ok(()), "the same key");
    for number in [4, 5] {
        assert_eq!(b.learn(&certificate(2, number)).unwrap_err().reason, Reason::KeyMismatch);
    }
    let other = ring(&[]);
    other.set_own(keyed("registry", 9));
    let forged = other.certify(keyed("a", 2).public(), 6).unwrap();
    assert_eq!(b.learn(&forged).unwrap_err().reason, Reason::KeyMismatch);
    assert!(b.identity("a").unwrap().is_same(keyed("a", 1).public()));

    b.learn(&certificate(2, 6)).unwrap();
    assert!(b.identity("a").unwrap().is_same(keyed("a", 2).public()));
    b.revoke("a", None);
    assert!(b.identity("a").is_none());
    assert_eq!(b.learn(&certificate(2, 6)).unwrap_err().reason, Reason::KeyMismatch, "reset");
    b.learn(&certificate(3, 7)).unwrap();
}

#[test]
fn after_a_rotation_what_is_under_way_is_accepted_and_after_a_reset_it_is_not() {
    let (a, b) = pair();
    let now = MIDNIGHT;
    b.set_pinned(keyed("a", 2).public().clone(), 2);
    assert!(accepts(&b, (&a, "a"), "b", now, now).is_ok(), "signed with the old key");
    a.set_own(keyed("a", 2));
    assert!(accepts(&b, (&a, "a"), "b", now, now).is_ok(), "signed with the new key");
    assert!(accepts(&a, (&pair().1, "b"), "a", now, now).is_ok(), "b does not know the new key yet");

    let (a, b) = pair();
    b.revoke("a", None);
    b.set_pinned(keyed("a", 2).public().clone(), 2);
    assert!(accepts(&b, (&a, "a"), "b", now, now).is_err());
}

#[test]
fn the_key_of_a_service_is_pinned_at_the_first_contact() {
    let dir = tempfile::tempdir().unwrap();
    let keys = || KeyRing::new(Secret::new(&[7; 32]).unwrap(), Some(dir.path().to_owned()));
    keys().pin_service(identity("registry").public(), &KeyHistory::default()).unwrap();
    assert!(
        keys().identity("registry").unwrap().is_same(identity("registry").public()),
        "also after a restart"
    );
    let refused = keys().pin_service(keyed("registry", 2).public(), &KeyHistory::default()).unwrap_err();
    assert_eq!(refused.reason, Reason::KeyMismatch);
    assert!(refused.message.contains("registry.pinned"), "{refused}");
    std::fs::remove_file(dir.path().join("registry.pinned")).unwrap();
    keys().pin_service(keyed("registry", 2).public(), &KeyHistory::default()).unwrap();
}

#[test]
fn a_service_is_followed_over_the_history_of_its_keys_only() {
    let dir = tempfile::tempdir().unwrap();
    let keys = |name: &str| {
        let dir = dir.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        KeyRing::new(Secret::new(&[7; 32]).unwrap(), Some(dir))
    };
    let [first, second, third, thief] = [1, 2, 3, 9].map(|byte| keyed("registry", byte));
    let one = KeyHistory::default().with(KeyChange::new(&first, second.public()));
    let both = one.clone().with(KeyChange::new(&second, third.public()));
    let forged = KeyHistory::default().with(KeyChange::new(&thief, third.public()));
    let is_refused = |answer: Result<(), Problem>| answer.unwrap_err().reason == Reason::KeyMismatch;

    let late = keys("late");
    late.follow_service(first.public(), &one).unwrap();
    assert!(
        late.identity("registry").is_none(),
        "without the join secret nothing is pinned at the first contact"
    );
    late.pin_service(first.public(), &KeyHistory::default()).unwrap();
    assert!(is_refused(late.follow_service(third.public(), &forged)));
    assert!(is_refused(late.pin_service(thief.public(), &both)));
    late.pin_service(third.public(), &both).unwrap();
    assert!(is_refused(late.pin_service(first.public(), &both)), "there is no way back");
    assert!(keys("late").identity("registry").unwrap().is_same(third.public()), "also after a restart");

    let b = keys("b");
    b.set_own(identity("b"));
    b.pin_service(first.public(), &KeyHistory::default()).unwrap();
    let registry = |key: &IdentityKey, history: &KeyHistory| {
        let ring = ring(&[]);
        ring.set_own_service(IdentityKey::new(agent("registry"), key.signing().clone()), history.clone());
        ring.set_pinned(identity("b").public().clone(), 1);
        ring
    };
    let (old, new) = (registry(&first, &KeyHistory::default()), registry(&second, &one));
    let certificate = |of: &KeyRing, byte| of.certify(keyed("a", byte).public(), byte.into()).unwrap();
    b.follow_service(&new.own("registry").unwrap(), &new.own_history("registry")).unwrap();
    let now = MIDNIGHT;
    assert!(accepts(&b, (&old, "registry"), "b", now, now).is_ok(), "what is under way");
    assert!(accepts(&b, (&new, "registry"), "b", now, now).is_ok());
    b.learn(&certificate(&old, 1)).unwrap();
    b.learn(&certificate(&new, 2)).unwrap();

    let reset = keys("b");
    reset.set_own(identity("b"));
    assert!(accepts(&reset, (&old, "registry"), "b", now, now).is_err(), "after a restart the new one only");
}

#[test]
fn a_reset_that_is_told_by_number_leaves_a_later_key() {
    let registry = ring(&["registry"]);
    let certificate = |byte, number| registry.certify(keyed("a", byte).public(), number).unwrap();
    let b = ring(&["b"]);
    b.pin_service(identity("registry").public(), &KeyHistory::default()).unwrap();
    b.revoke("a", Some(5));
    assert_eq!(b.learn(&certificate(1, 5)).unwrap_err().reason, Reason::KeyMismatch, "never seen before");
    b.learn(&certificate(2, 6)).unwrap();
    b.revoke("a", Some(5));
    assert!(b.identity("a").unwrap().is_same(keyed("a", 2).public()));
    b.revoke("a", Some(6));
    assert!(b.identity("a").is_none());
}
