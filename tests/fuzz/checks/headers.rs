//! Headers, paths, queries and short fields never cause a panic, and no signature is accepted without the secret.

use protocol::{
    a2a::route,
    bid::Eta,
    ids::{Digest, EffectId},
    problem::{Problem, Reason},
    signal::Cursor,
    signature::{PresentedSignature, Secret, SignedParts, verify_request},
    time::WallTime,
    trace::TraceContext,
};

/// Panics if that does not hold.
pub(crate) fn check((one, two, three): (&str, &str, &str)) {
    if let Some(context) = TraceContext::parse(one) {
        assert_eq!(
            TraceContext::parse(&context.to_string()).map(|again| again.trace()),
            Some(context.trace())
        );
    }
    let _ = (Eta::parse(one), EffectId::parse(one), route::find(one, two), route::query(three));
    if let Some(cursor) = Cursor::parse(one) {
        assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
    }
    if let Ok(time) = WallTime::parse(one) {
        assert_eq!(WallTime::parse(&time.to_string()), Ok(time));
    }
    let secret = Secret::new(&[7; 32]).expect("long enough");
    let parts = SignedParts {
        method: "POST",
        path_and_query: "/a2a/messages",
        recipient: "builder-01",
        message_id: Some("m-1"),
        digest: Digest::of(b"{}"),
    };
    let presented =
        PresentedSignature { content_digest: Some(one), signature_input: Some(two), signature: Some(three) };
    let verdict = verify_request(&parts, &presented, 1_000, |claim| match claim.is_signed_by(&secret) {
        true => Ok(()),
        false => Err(Problem::new(Reason::Unauthenticated, "forged")),
    });
    assert!(verdict.is_err(), "a forged signature was accepted");
}
