use super::*;
use crate::ids::Digest;
use proptest::prelude::*;

const NOW: u64 = 1_780_000_000;

fn secret(byte: u8) -> Secret {
    Secret::new(&[byte; 32]).unwrap()
}

fn signed(parts: &SignedParts<'_>) -> crate::signature::SignatureHeaders {
    secret(1).sign_request(&AgentId::parse("planner-01").unwrap(), parts, NOW, None)
}

/// Accepts what was signed under `secret`.
fn under(secret: Secret) -> impl Fn(&SignatureClaim) -> Result<(), Problem> {
    move |claim| match claim.is_signed_by(&secret) {
        true => Ok(()),
        false => Err(unauthenticated("the signature is not right")),
    }
}

fn parts(path_and_query: &str) -> SignedParts<'_> {
    SignedParts {
        method: "POST",
        path_and_query,
        recipient: "builder-01",
        message_id: Some("planner-01:c1:1:0"),
        digest: Digest::of(b"{}"),
    }
}

fn verify(
    parts: &SignedParts<'_>,
    headers: &crate::signature::SignatureHeaders,
    now: u64,
) -> Result<AgentId, Reason> {
    let presented = PresentedSignature {
        content_digest: Some(&headers.content_digest),
        signature_input: Some(&headers.signature_input),
        signature: Some(&headers.signature),
    };
    verify_request(parts, &presented, now, under(secret(1)))
        .map(|claim| claim.agent().clone())
        .map_err(|problem| problem.reason)
}

#[test]
fn what_was_signed_is_proven() {
    for path in ["/a2a/messages", "/registry/agents?any=rest&x=%20", "/"] {
        let parts = parts(path);
        assert_eq!(verify(&parts, &signed(&parts), NOW).unwrap().as_str(), "planner-01");
    }
}

/// RELIABILITY M05.
#[test]
fn a_captured_request_is_worth_nothing_elsewhere() {
    let sent = parts("/a2a/messages?a=1");
    let headers = signed(&sent);
    for other in [
        SignedParts { method: "PUT", ..sent },
        SignedParts { path_and_query: "/a2a/messages", ..sent },
        SignedParts { path_and_query: "/a2a/messages?a=2", ..sent },
        SignedParts { path_and_query: "/a2a/tasks?a=1", ..sent },
        SignedParts { recipient: "builder-02", ..sent },
        SignedParts { message_id: Some("planner-01:c1:1:1"), ..sent },
        SignedParts { message_id: None, ..sent },
        SignedParts { digest: Digest::of(b"{ }"), ..sent },
    ] {
        assert_eq!(verify(&other, &headers, NOW), Err(Reason::Unauthenticated), "{other:?}");
    }
}

#[test]
fn a_signature_counts_for_five_minutes_either_way() {
    let parts = parts("/a2a/messages");
    let headers = signed(&parts);
    for (now, verdict) in
        [(NOW + 300, true), (NOW - 300, true), (NOW + 301, false), (NOW - 301, false), (0, false)]
    {
        let expected = if verdict { Ok(()) } else { Err(Reason::StaleSignature) };
        assert_eq!(verify(&parts, &headers, now).map(|_| ()), expected, "{now}");
    }
}

/// Signs `params` for `parts` as anyone who has the secret could.
fn foreign(
    parts: &SignedParts<'_>,
    components: &[&str],
    params: &str,
    label: &str,
) -> crate::signature::SignatureHeaders {
    let digest = content_digest(&parts.digest);
    let mut base = SignatureBase::default();
    for name in components {
        let value = if *name == CONTENT_DIGEST { Some(digest.as_str()) } else { parts.component(name) };
        base.line(name, value.unwrap_or("?"));
    }
    let list: Vec<_> = components.iter().map(|name| format!("\"{name}\"")).collect();
    let params = format!("({}){params}", list.join(" "));
    let signature = format!("{label}=:{}:", secret(1).sign(&base.end(&params)));
    crate::signature::SignatureHeaders {
        content_digest: digest,
        signature_input: format!("{label}={params}"),
        signature,
    }
}

