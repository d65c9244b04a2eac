//! An accepted peer message can be written and read back as the same message.

use protocol::{
    envelope::Envelope,
    ids::MessageId,
    json::{MAX_DEPTH, parse},
};

/// Panics if that does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let minted = || MessageId::parse("minted").expect("an id");
    let read = parse(bytes, MAX_DEPTH).and_then(|body| Envelope::from_json(body, minted));
    let Ok(envelope) = read else { return };
    let written = serde_json::to_vec(&envelope.to_json()).expect("it can be written");
    let body = parse(&written, 2 * MAX_DEPTH).expect("written JSON is valid");
    let again = Envelope::from_json(body, minted).expect("a written message is accepted");
    assert_eq!(again, envelope);
}
