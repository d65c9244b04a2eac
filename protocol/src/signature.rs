//! HTTP message signatures (RFC 9421), by which agents and services authenticate each other (DESIGN §8).
//!
//! A signature covers method, path, query, body digest (RFC 9530), recipient and message id, so a captured request
//! is not valid on another path or at another node. The algorithm is fixed: `hmac-sha256`, under the key of the pair
//! ([`crate::identity::PairSecret`]), and under the join secret where two processes tell each other their keys.

mod response;
mod verify;

pub use response::{SignedResponse, verify_response};
pub use verify::{PresentedSignature, SignatureClaim, WINDOW_S, declared_digest, verify_request};

use crate::{
    ids::{AgentId, Digest},
    principal::Principal,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use std::fmt;

/// Names the agent or service (`registry`, `board`) a request is for.
pub const RECIPIENT: &str = "mesh-recipient";
/// Names the message a request carries, if it carries one.
pub const MESSAGE_ID: &str = "mesh-message-id";
/// The digest of the body (RFC 9530).
pub const CONTENT_DIGEST: &str = "content-digest";
/// What is covered, and how.
pub const SIGNATURE_INPUT: &str = "signature-input";
/// The signature itself.
pub const SIGNATURE: &str = "signature";

/// The shortest secret taken, bytes.
pub const MIN_SECRET_BYTES: usize = 16;

const LABEL: &str = "mesh=";
/// The parameter of a signature that names the user for whom a request is made.
const ACTS_FOR: &str = "acts-for";
const ALGORITHM: &str = "hmac-sha256";
/// The components that every signature covers; [`MESSAGE_ID`] comes on top where there is one.
const COVERED: [&str; 5] = ["@method", "@path", "@query", CONTENT_DIGEST, RECIPIENT];

/// A secret that two parties share, keyed and ready.
#[derive(Clone)]
pub struct Secret(Hmac<sha2::Sha256>);

/// The secret is shorter than [`MIN_SECRET_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a join secret has at least {MIN_SECRET_BYTES} bytes, this one has {0}")]
pub struct WeakSecret(pub usize);

impl Secret {
    /// The secret in `bytes`.
    pub fn new(bytes: &[u8]) -> Result<Self, WeakSecret> {
        if bytes.len() < MIN_SECRET_BYTES {
            return Err(WeakSecret(bytes.len()));
        }
        Hmac::new_from_slice(bytes).map(Self).map_err(|_| WeakSecret(bytes.len()))
    }

    fn sign(&self, base: &str) -> String {
        let tag = self.0.clone().chain_update(base).finalize().into_bytes();
        STANDARD.encode(tag)
    }

    /// Compares in constant time.
    fn has_signed(&self, base: &str, tag: &[u8]) -> bool {
        self.0.clone().chain_update(base).verify_slice(tag).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The parts of a request that a signature speaks for.
#[derive(Debug, Clone, Copy)]
pub struct SignedParts<'a> {
    /// Upper case, as on the request line.
    pub method: &'a str,
    /// As on the request line: the path, and `?…` if there is a query.
    pub path_and_query: &'a str,
    /// The value of [`RECIPIENT`].
    pub recipient: &'a str,
    /// The value of [`MESSAGE_ID`].
    pub message_id: Option<&'a str>,
    /// Of the body; of no bytes if there is none.
    pub digest: Digest,
}

impl SignedParts<'_> {
    /// The value of a covered component; `None` for one that is absent or unknown.
    fn component(&self, name: &str) -> Option<&str> {
        match name {
            "@method" => Some(self.method),
            "@path" => Some(self.target().0),
            "@query" => Some(self.target().1),
            RECIPIENT => Some(self.recipient),
            MESSAGE_ID => self.message_id,
            _ => None,
        }
    }

    /// `@path` and `@query`.
    fn target(&self) -> (&str, &str) {
        let (path, query) = match self.path_and_query.find('?') {
            Some(at) => self.path_and_query.split_at(at),
            None => (self.path_and_query, "?"),
        };
        (if path.is_empty() { "/" } else { path }, query)
    }
}

/// The headers a signer adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureHeaders {
    pub content_digest: String,
    pub signature_input: String,
    pub signature: String,
}

