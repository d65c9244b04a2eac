//! Signatures of responses (RFC 9421 §2.4): who answered, and to which message.

use super::{
    ALGORITHM, CONTENT_DIGEST, LABEL, MESSAGE_ID, PresentedSignature, SignatureBase, SignatureHeaders,
    Signer, content_digest,
    verify::{WINDOW_S, parsed, unauthenticated},
};
use crate::{
    ids::{AgentId, Digest},
    problem::Problem,
};
use sfv::{FieldType, List, ListEntry};

/// The covered components, as they stand in `Signature-Input`: status, body, and the id of the message that is answered.
const COVERED: &str = r#"("@status" "content-digest" "mesh-message-id";req)"#;

/// The parts of a response that a signature speaks for.
#[derive(Debug, Clone, Copy)]
pub struct SignedResponse<'a> {
    /// The status.
    pub status: u16,
    /// The value of [`MESSAGE_ID`] in the request.
    pub message_id: &'a str,
    /// The digest of the body.
    pub digest: Digest,
}

impl SignedResponse<'_> {
    fn base(&self, content_digest: &str, params: &str) -> String {
        let mut base = SignatureBase::default();
        base.line("@status", &self.status.to_string());
        base.line(CONTENT_DIGEST, content_digest);
        // A parameter stands behind the quoted name.
        base.0.push_str(&format!("\"{MESSAGE_ID}\";req: {}\n", self.message_id));
        base.end(params)
    }
}

impl Signer {
    /// The headers that prove the response `parts` at `now`, in Unix seconds.
    pub fn sign_response(&self, parts: &SignedResponse<'_>, now: u64) -> SignatureHeaders {
        let params = format!(r#"{COVERED};created={now};keyid="{}";alg="{ALGORITHM}""#, self.agent);
        let content_digest = content_digest(&parts.digest);
        let signature = self.secret.sign(&parts.base(&content_digest, &params));
        SignatureHeaders {
            content_digest,
            signature_input: format!("{LABEL}{params}"),
            signature: format!("{LABEL}:{signature}:"),
        }
    }

    /// Checks that `agent` signed the response `parts` under the same secret, at most five minutes from `now` (Unix seconds).
    /// 401 `unauthenticated` if not.
    pub fn verify_response(
        &self,
        agent: &AgentId,
        parts: &SignedResponse<'_>,
        presented: &PresentedSignature<'_>,
        now: u64,
    ) -> Result<(), Problem> {
        let (Some(input), Some(signature)) = (presented.signature_input, presented.signature) else {
            return Err(unauthenticated("a signature is Signature-Input and Signature"));
        };
        let (inputs, signatures) = (parsed(input, "Signature-Input")?, parsed(signature, "Signature")?);
        let label = LABEL.trim_end_matches('=');
        let (Some(ListEntry::InnerList(list)), Some(ListEntry::Item(tag))) =
            (inputs.get(label), signatures.get(label))
        else {
            return Err(unauthenticated("the answer is not signed"));
        };
        let created = list.params.get("created").and_then(|created| created.as_integer());
        let created = created.and_then(|created| u64::try_from(i64::from(created)).ok());
        let signer = list.params.get("keyid").and_then(|id| id.as_string());
        if signer.map(|id| id.as_str()) != Some(agent.as_str()) {
            return Err(unauthenticated(&format!("the answer is not {agent}'s")));
        }
        let params = List::from([ListEntry::InnerList(list.clone())]).serialize().unwrap_or_default();
        let base = parts.base(&content_digest(&parts.digest), &params);
        let tag = tag.bare_item.as_byte_sequence().unwrap_or_default();
        if !params.starts_with(COVERED) || !self.secret.has_signed(&base, tag) {
            return Err(unauthenticated("the signature of the answer is not right"));
        }
        match created {
            Some(created) if created.abs_diff(now) <= WINDOW_S => Ok(()),
            _ => Err(unauthenticated("the answer was signed at another time")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::Secret;

    #[test]
    fn only_the_answer_to_this_message_by_this_agent_is_taken() {
        let secret = Secret::new(&[7; 32]).unwrap();
        let agent = |id: &str| AgentId::parse(id).unwrap();
        let signer = Signer::new(secret.clone(), agent("b-1"));
        let manager = Signer::new(secret, agent("m"));
        let parts = SignedResponse { status: 200, message_id: "cfp-1", digest: Digest::of(b"bid") };
        let headers = signer.sign_response(&parts, 1_000);
        let presented = PresentedSignature {
            content_digest: Some(&headers.content_digest),
            signature_input: Some(&headers.signature_input),
            signature: Some(&headers.signature),
        };
        let verify = |id: &str, parts: SignedResponse<'_>, now| {
            manager.verify_response(&agent(id), &parts, &presented, now).is_ok()
        };
        assert!(verify("b-1", parts, 1_100));
        assert!(!verify("b-2", parts, 1_100), "another agent");
        assert!(!verify("b-1", SignedResponse { status: 202, ..parts }, 1_100), "another status");
        assert!(!verify("b-1", SignedResponse { message_id: "cfp-2", ..parts }, 1_100), "another message");
        assert!(!verify("b-1", SignedResponse { digest: Digest::of(b"x"), ..parts }, 1_100), "another body");
        assert!(!verify("b-1", parts, 2_000), "another time");
        let stranger = Signer::new(Secret::new(&[8; 32]).unwrap(), agent("m"));
        assert!(
            stranger.verify_response(&agent("b-1"), &parts, &presented, 1_100).is_err(),
            "another secret"
        );
        let unsigned = PresentedSignature::default();
        assert!(manager.verify_response(&agent("b-1"), &parts, &unsigned, 1_100).is_err());
    }
}
