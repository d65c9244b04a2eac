//! A message as bytes: in one piece, or, if it is too large for that, with its payload ahead of it by reference.

use bytes::Bytes;
use protocol::{
    envelope::Envelope,
    limits::Limits,
    problem::{Problem, Reason},
};

/// What is handed over for one message. Made of the message alone, so that a repeat after a crash is the same to the byte.
pub(super) struct LargeMessage {
    /// What is posted.
    pub(super) body: Bytes,
    /// The payload, if it must lie at the recipient before.
    pub(super) payload: Option<Bytes>,
}

impl LargeMessage {
    /// The message in one piece where that may be; the problem names the limit that it exceeds. What never leaves the
    /// process may be as large as an artifact.
    pub(super) fn of(envelope: &Envelope, limits: &Limits, is_local: bool) -> Result<Self, Problem> {
        let unwritten =
            |error| Problem::new(Reason::Internal, format!("the message can't be written: {error}"));
        let most = limits.max_body_bytes.max(limits.max_artifact_bytes);
        let too_large = |bytes: usize| {
            let why = format!("the message has {bytes} bytes, the limit is {most}");
            Err(Problem::new(Reason::PayloadTooLarge, why).with("limit", most))
        };
        let body = serde_json::to_vec(&envelope.to_json()).map_err(unwritten)?;
        if body.len() <= limits.max_body_bytes || is_local && body.len() <= most {
            return Ok(Self { body: body.into(), payload: None });
        }
        if is_local || body.len() > most {
            return too_large(body.len());
        }
        drop(body);
        let (body, payload) = envelope.by_reference().map_err(unwritten)?;
        if body.len() > limits.max_body_bytes {
            return too_large(body.len() + payload.len());
        }
        Ok(Self { body: body.into(), payload: Some(payload.into()) })
    }

    /// Whether the recipient says that the payload does not lie there (any more).
    pub(super) fn is_missing(&self, problem: &Problem) -> bool {
        self.payload.is_some() && problem.reason == Reason::ArtifactNotFound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ids::{Digest, MessageId};
    use serde_json::json;

    fn message(bytes: usize) -> Envelope {
        let body = json!({ "messageId": "m-1", "fromAgentId": "a", "toAgentId": "b", "type": "help-response",
            "payload": { "answer": "x".repeat(bytes) } });
        Envelope::from_json(body, || MessageId::parse("m").unwrap()).unwrap()
    }

    #[test]
    fn a_message_goes_in_one_piece_or_by_reference_or_not_at_all() {
        let limits = Limits { max_body_bytes: 1_000, max_artifact_bytes: 5_000, ..Limits::default() };
        let parcel = |bytes, is_local| LargeMessage::of(&message(bytes), &limits, is_local);
        for (bytes, is_local, is_ahead) in [
            (500, false, Some(false)),
            (500, true, Some(false)),
            (3_000, false, Some(true)),
            (3_000, true, Some(false)),
            (6_000, false, None),
            (6_000, true, None),
        ] {
            let seen = parcel(bytes, is_local).map(|parcel| parcel.payload.is_some());
            assert_eq!(seen.as_ref().ok(), is_ahead.as_ref(), "{bytes} {is_local}");
            if let Err(problem) = seen {
                assert!(problem.message.contains("5000"), "{problem}");
            }
        }
        let (first, again) = (parcel(3_000, false).unwrap(), parcel(3_000, false).unwrap());
        assert_eq!(first.body, again.body, "a repeat is the same to the byte");
        let body: serde_json::Value = serde_json::from_slice(&first.body).unwrap();
        assert_eq!(body["payloadRef"], json!(Digest::of(&first.payload.unwrap())));
        assert!(body.get("payload").is_none());
    }
}
