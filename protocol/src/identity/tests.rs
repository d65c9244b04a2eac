use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn id(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

fn key(name: &str, seed: u8) -> IdentityKey {
    IdentityKey::new(id(name), Arc::new(SigningKey::from_seed(&[seed; 32])))
}

fn tag(secret: &crate::signature::Secret) -> String {
    let parts = crate::signature::SignedResponse {
        status: 200,
        message_id: "m",
        digest: crate::ids::Digest::of(b""),
    };
    secret.sign_response(&id("x"), &parts, 0).signature
}

#[test]
fn both_sides_have_the_same_key_and_nobody_else_has() {
    let (a, b, c) = (key("a", 1), key("b", 2), key("c", 3));
    let pair = |own: &IdentityKey, peer: &IdentityKey| PairSecret::new(own, peer.public()).unwrap();
    let of_day = |own: &IdentityKey, peer: &IdentityKey, day| tag(&pair(own, peer).key(day));
    assert_eq!(of_day(&a, &b, 7), of_day(&b, &a, 7));
    let others = [
        of_day(&a, &b, 8),
        of_day(&a, &c, 7),
        of_day(&b, &c, 7),
        of_day(&key("a2", 1), &b, 7),
        of_day(&key("a", 4), &b, 7),
    ];
    assert!(others.iter().all(|other| *other != of_day(&a, &b, 7)), "another day, peer, id or key");
    assert_eq!(PairSecret::day(86_399), PairSecret::day(0));
    assert_ne!(PairSecret::day(86_400), PairSecret::day(86_399));
}

#[test]
fn a_key_of_low_order_agrees_with_nobody() {
    let own = key("a", 1);
    let signing = SigningKey::from_seed(&[2; 32]);
    let keys =
        IdentityKeys { ed25519: Base64Bytes(signing.public().ed25519()), x25519: Base64Bytes([0; 32]) };
    let signature = signature(&signing, &PublicIdentity::statement(&id("b"), &keys));
    let peer = PublicIdentity { id: id("b"), keys, signature };
    assert!(PairSecret::new(&own, &peer).is_none());
    assert!(!peer.can_agree() && own.public().can_agree());
}

#[test]
fn a_history_leads_from_each_of_its_keys_to_the_last_one_and_is_bounded() {
    let keys: Vec<_> = (0..40).map(|seed| key("registry", seed)).collect();
    let changes: Vec<_> = keys.windows(2).map(|pair| KeyChange::new(&pair[0], pair[1].public())).collect();
    let history = changes.iter().cloned().fold(KeyHistory::default(), KeyHistory::with);
    let (last, lost) = (keys[39].public(), keys.len() - 1 - 32);
    assert!(history.last().unwrap().is_same(last));
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(history.leads(key.public(), last), at >= lost, "{at}");
    }
    assert!(!history.leads(last, keys[38].public()), "not back");
    let mut removed: Vec<_> = changes[8..].to_vec();
    removed.remove(3);
    let gap = KeyHistory::try_from(removed).unwrap();
    assert!(!gap.leads(keys[8].public(), last) && gap.leads(keys[12].public(), last));
    let read: KeyHistory = serde_json::from_value(json!(history)).unwrap();
    assert_eq!(read, history);
    assert!(serde_json::from_value::<KeyHistory>(json!(changes)).is_err(), "39 changes");
}

#[test]
fn a_certificate_is_the_registrys_and_a_change_the_old_keys() {
    let (registry, thief, old, new) = (key("registry", 1), key("registry", 2), key("a", 3), key("a", 4));
    let certificate = KeyCertificate::new(&registry, old.public(), 1);
    assert_eq!(certificate.verify(registry.public()).unwrap(), old.public().as_ref());
    assert!(certificate.verify(thief.public()).is_err());
    let change = KeyChange::new(&old, new.public());
    assert_eq!(change.verify(old.public()).unwrap(), new.public().as_ref());
    assert!(change.verify(new.public()).is_err(), "not of the key that it names");
    assert!(KeyChange::new(&new, new.public()).verify(old.public()).is_err(), "signed by itself");
    assert!(KeyChange::new(&old, key("b", 4).public()).verify(old.public()).is_err(), "of another id");
}

/// Every text in `json`, by pointer.
fn texts(json: &Value, at: &str, found: &mut Vec<String>) {
    match json {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| texts(member, &format!("{at}/{name}"), found))
        }
        Value::String(_) | Value::Number(_) => found.push(at.to_owned()),
        Value::Null | Value::Bool(_) | Value::Array(_) => {}
    }
}

/// `text` with another character at `at`.
fn altered(text: &str, at: usize) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    let at = at % characters.len();
    characters[at] = if characters[at] == 'A' { 'B' } else { 'A' };
    characters.into_iter().collect()
}

proptest! {
    #[test]
    fn statements_are_read_as_they_are_written(seed in any::<[u8; 32]>(), name in "[A-Za-z0-9][A-Za-z0-9._-]{0,63}", number: u64) {
        let key = IdentityKey::new(id(&name), Arc::new(SigningKey::from_seed(&seed)));
        let registry = super::tests::key("registry", 9);
        let identity = json!(key.public().as_ref());
        prop_assert_eq!(&serde_json::from_value::<PublicIdentity>(identity).unwrap(), key.public().as_ref());
        let certificate = KeyCertificate::new(&registry, key.public(), number);
        let read: KeyCertificate = serde_json::from_value(json!(certificate)).unwrap();
        prop_assert!(read.verify(registry.public()).is_ok());
        prop_assert_eq!(read, certificate);
    }

    #[test]
    fn a_statement_that_was_altered_anywhere_proves_nothing(member: usize, at: usize) {
        let (registry, old, new) = (key("registry", 1), key("agent-a", 2), key("agent-a", 3));
        let certificate = json!(KeyCertificate::new(&registry, old.public(), 123_456));
        let change = json!(KeyChange::new(&old, new.public()));
        for statement in [certificate, change] {
            let mut pointers = Vec::new();
            texts(&statement, "", &mut pointers);
            let pointer = &pointers[member % pointers.len()];
            let mut forged = statement.clone();
            let value = forged.pointer_mut(pointer).unwrap();
            let number = value.as_u64().map(|number| json!(number + 1 + at as u64 % 1_000));
            *value = number.unwrap_or_else(|| json!(altered(value.as_str().unwrap(), at)));
            let certificate = serde_json::from_value::<KeyCertificate>(forged.clone());
            prop_assert!(certificate.map_or(true, |read| read.verify(registry.public()).is_err()), "{}", pointer);
            let change = serde_json::from_value::<KeyChange>(forged);
            prop_assert!(change.map_or(true, |read| read.verify(old.public()).is_err()), "{}", pointer);
        }
    }

    #[test]
    fn garbage_is_no_statement(text in ".{0,200}") {
        prop_assert!(serde_json::from_str::<PublicIdentity>(&text).is_err());
        let garbage = json!({ "id": "a", "ed25519": text, "x25519": text, "signature": text });
        prop_assert!(serde_json::from_value::<PublicIdentity>(garbage).is_err());
    }
}
