//! Deliveries to triggers. The names of tests say what users of webhooks have reported.

use super::*;
use actix_web::http::header::{HeaderName, HeaderValue};
use protocol::message::Payload;
use ring::hmac::{HMAC_SHA256, Key, sign};

const SECRET: &str = "a-secret-of-the-sender";
const NOW: WallTime = WallTime(1_800_000_000_000);

fn trigger(members: Value) -> Trigger {
    let mut all = json!({ "auth": "github", "secret": SECRET, "task": "look" });
    all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    serde_json::from_value::<TriggerFile>(all).unwrap().ready().unwrap()
}

fn fault(members: Value) -> (String, String) {
    let mut all = json!({ "auth": "github", "secret": SECRET, "task": "look" });
    all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    serde_json::from_value::<TriggerFile>(all).unwrap().ready().unwrap_err()
}

fn hex(secret: &str, content: &str) -> String {
    let tag = sign(&Key::new(HMAC_SHA256, secret.as_bytes()), content.as_bytes());
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&str, &str)| {
        (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    all.iter().map(header).collect()
}

fn deliver(trigger: &Trigger, given: &[(&str, &str)], body: &str) -> Result<Delivered, Problem> {
    let me = AgentId::parse("a").unwrap();
    trigger.deliver((&me, "hook"), (&headers(given), body.as_bytes(), 32), NOW)
}

/// A delivery as GitHub signs it.
fn by_github(trigger: &Trigger, more: &[(&str, &str)], body: &str) -> Result<Delivered, Problem> {
    let signature = format!("sha256={}", hex(SECRET, body));
    let all: Vec<_> =
        [("x-hub-signature-256", signature.as_str())].into_iter().chain(more.iter().copied()).collect();
    deliver(trigger, &all, body)
}

fn begun(delivered: Result<Delivered, Problem>) -> (TaskId, IncomingMessage) {
    match delivered.unwrap() {
        Delivered::Begins { request, task, .. } => (task, *request),
        Delivered::Ignored(why) => panic!("{why}"),
    }
}

fn terms(message: &IncomingMessage) -> TaskTerms {
    let Payload::TaskRequest(request) = &message.envelope.payload else { panic!("{message:?}") };
    request.terms.clone()
}

#[test]
fn the_example_of_github_is_taken_byte_by_byte() {
    let secret = "It's a Secret to Everybody";
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let hook = trigger(json!({ "secret": secret }));
    let given = headers(&[("x-hub-signature-256", signature)]);
    assert_eq!(proof::check(&hook, &given, b"Hello, World!", NOW), Ok(()));
    for body in ["Hello, World! ", "Hello,World!", ""] {
        let refused = proof::check(&hook, &given, body.as_bytes(), NOW).unwrap_err();
        assert_eq!(refused.reason, Reason::Unauthenticated, "{body}");
    }
}

#[test]
fn a_body_with_other_whitespace_is_another_body() {
    let (sent, parsed) = ("{\"key\":  1.0}", "{\"key\":1.0}");
    assert!(by_github(&trigger(json!({})), &[], sent).is_ok());
    let signature = format!("sha256={}", hex(SECRET, parsed));
    assert!(deliver(&trigger(json!({})), &[("x-hub-signature-256", &signature)], sent).is_err());
}

#[test]
fn a_delivery_without_a_proof_is_refused_with_the_header_that_it_lacks() {
    for (auth, given, part) in [
        ("github", vec![], "X-Hub-Signature-256 is missing"),
        ("github", vec![("x-hub-signature", "sha1=00")], "X-Hub-Signature-256 is missing"),
        ("github", vec![("x-hub-signature-256", "00")], "sha256="),
        ("github", vec![("x-hub-signature-256", "sha256=zz")], "sha256="),
        ("stripe", vec![], "Stripe-Signature is missing"),
        ("stripe", vec![("stripe-signature", "v1=00")], "t="),
        ("stripe", vec![("stripe-signature", "t=1,t=2,v1=00")], "t="),
        ("stripe", vec![("stripe-signature", "t=1800000000")], "signature"),
        ("bearer", vec![], "Authorization is missing"),
        ("bearer", vec![("authorization", "Bearer another-secret-0001")], "Bearer"),
        ("bearer", vec![("authorization", SECRET)], "Bearer"),
    ] {
        let refused = deliver(&trigger(json!({ "auth": auth })), &given, "{}").unwrap_err();
        assert_eq!(refused.reason, Reason::Unauthenticated);
        assert!(refused.message.contains(part), "{auth} {given:?}: {}", refused.message);
        assert!(!refused.message.contains(SECRET));
    }
}

fn by_stripe(trigger: &Trigger, seconds: i64, secrets: &[&str], body: &str) -> Result<Delivered, Problem> {
    let signatures =
        secrets.iter().map(|secret| format!(",v1={}", hex(secret, &format!("{seconds}.{body}"))));
    let header = format!("t={seconds}{},v0=00", signatures.collect::<String>());
    deliver(trigger, &[("stripe-signature", &header)], body)
}

#[test]
fn stripe_signs_the_time_and_an_old_or_future_one_is_refused() {
    let hook = trigger(json!({ "auth": "stripe", "replayWindow": "5m" }));
    let (now, body) = (NOW.0 / 1_000, r#"{"id":"evt_1"}"#);
    for age in [0, 300, -300] {
        assert!(by_stripe(&hook, now - age, &[SECRET], body).is_ok(), "{age}");
    }
    for age in [301, -301, i64::MAX / 2_000] {
        let refused = by_stripe(&hook, now - age, &[SECRET], body).unwrap_err();
        assert_eq!(refused.reason, Reason::StaleSignature, "{age}");
    }
    // The time is signed: it can't be changed.
    let old = hex(SECRET, &format!("{}.{body}", now - 1_000));
    let header = format!("t={now},v1={old}");
    assert!(deliver(&hook, &[("stripe-signature", &header)], body).is_err());
    let rolled = by_stripe(&hook, now, &["another-secret-0001", SECRET], body);
    assert!(rolled.is_ok(), "while Stripe rolls a secret it signs with both");
}

#[test]
fn the_secret_before_is_taken_while_it_is_replaced() {
    let hook = trigger(json!({ "secret": "the-new-secret-00001", "previousSecret": SECRET }));
    assert!(by_github(&hook, &[], "{}").is_ok());
    assert!(by_github(&trigger(json!({ "secret": "the-new-secret-00001" })), &[], "{}").is_err());
}

#[test]
fn a_delivery_that_comes_again_is_the_same_task_and_github_s_unsigned_id_does_not_make_another() {
    let hook = trigger(json!({}));
    let id = |delivery: &str, body: &str| begun(by_github(&hook, &[("x-github-delivery", delivery)], body)).0;
    assert_eq!(id("d-1", "{\"n\":1}"), id("d-2", "{\"n\":1}"), "captured, and sent again under another id");
    assert_ne!(id("d-1", "{\"n\":1}"), id("d-1", "{\"n\":2}"));
    let by_header = trigger(json!({ "deliveryId": "{{ headers.x-github-delivery }}" }));
    let id = |delivery: &str| begun(by_github(&by_header, &[("x-github-delivery", delivery)], "{}")).0;
    assert_eq!(id("d-1"), id("d-1"));
    assert_ne!(id("d-1"), id("d-2"));
    let stripe = trigger(json!({ "auth": "stripe" }));
    let id = |seconds, body| begun(by_stripe(&stripe, NOW.0 / 1_000 - seconds, &[SECRET], body)).0;
    assert_eq!(id(0, r#"{"id":"evt_1"}"#), id(60, r#"{"id":"evt_1"}"#), "Stripe signs a retry anew");
    let bearer = trigger(json!({ "auth": "bearer" }));
    let authorization = format!("Bearer {SECRET}");
    let by_key = |key| deliver(&bearer, &[("authorization", &authorization), ("idempotency-key", key)], "{}");
    assert_eq!(begun(by_key("k-1")).0, begun(by_key("k-1")).0);
    let refused = deliver(&bearer, &[("authorization", &authorization)], "{}").unwrap_err();
    assert!(
        refused.reason == Reason::InvalidField && refused.message.contains("Idempotency-Key"),
        "{refused}"
    );
}

#[test]
fn templates_are_filled_from_body_and_headers_and_see_no_credential() {
    let hook = trigger(json!({
        "task": "Issue {{ body.issue.number }}: {{body.issue.title}} ({{ body.labels.1.name }})",
        "input": { "event": "{{ headers.x-github-event }}", "labels": "{{ body.labels }}", "n": 1, "text": "#{{ body.issue.number }}" },
        "capability": "triage",
    }));
    let body = r#"{"issue":{"number":7,"title":"{{ body.secret }}"},"labels":[{"name":"a"},{"name":"b"}]}"#;
    let (_, message) = begun(by_github(&hook, &[("x-github-event", "issues")], body));
    let terms = terms(&message);
    assert_eq!(terms.description, "Issue 7: {{ body.secret }} (b)", "what is inserted is no template");
    let expected =
        json!({ "event": "issues", "labels": [{ "name": "a" }, { "name": "b" }], "n": 1, "text": "#7" });
    assert_eq!((terms.input, terms.capability.unwrap().as_str()), (Some(expected), "triage"));
    let lacking = by_github(&hook, &[("x-github-event", "issues")], r#"{"issue":{"number":7},"labels":[]}"#)
        .unwrap_err();
    assert!(
        lacking.reason == Reason::InvalidField && lacking.message.contains("body.issue.title"),
        "{lacking}"
    );
    let of_header = trigger(json!({ "task": "{{ headers.x-hub-signature-256 }}" }));
    assert!(by_github(&of_header, &[], "{}").is_err());
}

#[test]
fn the_input_is_the_body_if_the_trigger_does_not_say() {
    let (_, message) = begun(by_github(&trigger(json!({})), &[], r#"{"a":[1]}"#));
    assert_eq!(terms(&message).input, Some(json!({ "a": [1] })));
}

#[test]
fn a_delivery_that_does_not_fit_is_ignored_with_the_reason() {
    let hook = trigger(json!({ "when": {
        "headers.x-github-event": "issues", "body.action": ["opened", "reopened"], "body.number": 7,
    } }));
    let sent = |event, body| by_github(&hook, &[("x-github-event", event)], body);
    assert!(matches!(sent("issues", r#"{"action":"opened","number":7}"#).unwrap(), Delivered::Begins { .. }));
    for (event, body, part) in [
        ("ping", r#"{"action":"opened","number":7}"#, "headers.x-github-event is \"ping\""),
        ("issues", r#"{"action":"closed","number":7}"#, "closed"),
        ("issues", r#"{"number":7}"#, "body.action is null"),
    ] {
        let Delivered::Ignored(why) = sent(event, body).unwrap() else { panic!("{event} {body}") };
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn a_task_has_the_rights_of_the_user_that_is_named_else_of_nobody_proven() {
    for (act_as, principal, proof) in [
        (json!("alice"), "user:alice", SenderProof::Credential),
        (json!("local"), "user:local", SenderProof::Credential),
        (Value::Null, "user:local", SenderProof::Address),
    ] {
        let (_, message) = begun(by_github(&trigger(json!({ "actAs": act_as })), &[], "{}"));
        assert_eq!((message.by.to_string().as_str(), message.proof), (principal, proof));
        let Some(TaskOrigin::Trigger { name, delivery }) = message.origin.as_deref() else { panic!() };
        assert!(name == "hook" && delivery.starts_with("sha256:"), "{name} {delivery}");
    }
}

#[test]
fn a_trigger_that_makes_no_sense_is_refused_with_its_key() {
    for (members, key, part) in [
        (json!({ "secret": "short" }), "secret", "16"),
        (json!({ "previousSecret": "short" }), "previousSecret", "16"),
        (json!({ "replayWindow": "5m" }), "replayWindow", "stripe"),
        (json!({ "task": "{{ issue.title }}" }), "task", "body.issue.title"),
        (json!({ "task": "{{ body.a" }), "task", "}}"),
        (json!({ "task": "" }), "task", "empty"),
        (json!({ "input": [{ "a": "{{ }}" }] }), "input", "body."),
        (json!({ "deliveryId": "{{ id }}" }), "deliveryId", "body."),
        (json!({ "when": { "action": "x" } }), "when.action", "body."),
        (json!({ "when": { "body.action": {} } }), "when.body.action", "value"),
    ] {
        let (at, what) = fault(members.clone());
        assert!(at == key && what.contains(part), "{members}: {at}: {what}");
    }
}

#[test]
fn malformed_bodies_are_refused_after_their_signature_is_checked() {
    let hook = trigger(json!({}));
    for body in ["", "payload=%7B%7D", "{\"a\":1,\"a\":2}", "{} x"] {
        let refused = by_github(&hook, &[], body).unwrap_err();
        assert_eq!(refused.reason, Reason::MalformedJson, "{body}");
    }
    assert_eq!(deliver(&hook, &[], "x").unwrap_err().reason, Reason::Unauthenticated);
}
