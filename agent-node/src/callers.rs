//! Users with a credential: an API key or a bearer token. Only digests are kept, so the time of a lookup reveals nothing
//! about a credential.

use protocol::{
    a2a::agent_policy::CallerSchemes,
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{collections::BTreeMap, fmt};

/// A user's credential.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    ApiKey(String),
    /// Sent in `Authorization: Bearer`.
    Bearer(String),
}

impl Credential {
    /// The key or token.
    pub fn secret(&self) -> &str {
        let (Self::ApiKey(secret) | Self::Bearer(secret)) = self;
        secret
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiKey(_) => "ApiKey(…)",
            Self::Bearer(_) => "Bearer(…)",
        })
    }
}

/// One user and one credential; a user may have several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredCaller {
    pub user: AgentId,
    pub credential: Credential,
}

/// All users with a credential.
#[derive(Clone, Default)]
pub struct Callers {
    by_key: BTreeMap<Digest, Principal>,
    by_token: BTreeMap<Digest, Principal>,
}

impl Callers {
    /// The users in `callers`.
    pub fn new(callers: &[ConfiguredCaller]) -> Self {
        let mut all = Self::default();
        for ConfiguredCaller { user, credential } in callers {
            let (map, secret) = match credential {
                Credential::ApiKey(key) => (&mut all.by_key, key),
                Credential::Bearer(token) => (&mut all.by_token, token),
            };
            map.insert(Digest::of(secret.as_bytes()), Principal::User(user.clone()));
        }
        all
    }

    /// Whether `principal` is the local user, or one of these.
    pub(crate) fn knows(&self, principal: &Principal) -> bool {
        let mut all = self.by_key.values().chain(self.by_token.values());
        *principal == Principal::local_user() || all.any(|known| known == principal)
    }

    /// The authentication schemes in use.
    pub fn schemes(&self) -> CallerSchemes {
        CallerSchemes { api_key: !self.by_key.is_empty(), bearer: !self.by_token.is_empty(), needed: false }
    }

    /// The user of an API key. Fails for an unknown one.
    pub(crate) fn of_key(&self, key: &str) -> Result<Principal, Problem> {
        let digest = Digest::of(key.as_bytes());
        self.by_key.get(&digest).cloned().ok_or_else(|| {
            proves_nobody(match self.by_token.contains_key(&digest) {
                true => "X-API-Key holds a bearer token; send it in `Authorization: Bearer`",
                false => {
                    "X-API-Key is the key of no caller; callers are configured in `mesh: { callers: … }`"
                }
            })
        })
    }

    /// The user of a bearer token. Fails for an unknown one.
    pub(crate) fn of_token(&self, token: &str) -> Result<Principal, Problem> {
        let digest = Digest::of(token.as_bytes());
        self.by_token.get(&digest).cloned().ok_or_else(|| {
            proves_nobody(match self.by_key.contains_key(&digest) {
                true => "Authorization holds an API key; send it in `X-API-Key`",
                false => {
                    "Authorization is the token of no caller (`mesh: { callers: … }`), not the person's (`mesh token`), and not that of an agent's process (`mesh token agent ID`)"
                }
            })
        })
    }
}

/// The refusal of a credential. It names the header and the remedy.
fn proves_nobody(why: &str) -> Problem {
    Problem::new(Reason::Unauthenticated, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_header_and_where_its_credentials_are_configured() {
        let caller =
            |user: &str, credential| ConfiguredCaller { user: AgentId::parse(user).unwrap(), credential };
        let callers = Callers::new(&[
            caller("anna", Credential::ApiKey("annas-own-key-0001".into())),
            caller("bob", Credential::Bearer("bobs-own-token-0001".into())),
        ]);
        for (outcome, parts) in [
            (callers.of_key("x"), ["X-API-Key", "callers"]),
            (callers.of_key("bobs-own-token-0001"), ["X-API-Key", "Authorization: Bearer"]),
            (callers.of_token("x"), ["Authorization", "mesh token"]),
            (callers.of_token("annas-own-key-0001"), ["Authorization", "X-API-Key"]),
        ] {
            let problem = outcome.unwrap_err();
            assert_eq!(problem.reason, Reason::Unauthenticated);
            assert!(parts.iter().all(|part| problem.message.contains(part)), "{}", problem.message);
        }
        let anna = Principal::User(AgentId::parse("anna").unwrap());
        assert_eq!(callers.of_key("annas-own-key-0001"), Ok(anna));
    }
}
