//! The person's key, which follows from the person's token (DESIGN §13). A command proves by it that it has the token and shows
//! the token to nobody: a process that it calls, whoever it is, learns nothing that is good elsewhere. A process of the mesh knows
//! the public half.

use super::{Base64Bytes, is_signed, signature};
use crate::{
    a2a::{card_signature::SigningKey, jcs::canonical},
    ids::Digest,
    problem::{Problem, Reason},
    question::Question,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// How a ticket begins.
pub const TICKET_PREFIX: &str = "mesh-ticket-";
/// How far the clocks of the command and of the process may lie apart, milliseconds.
const WINDOW_MS: i64 = 300_000;

/// The private key of the person.
pub struct PersonKey(SigningKey);

/// The public half of a [`PersonKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersonPublicKey(Base64Bytes<32>);

/// The person's statement that a question is approved. It holds for that question only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalProof {
    /// [`approval_digest`] of the question.
    pub question: Digest,
    signature: Base64Bytes<64>,
}

impl PersonKey {
    /// The key that follows from the person's token.
    pub fn of_token(token: &str) -> Self {
        Self(SigningKey::from_seed(Digest::of(format!("agent-mesh person 1\n{token}").as_bytes()).bytes()))
    }

    /// Its public half.
    pub fn public(&self) -> PersonPublicKey {
        PersonPublicKey(Base64Bytes(self.0.public().ed25519()))
    }

    /// A bearer token for the process at `authority` (`host:port`, as in `Host`), good for five minutes from `now`.
    pub fn ticket(&self, authority: &str, now: WallTime) -> String {
        format!("{TICKET_PREFIX}{}-{}", now.0, signature(&self.0, &ticket_statement(authority, now)))
    }

    /// The approval of `question`, with other arguments than its own if there are `edited` ones.
    pub fn approve(&self, question: &Question, edited: Option<&Map<String, Value>>) -> ApprovalProof {
        let digest = approval_digest(question, edited);
        ApprovalProof { question: digest, signature: signature(&self.0, &approval_statement(&digest)) }
    }
}

impl PersonPublicKey {
    /// Fails unless `ticket` was made with this key for `authority`, about `now`.
    pub fn check_ticket(&self, ticket: &str, authority: &str, now: WallTime) -> Result<(), Problem> {
        let refused = |why: &str| Problem::new(Reason::Unauthenticated, why);
        let parts = ticket.strip_prefix(TICKET_PREFIX).and_then(|rest| rest.split_once('-'));
        let Some((Ok(at), Ok(signature))) = parts
            .map(|(at, signature)| (at.parse().map(WallTime), Base64Bytes::try_from(signature.to_owned())))
        else {
            return Err(refused("the person's ticket is malformed"));
        };
        if !is_signed(&self.0, &ticket_statement(authority, at), &signature) {
            return Err(refused("the person's ticket is of another mesh, or was made for another address"));
        }
        match at.0.abs_diff(now.0) <= WINDOW_MS.unsigned_abs() {
            true => Ok(()),
            false => Err(Problem::new(
                Reason::StaleSignature,
                format!(
                    "the person's ticket was made at {at}, it is {now} here: set the clock that is wrong (NTP)"
                ),
            )),
        }
    }

    /// Whether the person has approved what `proof` names.
    pub fn has_approved(&self, proof: &ApprovalProof) -> bool {
        is_signed(&self.0, &approval_statement(&proof.question), &proof.signature)
    }
}

/// The digest of what a person approves: the question's id, text and call, and the arguments in place of the call's own.
pub fn approval_digest(question: &Question, edited: Option<&Map<String, Value>>) -> Digest {
    let mut judged = json!({ "id": question.id, "text": question.text, "call": question.call });
    if let Some(edited) = edited {
        judged["edited"] = json!(edited);
    }
    Digest::of(canonical(&judged).as_bytes())
}

fn ticket_statement(authority: &str, at: WallTime) -> String {
    format!("agent-mesh ticket 1\n{}\n{}", authority.to_ascii_lowercase(), at.0)
}

fn approval_statement(question: &Digest) -> String {
    format!("agent-mesh approval 1\n{question}")
}

impl fmt::Debug for PersonKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersonKey").field("public", &self.public()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_at_its_address_for_five_minutes() {
        let (person, other) = (PersonKey::of_token("mesh-person-a"), PersonKey::of_token("mesh-person-b"));
        let at = WallTime(1_000_000_000);
        let ticket = person.ticket("127.0.0.1:8000", at);
        let check = |key: &PersonKey, ticket: &str, authority, now| {
            key.public().check_ticket(ticket, authority, WallTime(now)).map_err(|problem| problem.reason)
        };
        for now in [at.0 - 300_000, at.0, at.0 + 300_000] {
            assert_eq!(check(&person, &ticket, "127.0.0.1:8000", now), Ok(()));
        }
        for (key, ticket, authority, now, reason) in [
            (&other, ticket.as_str(), "127.0.0.1:8000", at.0, Reason::Unauthenticated),
            (&person, &ticket, "127.0.0.1:8001", at.0, Reason::Unauthenticated),
            (&person, &ticket[..60], "127.0.0.1:8000", at.0, Reason::Unauthenticated),
            (&person, "mesh-ticket-", "127.0.0.1:8000", at.0, Reason::Unauthenticated),
            (&person, &ticket, "127.0.0.1:8000", at.0 + 300_001, Reason::StaleSignature),
        ] {
            assert_eq!(check(key, ticket, authority, now), Err(reason), "{ticket} {authority} {now}");
        }
        assert_eq!(check(&person, &person.ticket("Node-1:80", at), "node-1:80", at.0), Ok(()));
    }

    #[test]
    fn an_approval_holds_for_its_question_only() {
        let person = PersonKey::of_token("mesh-person-a");
        let question = Question { call: Some(json!({ "name": "rm" })), ..Question::new("q-1", "delete?") };
        let proof = person.approve(&question, None);
        assert!(person.public().has_approved(&proof) && proof.question == approval_digest(&question, None));
        assert!(!PersonKey::of_token("mesh-person-b").public().has_approved(&proof));
        let others = [
            Question { id: "q-2".into(), ..question.clone() },
            Question { text: "keep?".into(), ..question.clone() },
            Question { call: Some(json!({ "name": "ls" })), ..question.clone() },
        ];
        for other in others {
            assert!(approval_digest(&other, None) != proof.question, "{other:?}");
            let forged = ApprovalProof { question: approval_digest(&other, None), ..proof.clone() };
            assert!(!person.public().has_approved(&forged));
        }
        let json = serde_json::to_value(&proof).unwrap();
        assert_eq!(serde_json::from_value::<ApprovalProof>(json).unwrap(), proof);
    }
}