const ALL: [&str; 6] = ["content-digest", "mesh-message-id", "mesh-recipient", "@query", "@path", "@method"];

#[test]
fn other_orders_labels_and_parameters_of_the_standard_are_taken() {
    let parts = parts("/a2a/messages");
    for params in [
        r#";keyid="a";created=1780000000;alg="hmac-sha256";nonce="n""#,
        r#";created=1780000000;keyid="a""#,
        r#";created=1780000000;keyid="a";expires=1780000001;tag="mesh""#,
    ] {
        let mut headers = foreign(&parts, &ALL, params, "sig1");
        assert!(verify(&parts, &headers, NOW).is_ok(), "{params}");
        headers.signature_input = format!("proxy=(\"@method\");keyid=\"p\", {}", headers.signature_input);
        headers.signature = format!("{}, proxy=:AAAA:", headers.signature);
        assert!(verify(&parts, &headers, NOW).is_ok(), "beside another: {params}");
    }
}

#[test]
fn a_right_tag_over_too_little_or_the_wrong_thing_is_refused() {
    let parts = parts("/a2a/messages");
    let good = r#";created=1780000000;keyid="a";alg="hmac-sha256""#;
    for left_out in 0..ALL.len() {
        let components: Vec<_> =
            ALL.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, n)| *n).collect();
        assert_eq!(
            verify(&parts, &foreign(&parts, &components, good, "s"), NOW),
            Err(Reason::Unauthenticated)
        );
    }
    let twice = [&ALL[..], &["@path"]].concat();
    let unknown = [&ALL[..], &["@authority"]].concat();
    for components in [twice, unknown] {
        assert_eq!(
            verify(&parts, &foreign(&parts, &components, good, "s"), NOW),
            Err(Reason::Unauthenticated)
        );
    }
    for params in [
        r#";created=1780000000;keyid="a";alg="none""#,
        r#";created=1780000000;keyid="a";alg="ed25519""#,
        r#";created=1780000000;keyid="a";alg=1"#,
        r#";created=1780000000;keyid="../a""#,
        r#";created=1780000000"#,
        r#";created="1780000000";keyid="a""#,
        r#";created=-5;keyid="a""#,
        r#";keyid="a""#,
        r#";created=1780000000;keyid="a";expires="soon""#,
    ] {
        assert_eq!(
            verify(&parts, &foreign(&parts, &ALL, params, "s"), NOW),
            Err(Reason::Unauthenticated),
            "{params}"
        );
    }
    let expired = r#";created=1780000000;keyid="a";expires=1779999999"#;
    assert_eq!(verify(&parts, &foreign(&parts, &ALL, expired, "s"), NOW), Err(Reason::StaleSignature));
}

proptest! {
    #[test]
    fn garbage_is_refused_without_panic(digest in ".{0,60}", input in ".{0,200}", signature in ".{0,80}") {
        let presented = PresentedSignature {
            content_digest: Some(&digest), signature_input: Some(&input), signature: Some(&signature),
        };
        prop_assert!(verify_request(&parts("/x"), &presented, NOW, under(secret(1))).is_err());
    }
}

/// `cargo test -p protocol --release -- --ignored --nocapture costs`
#[test]
#[ignore = "prints a measure"]
fn what_a_signature_costs() {
    let body = vec![b'x'; 300];
    let rounds = 100_000;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        let sent = SignedParts { digest: Digest::of(&body), ..parts("/a2a/messages") };
        let headers = signed(&sent);
        let heard = SignedParts { digest: Digest::of(&body), ..sent };
        assert!(verify(&heard, &headers, NOW).is_ok());
    }
    println!("sign + verify: {:?}", start.elapsed() / rounds);
}