impl SignatureHeaders {
    /// Names and values; [`RECIPIENT`] and [`MESSAGE_ID`] are the caller's to send.
    pub fn into_pairs(self) -> [(&'static str, String); 3] {
        [
            (CONTENT_DIGEST, self.content_digest),
            (SIGNATURE_INPUT, self.signature_input),
            (SIGNATURE, self.signature),
        ]
    }
}

impl Secret {
    /// The headers that prove that `signer` made the request `parts` at `now`, in Unix seconds. With a `nonce`, of letters and
    /// digits and another for each attempt, the recipient takes it once.
    pub fn sign_request(
        &self,
        signer: &AgentId,
        parts: &SignedParts<'_>,
        now: u64,
        nonce: Option<&str>,
    ) -> SignatureHeaders {
        self.sign_request_for(signer, parts, now, (nonce, None))
    }

    /// The same for a request that the signer makes for a user, whom it has authenticated. Recipients believe it of the registry alone.
    pub fn sign_request_for(
        &self,
        signer: &AgentId,
        parts: &SignedParts<'_>,
        now: u64,
        (nonce, user): (Option<&str>, Option<&Principal>),
    ) -> SignatureHeaders {
        let message_id = parts.message_id.map(|_| MESSAGE_ID);
        let covered: Vec<_> = COVERED.into_iter().chain(message_id).collect();
        let names = covered.join("\" \"");
        let nonce = nonce.map(|nonce| format!(r#";nonce="{nonce}""#)).unwrap_or_default();
        let user = user.map(|user| format!(r#";{ACTS_FOR}="{user}""#)).unwrap_or_default();
        let signature_input =
            format!(r#"{LABEL}("{names}");created={now};keyid="{signer}";alg="{ALGORITHM}"{nonce}{user}"#);
        let content_digest = content_digest(&parts.digest);
        let mut base = SignatureBase::default();
        for name in covered {
            let value = if name == CONTENT_DIGEST { Some(&*content_digest) } else { parts.component(name) };
            base.line(name, value.unwrap_or_default());
        }
        let base = base.end(&signature_input[LABEL.len()..]);
        let signature = format!("{LABEL}:{}:", self.sign(&base));
        SignatureHeaders { content_digest, signature_input, signature }
    }
}

/// `sha-256=:…:`
fn content_digest(digest: &Digest) -> String {
    format!("sha-256=:{}:", STANDARD.encode(digest.bytes()))
}

/// A signature base (RFC 9421 §2.5), line by line.
struct SignatureBase(String);

impl Default for SignatureBase {
    fn default() -> Self {
        Self(String::with_capacity(512))
    }
}

impl SignatureBase {
    fn line(&mut self, name: &str, value: &str) {
        for part in ["\"", name, "\": ", value, "\n"] {
            self.0.push_str(part);
        }
    }

    fn end(mut self, params: &str) -> String {
        self.0.push_str("\"@signature-params\": ");
        self.0.push_str(params);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9421, appendix B.2.5.
    #[test]
    fn the_published_vector_is_reproduced() {
        let secret =
            "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==";
        let secret = Secret::new(&STANDARD.decode(secret).unwrap()).unwrap();
        let mut base = SignatureBase::default();
        base.line("date", "Tue, 20 Apr 2021 02:07:55 GMT");
        base.line("@authority", "example.com");
        base.line("content-type", "application/json");
        let params = r#"("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret""#;
        assert_eq!(secret.sign(&base.end(params)), "pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=");
    }

    #[test]
    fn a_short_secret_is_refused_and_none_is_printed() {
        assert_eq!(Secret::new(b"short").unwrap_err(), WeakSecret(5));
        assert_eq!(format!("{:?}", Secret::new(&[7; 32]).unwrap()), "Secret");
    }

    #[test]
    fn path_and_query_are_apart() {
        let digest = Digest::of(b"");
        let parts = |path_and_query| SignedParts {
            method: "GET",
            path_and_query,
            recipient: "b",
            message_id: None,
            digest,
        };
        assert_eq!(parts("/a?x=1").component("@path"), Some("/a"));
        assert_eq!(parts("/a?x=1").component("@query"), Some("?x=1"));
        assert_eq!(parts("/a").component("@query"), Some("?"));
        assert_eq!(parts("/a").component("mesh-message-id"), None);
    }
}
