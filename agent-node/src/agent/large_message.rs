//! Serialises a message: in one piece, or with its payload by reference if it is too large for one request.

use crate::artifacts::named_by;
use bytes::Bytes;
use protocol::{
    envelope::Envelope,
    ids::Digest,
    limits::Limits,
    problem::{Problem, Reason},
};

/// A serialised message. It depends on the message only, so that a repeat after a crash has the same bytes.
pub(super) struct LargeMessage {
    pub(super) body: Bytes,
    /// The payload, if the recipient must have it before.
    pub(super) payload: Option<Bytes>,
    /// The files that it names, which the recipient must have before.
    pub(super) files: Vec<Digest>,
}

impl LargeMessage {
    /// Serialises a message. A message within the process may be as large as an artifact in one piece. The problem names the
    /// limit that the message exceeds.
    pub(super) fn of(envelope: &Envelope, limits: &Limits, is_local: bool) -> Result<Self, Problem> {
        let not_serializable =
            |error| Problem::new(Reason::Internal, format!("the message can't be written: {error}"));
        let max = limits.max_body_bytes.max(limits.max_artifact_bytes);
        let too_large = |bytes: usize| {
            let why = format!("the message has {bytes} bytes, the limit is {max}");
            Err(Problem::new(Reason::PayloadTooLarge, why).with("limit", max))
        };
        let json = envelope.to_json();
        let body = serde_json::to_vec(&json).map_err(not_serializable)?;
        let files = named_by(&json);
        if body.len() <= limits.max_body_bytes || is_local && body.len() <= max {
            return Ok(Self { body: body.into(), payload: None, files });
        }
        if is_local || body.len() > max {
            return too_large(body.len());
        }
        drop(body);
        let (body, payload) = envelope.by_reference().map_err(not_serializable)?;
        if body.len() > limits.max_body_bytes {
            return too_large(body.len() + payload.len());
        }
        Ok(Self { body: body.into(), payload: Some(payload.into()), files })
    }

    /// Whether the recipient reports that it does not have the payload, or a file.
    pub(super) fn is_missing(&self, problem: &Problem) -> bool {
        self.is_alone() && problem.reason == Reason::ArtifactNotFound
    }

    /// Whether it shares a request with no other.
    pub(super) fn is_alone(&self) -> bool {
        self.payload.is_some() || !self.files.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::ids::MessageId;
    use serde_json::json;

    fn message(bytes: usize) -> Envelope {
        let body = json!({ "messageId": "m-1", "fromAgentId": "a", "toAgentId": "b", "type": "help-response",
            "payload": { "answer": "x".repeat(bytes) } });
        Envelope::from_json(body, || MessageId::parse("m").unwrap()).unwrap()
    }

    #[test]
    fn a_message_is_sent_in_one_piece_or_by_reference_or_refused() {
        let limits = Limits { max_body_bytes: 1_000, max_artifact_bytes: 5_000, ..Limits::default() };
        let message_of = |bytes, is_local| LargeMessage::of(&message(bytes), &limits, is_local);
        for (bytes, is_local, by_reference) in [
            (500, false, Some(false)),
            (500, true, Some(false)),
            (3_000, false, Some(true)),
            (3_000, true, Some(false)),
            (6_000, false, None),
            (6_000, true, None),
        ] {
            let result = message_of(bytes, is_local).map(|message| message.payload.is_some());
            assert_eq!(result.as_ref().ok(), by_reference.as_ref(), "{bytes} {is_local}");
            if let Err(problem) = result {
                assert!(problem.message.contains("5000"), "{problem}");
            }
        }
        let (first, again) = (message_of(3_000, false).unwrap(), message_of(3_000, false).unwrap());
        assert_eq!(first.body, again.body, "a repeat is the same to the byte");
        let body: serde_json::Value = serde_json::from_slice(&first.body).unwrap();
        assert_eq!(body["payloadRef"], json!(Digest::of(&first.payload.unwrap())));
        assert!(body.get("payload").is_none());
    }
}
