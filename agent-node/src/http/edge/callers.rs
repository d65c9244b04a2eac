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
    /// Sent in `X-API-Key`.
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
pub struct Caller {
    /// The user.
    pub user: AgentId,
    /// The credential.
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
    pub fn new(callers: &[Caller]) -> Self {
        let mut all = Self::default();
        for Caller { user, credential } in callers {
            let (map, secret) = match credential {
                Credential::ApiKey(key) => (&mut all.by_key, key),
                Credential::Bearer(token) => (&mut all.by_token, token),
            };
            map.insert(Digest::of(secret.as_bytes()), Principal::User(user.clone()));
        }
        all
    }

    /// The authentication schemes in use.
    pub fn schemes(&self) -> CallerSchemes {
        CallerSchemes { api_key: !self.by_key.is_empty(), bearer: !self.by_token.is_empty(), needed: false }
    }

    /// Why the API key, or else the bearer token, with this digest proves nobody.
    fn refusal(&self, is_key: bool, digest: &Digest) -> &'static str {
        match is_key {
            true if self.by_token.contains_key(digest) => {
                "X-API-Key holds a bearer token; send it in `Authorization: Bearer`"
            }
            true => "X-API-Key is the key of no caller; callers are configured in `mesh: { callers: … }`",
            false if self.by_key.contains_key(digest) => {
                "Authorization holds an API key; send it in `X-API-Key`"
            }
            false => {
                "Authorization is the token of no caller (`mesh: { callers: … }`), and not the person's (`mesh token`)"
            }
        }
    }

    /// The user of the API key `key` or of the bearer token in `authorization`; `None` without either. Fails for an unknown
    /// credential.
    pub(super) fn authenticate(
        &self,
        key: Option<&str>,
        authorization: Option<&str>,
    ) -> Result<Option<Principal>, Problem> {
        if self.by_key.is_empty() && self.by_token.is_empty() {
            return Ok(None);
        }
        let key = key.map(|key| (&self.by_key, key));
        let token = authorization.and_then(|given| {
            let (scheme, token) = given.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some((&self.by_token, token.trim()))
        });
        let Some((known, secret)) = key.or(token) else { return Ok(None) };
        let digest = Digest::of(secret.as_bytes());
        match known.get(&digest) {
            Some(user) => Ok(Some(user.clone())),
            None => Err(Problem::new(Reason::Unauthenticated, self.refusal(key.is_some(), &digest))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_header_and_where_its_credentials_are_configured() {
        let caller = |user: &str, credential| Caller { user: AgentId::parse(user).unwrap(), credential };
        let callers = Callers::new(&[
            caller("anna", Credential::ApiKey("annas-own-key-0001".into())),
            caller("bob", Credential::Bearer("bobs-own-token-0001".into())),
        ]);
        let refused = |key: Option<&str>, bearer: Option<&str>| {
            let authorization = bearer.map(|token| format!("Bearer {token}"));
            let problem = callers.authenticate(key, authorization.as_deref()).unwrap_err();
            assert_eq!(problem.reason, Reason::Unauthenticated);
            problem.message
        };
        for (message, parts) in [
            (refused(Some("x"), None), ["X-API-Key", "callers"]),
            (refused(Some("bobs-own-token-0001"), None), ["X-API-Key", "Authorization: Bearer"]),
            (refused(None, Some("x")), ["Authorization", "mesh token"]),
            (refused(None, Some("annas-own-key-0001")), ["Authorization", "X-API-Key"]),
        ] {
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
        let anna = callers.authenticate(Some("annas-own-key-0001"), None).unwrap();
        assert_eq!(anna, Some(Principal::User(AgentId::parse("anna").unwrap())));
    }
}
