//! Tokens that the mesh itself has made: the person's, and those of the brains of this node. Only digests are kept.

use protocol::{
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
    routes,
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// How the person's token begins.
pub const PERSON_PREFIX: &str = "mesh-person-";
/// How a brain's token begins.
pub const BRAIN_PREFIX: &str = "mesh-brain-";

/// A random token of 244 bits.
pub fn random_token(prefix: &str) -> String {
    format!("{prefix}{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple())
}

/// The tokens that a process accepts. Cheap to clone; every clone shares them.
#[derive(Clone, Default)]
pub struct IssuedTokens {
    person: Arc<RwLock<Option<Digest>>>,
    brains: Arc<RwLock<BTreeMap<Digest, AgentId>>>,
}

impl IssuedTokens {
    /// Accepts the token with this digest as the person's, and no other one.
    pub fn set_person(&self, digest: Digest) {
        *self.person.write().unwrap_or_else(PoisonError::into_inner) = Some(digest);
    }

    /// The digest of the person's token, if it is known.
    pub fn person(&self) -> Option<Digest> {
        *self.person.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts the token with this digest as that of the brain of `agent`.
    pub fn add_brain(&self, digest: Digest, agent: AgentId) {
        self.brains.write().unwrap_or_else(PoisonError::into_inner).insert(digest, agent);
    }

    /// The principal that the bearer token `token` proves; `None` if it is no token of a mesh. Fails for one that is not accepted
    /// here.
    pub(super) fn principal(&self, token: &str) -> Result<Option<Principal>, Problem> {
        let digest = || Digest::of(token.as_bytes());
        let (found, why) = if token.starts_with(PERSON_PREFIX) {
            let is_known = self.person() == Some(digest());
            (
                is_known.then(Principal::local_user),
                "the person's token is of another mesh, or the registry has not told it yet",
            )
        } else if token.starts_with(BRAIN_PREFIX) {
            let brains = self.brains.read().unwrap_or_else(PoisonError::into_inner);
            (
                brains.get(&digest()).cloned().map(Principal::Brain),
                "a brain's token is good at its own node only, and until that ends",
            )
        } else {
            return Ok(None);
        };
        found.map(Some).ok_or_else(|| Problem::new(Reason::Unauthenticated, why))
    }
}

/// Refuses what a brain may not reach with its token (DESIGN §13): it reads the health and the cards of its node, and content by
/// its digest, and it stores content.
pub(super) fn check_reach(principal: &Principal, method: &str, path: &str) -> Result<(), Problem> {
    let Principal::Brain(agent) = principal else { return Ok(()) };
    let is_content =
        path.strip_prefix(routes::ARTIFACTS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_open =
        [routes::HEALTH, routes::READY, routes::CARD].contains(&path) || path.starts_with("/.well-known/");
    let may = match method {
        "GET" | "HEAD" => is_open || is_content,
        "PUT" => is_content,
        _ => false,
    };
    if may {
        return Ok(());
    }
    let message = format!(
        "the token of {agent}'s brain reaches the cards and the health of its node and artifacts, not {method} {path}; what a brain \
         asks of the mesh it writes as a line"
    );
    Err(Problem::new(Reason::Forbidden, message))
}

impl fmt::Debug for IssuedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedTokens").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_proves_its_principal_where_it_is_known() {
        let (tokens, elsewhere) = (IssuedTokens::default(), IssuedTokens::default());
        let agent = AgentId::parse("a-1").unwrap();
        let (person, brain) = (random_token(PERSON_PREFIX), random_token(BRAIN_PREFIX));
        tokens.set_person(Digest::of(person.as_bytes()));
        tokens.add_brain(Digest::of(brain.as_bytes()), agent.clone());
        let of = IssuedTokens::principal;
        assert_eq!(of(&tokens, &person), Ok(Some(Principal::local_user())));
        assert_eq!(of(&tokens, &brain), Ok(Some(Principal::Brain(agent))));
        assert_eq!(of(&tokens, "a-callers-own-token"), Ok(None), "not one of a mesh");
        for unknown in [of(&elsewhere, &person), of(&elsewhere, &brain), of(&tokens, &format!("{brain}0"))] {
            assert_eq!(unknown.unwrap_err().reason, Reason::Unauthenticated);
        }
    }

    #[test]
    fn a_brain_reaches_content_cards_and_health_only() {
        let brain = Principal::Brain(AgentId::parse("a-1").unwrap());
        let may = |method: &str, path: &str| check_reach(&brain, method, path).is_ok();
        for (method, path) in [
            ("GET", "/healthz"),
            ("HEAD", "/readyz"),
            ("GET", "/.well-known/agent-card.json"),
            ("PUT", "/a2a/artifacts"),
            ("GET", "/a2a/artifacts/00"),
        ] {
            assert!(may(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("POST", "/a2a/messages"),
            ("GET", "/a2a/tasks"),
            ("POST", "/a2a/tasks/t/answer"),
            ("GET", "/state"),
            ("GET", "/board/signals"),
            ("POST", "/board/signals"),
            ("POST", "/a2a/rpc"),
            ("GET", "/metrics"),
            ("DELETE", "/a2a/artifacts/00"),
            ("GET", "/a2a/artifactsx"),
            ("GET", "/a2a/dead-letters"),
        ] {
            assert!(!may(method, path), "{method} {path}");
            assert!(check_reach(&Principal::local_user(), method, path).is_ok());
        }
    }
}
