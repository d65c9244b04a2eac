use super::*;
use proptest::prelude::*;

fn card() -> Value {
    json!({
        "name": "Weather", "description": "", "version": "1.2.0",
        "supportedInterfaces": [{ "url": "https://w.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "" }],
        "capabilities": { "streaming": false, "extensions": [{ "uri": "urn:x", "required": false, "params": { "n": 0 } }] },
        "securitySchemes": { "key": { "apiKeySecurityScheme": { "location": "header", "name": "x-key", "description": "" } } },
        "securityRequirements": [{ "schemes": { "key": { "list": [] } } }],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": [],
        "skills": [{ "id": "f", "name": "F", "description": "d", "tags": [], "examples": [] }],
        "iconUrl": "", "provider": null,
    })
}

fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32])
}

fn signed(card: &Value) -> Value {
    let mut signed = card.clone();
    signed["signatures"] = json!([sign(card, &key(), Some("https://w.example/.well-known/jwks.json"))]);
    signed
}

#[test]
fn what_absence_would_say_as_well_is_not_signed_and_what_is_required_or_optional_is() {
    assert_eq!(
        without_defaults(card()),
        json!({
            "name": "Weather", "description": "", "version": "1.2.0",
            "supportedInterfaces": [{ "url": "https://w.example/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
            "capabilities": { "streaming": false, "extensions": [{ "uri": "urn:x", "params": { "n": 0 } }] },
            "securitySchemes": { "key": { "apiKeySecurityScheme": { "location": "header", "name": "x-key" } } },
            "securityRequirements": [{ "schemes": { "key": {} } }],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": [],
            "skills": [{ "id": "f", "name": "F", "description": "d", "tags": [] }],
            "iconUrl": "",
        })
    );
}

#[test]
fn a_signed_card_holds_however_its_members_stand_and_breaks_with_any_change() {
    let keys = [key().public().clone()];
    let mut card = signed(&card());
    assert_eq!(verify(&card, &keys), Ok(key().public().kid().to_owned()));
    // A proxy that leaves out defaults changes nothing.
    card["supportedInterfaces"][0].as_object_mut().unwrap().remove("tenant");
    assert!(verify(&card, &keys).is_ok());

    card["name"] = json!("Weather!");
    assert_eq!(verify(&card, &keys), Err(vec![CardSignatureError::Forged(key().public().kid().to_owned())]));
}

#[test]
fn every_doubt_has_its_name() {
    let keys = [key().public().clone()];
    assert_eq!(verify(&card(), &keys), Err(vec![CardSignatureError::Unsigned]));
    let stranger = SigningKey::from_seed(&[8; 32]);
    let doubts = verify(&signed(&card()), &[stranger.public().clone()]).unwrap_err();
    assert!(matches!(doubts[..], [CardSignatureError::UnknownKey(_)]), "{doubts:?}");
    let with = |header: Value| {
        let mut card = signed(&card());
        card["signatures"][0]["protected"] = json!(URL_SAFE_NO_PAD.encode(header.to_string()));
        verify(&card, &keys).unwrap_err().remove(0).to_string()
    };
    let kid = key().public().kid().to_owned();
    for (header, part) in [
        (json!({ "alg": "none", "kid": kid }), "\"none\" is not taken"),
        (json!({ "alg": "HS256", "kid": kid }), "\"HS256\" is not taken"),
        (json!({ "alg": "ES256", "kid": kid }), "did not sign"),
        (json!({ "alg": "EdDSA" }), "no kid"),
        (json!({ "alg": "EdDSA", "kid": kid, "crit": ["exp"] }), "critical"),
        (json!(1), "no JSON object"),
    ] {
        let doubt = with(header.clone());
        assert!(doubt.contains(part), "{header}: {doubt}");
    }
    for broken in [json!({}), json!({ "protected": "!", "signature": "AA" }), json!(null)] {
        let mut card = card();
        card["signatures"] = json!([broken]);
        assert!(matches!(verify(&card, &keys).unwrap_err()[..], [CardSignatureError::Malformed(_)]));
    }
    // One that holds is enough, whatever stands beside it.
    let mut rotated = signed(&card());
    let good = rotated["signatures"][0].clone();
    rotated["signatures"] = json!([sign(&card(), &stranger, None), {}, good]);
    assert!(verify(&rotated, &keys).is_ok());
}

#[test]
fn keys_and_signatures_are_those_of_rfc_8037() {
    // Appendix A.1 to A.4.
    let seed = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap();
    let key = SigningKey::from_seed(&seed.try_into().unwrap());
    let jwk = key.public().to_jwk();
    assert_eq!(jwk["x"], "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    assert_eq!(jwk["kid"], "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    let message = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    assert_eq!(URL_SAFE_NO_PAD.encode(key.sign(message)), signature);
    assert_eq!(PublicKey::from_jwk(&jwk).as_ref(), Some(key.public()));
    assert_eq!(PublicKey::from_jwks(&json!({ "keys": [jwk, { "kty": "RSA" }, 1] })).len(), 1);
}

#[test]
fn an_es256_signature_is_checked_as_in_rfc_7515() {
    // Appendix A.3.
    let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": "es",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" });
    let key = PublicKey::from_jwk(&jwk).unwrap();
    let message = b"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
    let signature = URL_SAFE_NO_PAD
        .decode("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q")
        .unwrap();
    assert!(key.verifies("ES256", message, &signature));
    assert!(!key.verifies("EdDSA", message, &signature));
    assert!(!key.verifies("ES256", &message[1..], &signature));
}

proptest! {
    #[test]
    fn no_flipped_bit_gets_through(at in 0usize..64, bit in 0u8..8) {
        let mut card = signed(&card());
        let mut signature = decode(card["signatures"][0]["signature"].as_str().unwrap()).unwrap();
        signature[at] ^= 1 << bit;
        card["signatures"][0]["signature"] = json!(URL_SAFE_NO_PAD.encode(signature));
        prop_assert!(verify(&card, &[key().public().clone()]).is_err());
    }
}
