//! Who signed a request, and whether it still counts.

use super::{
    ACTS_FOR, ALGORITHM, CONTENT_DIGEST, COVERED, MESSAGE_ID, Secret, SignatureBase, SignedParts,
    content_digest,
};
use crate::{
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
    time::WallTime,
};
use sfv::{Dictionary, FieldType, Item, List, ListEntry, Parser};

/// How far a signature's `created` may lie from the verifier's clock, seconds.
pub const WINDOW_S: u64 = 300;
/// The longest nonce, characters.
const MAX_NONCE: usize = 64;
/// More labels than this in one request are not looked at.
const MAX_LABELS: usize = 4;

/// The headers of a request that carry its signature; several lines of one header joined by `, `.
#[derive(Debug, Clone, Copy, Default)]
pub struct PresentedSignature<'a> {
    pub content_digest: Option<&'a str>,
    pub signature_input: Option<&'a str>,
    pub signature: Option<&'a str>,
}

/// One signature, taken apart: who claims it, since when, over which base.
pub struct SignatureClaim {
    pub(super) agent: AgentId,
    pub(super) created: u64,
    pub(super) expires: Option<u64>,
    pub(super) nonce: Option<String>,
    pub(super) acts_for: Option<Principal>,
    pub(super) base: String,
    pub(super) tag: Vec<u8>,
}

impl SignatureClaim {
    /// Who is said to have signed.
    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// When it is said to have been signed, in Unix seconds.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// What tells this attempt from others of its signer; absent from one of an earlier version.
    pub fn nonce(&self) -> Option<&str> {
        self.nonce.as_deref()
    }

    /// The user for whom it is said to be made.
    pub fn acts_for(&self) -> Option<&Principal> {
        self.acts_for.as_ref()
    }

    /// Whether it was made under `secret`. Compares in constant time.
    pub fn is_signed_by(&self, secret: &Secret) -> bool {
        secret.has_signed(&self.base, &self.tag)
    }
}

/// The signature of the agent that signed `parts`. `check` fails for a claim that is not under the key of its agent. 401 `unauthenticated`
/// for no signature, a wrong one or one that covers too little; 401 `stale_signature` for a right one outside the window around
/// `now` (Unix seconds).
pub fn verify_request(
    parts: &SignedParts<'_>,
    presented: &PresentedSignature<'_>,
    now: u64,
    check: impl Fn(&SignatureClaim) -> Result<(), Problem>,
) -> Result<SignatureClaim, Problem> {
    let (Some(input), Some(signature)) = (presented.signature_input, presented.signature) else {
        return Err(unauthenticated("a signature is Signature-Input and Signature"));
    };
    let Some(digest) = presented.content_digest else {
        return Err(unauthenticated("a signed request has a Content-Digest"));
    };
    // All bytes at once: none of them is found early.
    let holds_control = |value: &str| value.bytes().fold(false, |any, byte| any | byte.is_ascii_control());
    let components = [parts.method, parts.path_and_query, parts.recipient, digest];
    if components.into_iter().chain(parts.message_id).any(holds_control) {
        return Err(unauthenticated("a signed component holds a control character"));
    }
    if !digest_agrees(parts, digest) {
        return Err(unauthenticated("Content-Digest is not the sha-256 of the body"));
    }
    let inputs: Dictionary = parsed(input, "Signature-Input")?;
    let signatures: Dictionary = parsed(signature, "Signature")?;
    let mut verdict = Err(unauthenticated("no signature is named in Signature-Input and Signature alike"));
    for (label, entry) in inputs.iter().take(MAX_LABELS) {
        let Some(ListEntry::Item(Item { bare_item, .. })) = signatures.get(label) else { continue };
        let Some(tag) = bare_item.as_byte_sequence() else { continue };
        verdict = claim_of(parts, digest, entry, tag).and_then(|claim| judge(claim, now, &check));
        if verdict.as_ref().map_or_else(|problem| problem.reason == Reason::StaleSignature, |_| true) {
            break;
        }
    }
    verdict
}

fn judge(
    claim: SignatureClaim,
    now: u64,
    check: impl Fn(&SignatureClaim) -> Result<(), Problem>,
) -> Result<SignatureClaim, Problem> {
    check(&claim)?;
    let window = WINDOW_S;
    if claim.created.abs_diff(now) > window || claim.expires.is_some_and(|end| end < now) {
        let message = format!(
            "signed at {}, it is {} here, and at most {window} s apart are taken: set the clock that is wrong (NTP)",
            wall_time(claim.created),
            wall_time(now)
        );
        return Err(Problem::new(Reason::StaleSignature, message).with("now", now));
    }
    Ok(claim)
}

