//! Signatures of responses (RFC 9421 §2.4): who answered, and to which message.

use super::{
    ALGORITHM, CONTENT_DIGEST, LABEL, MESSAGE_ID, PresentedSignature, Secret, SignatureBase, SignatureClaim,
    SignatureHeaders, content_digest,
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

impl Secret {
    /// The headers that prove that `signer` made the response `parts` at `now`, in Unix seconds.
    pub fn sign_response(&self, signer: &AgentId, parts: &SignedResponse<'_>, now: u64) -> SignatureHeaders {
        let params = format!(r#"{COVERED};created={now};keyid="{signer}";alg="{ALGORITHM}""#);
        let content_digest = content_digest(&parts.digest);
        let signature = self.sign(&parts.base(&content_digest, &params));
        SignatureHeaders {
            content_digest,
            signature_input: format!("{LABEL}{params}"),
            signature: format!("{LABEL}:{signature}:"),
        }
    }
}

/// Checks that `agent` signed the response `parts`, at most five minutes from `now` (Unix seconds); `is_signed` checks the
/// claimed signature. Returns when it was signed, in Unix seconds. 401 `unauthenticated` if not.
pub fn verify_response(
    agent: &AgentId,
    parts: &SignedResponse<'_>,
    presented: &PresentedSignature<'_>,
    now: u64,
    is_signed: impl FnOnce(&SignatureClaim) -> bool,
) -> Result<u64, Problem> {
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
    let created = created.filter(|created| created.abs_diff(now) <= WINDOW_S);
    let Some(created) = created else {
        return Err(unauthenticated("the answer was signed at another time"));
    };
    let signer = list.params.get("keyid").and_then(|id| id.as_string());
    if signer.map(|id| id.as_str()) != Some(agent.as_str()) {
        return Err(unauthenticated(&format!("the answer is not {agent}'s")));
    }
    let params = List::from([ListEntry::InnerList(list.clone())]).serialize().unwrap_or_default();
    let base = parts.base(&content_digest(&parts.digest), &params);
    let tag = tag.bare_item.as_byte_sequence().unwrap_or_default().to_vec();
    let claim = SignatureClaim {
        agent: agent.clone(),
        created,
        expires: None,
        nonce: None,
        acts_for: None,
        base,
        tag,
    };
    match params.starts_with(COVERED) && is_signed(&claim) {
        true => Ok(created),
        false => Err(unauthenticated("the signature of the answer is not right")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_this_message_by_this_agent_is_taken() {
        let secret = Secret::new(&[7; 32]).unwrap();
        let agent = |id: &str| AgentId::parse(id).unwrap();
        let parts = SignedResponse { status: 200, message_id: "cfp-1", digest: Digest::of(b"bid") };
        let headers = secret.sign_response(&agent("b-1"), &parts, 1_000);
        let presented = PresentedSignature {
            content_digest: Some(&headers.content_digest),
            signature_input: Some(&headers.signature_input),
            signature: Some(&headers.signature),
        };
        let verify_under = |secret: &Secret, id: &str, parts: SignedResponse<'_>, now| {
            verify_response(&agent(id), &parts, &presented, now, |claim| claim.is_signed_by(secret)).is_ok()
        };
        let verify = |id: &str, parts: SignedResponse<'_>, now| verify_under(&secret, id, parts, now);
        assert!(verify("b-1", parts, 1_100));
        assert!(!verify("b-2", parts, 1_100), "another agent");
        assert!(!verify("b-1", SignedResponse { status: 202, ..parts }, 1_100), "another status");
        assert!(!verify("b-1", SignedResponse { message_id: "cfp-2", ..parts }, 1_100), "another message");
        assert!(!verify("b-1", SignedResponse { digest: Digest::of(b"x"), ..parts }, 1_100), "another body");
        assert!(!verify("b-1", parts, 2_000), "another time");
        assert!(!verify_under(&Secret::new(&[8; 32]).unwrap(), "b-1", parts, 1_100), "another key");
        let unsigned = PresentedSignature::default();
        assert!(verify_response(&agent("b-1"), &parts, &unsigned, 1_100, |_| true).is_err());
    }
}