fn wall_time(seconds: u64) -> WallTime {
    WallTime(i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX))
}

/// What one member of `Signature-Input` claims.
fn claim_of(
    parts: &SignedParts<'_>,
    digest: &str,
    entry: &ListEntry,
    tag: &[u8],
) -> Result<SignatureClaim, Problem> {
    let ListEntry::InnerList(list) = entry else {
        return Err(unauthenticated("Signature-Input lists the covered components"));
    };
    let mut base = SignatureBase::default();
    let mut seen: Vec<&str> = Vec::new();
    for item in &list.items {
        let name = item.bare_item.as_string().map(|name| name.as_str());
        let Some(name) = name.filter(|name| item.params.is_empty() && !seen.contains(name)) else {
            return Err(unauthenticated("a covered component is a name, once, without parameters"));
        };
        let value = if name == CONTENT_DIGEST { Some(digest) } else { parts.component(name) };
        base.line(
            name,
            value.ok_or_else(|| unauthenticated("the signature covers what cannot be checked here"))?,
        );
        seen.push(name);
    }
    let message = parts.message_id.map(|_| MESSAGE_ID);
    for needed in COVERED.into_iter().chain(message) {
        if !seen.contains(&needed) {
            return Err(unauthenticated(&format!("the signature must cover {needed}")));
        }
    }
    let text = |name: &str| list.params.get(name).map(|value| value.as_string().map(|text| text.as_str()));
    let time =
        |name: &str| list.params.get(name).map(|value| u64::try_from(i64::from(value.as_integer()?)).ok());
    if text("alg").is_some_and(|alg| alg != Some(ALGORITHM)) {
        return Err(unauthenticated("the algorithm is hmac-sha256"));
    }
    let agent = text("keyid").flatten().and_then(|id| AgentId::parse(id).ok());
    let created = time("created").flatten();
    let (Some(agent), Some(created)) = (agent, created) else {
        return Err(unauthenticated("a signature has created, and the agent id as keyid"));
    };
    let expires = match time("expires") {
        None => None,
        Some(Some(end)) => Some(end),
        Some(None) => return Err(unauthenticated("expires is in Unix seconds")),
    };
    let nonce = match text("nonce") {
        None => None,
        Some(Some(nonce)) if (1..=MAX_NONCE).contains(&nonce.len()) => Some(nonce.to_owned()),
        Some(_) => return Err(unauthenticated(&format!("nonce is a text of 1 to {MAX_NONCE} characters"))),
    };
    let acts_for = match text(ACTS_FOR) {
        None => None,
        Some(user) => match user.map(|user| Principal::try_from(user.to_owned())) {
            Some(Ok(user @ Principal::User(_))) => Some(user),
            _ => return Err(unauthenticated(&format!("{ACTS_FOR} names a user"))),
        },
    };
    let params = List::from([entry.clone()]).serialize().unwrap_or_default();
    Ok(SignatureClaim {
        agent,
        created,
        expires,
        nonce,
        acts_for,
        base: base.end(&params),
        tag: tag.to_vec(),
    })
}

fn digest_agrees(parts: &SignedParts<'_>, presented: &str) -> bool {
    if presented == content_digest(&parts.digest) {
        return true;
    }
    declared_digest(presented) == Some(parts.digest)
}

/// The sha-256 in the value of [`super::CONTENT_DIGEST`].
pub fn declared_digest(content_digest: &str) -> Option<Digest> {
    let digests = Parser::new(content_digest).parse::<Dictionary>().ok()?;
    let ListEntry::Item(item) = digests.get("sha-256")? else { return None };
    let bytes: [u8; 32] = item.bare_item.as_byte_sequence()?.try_into().ok()?;
    Some(Digest::from(bytes))
}

pub(super) fn parsed(header: &str, name: &str) -> Result<Dictionary, Problem> {
    Parser::new(header).parse().map_err(|_| unauthenticated(&format!("{name} is no structured field")))
}

pub(super) fn unauthenticated(message: &str) -> Problem {
    Problem::new(Reason::Unauthenticated, message)
}

#[cfg(test)]
mod tests;
