//! Users who are known by a credential: an API key or a bearer token. Only digests are kept, so a lookup tells nothing of
//! a credential by the time it takes.

use protocol::{
    a2a::agent_policy::CallerSchemes,
    ids::{AgentId, Digest},
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{collections::BTreeMap, fmt};

/// What proves a user.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// Comes in `X-API-Key`.
    ApiKey(String),
    /// Comes in `Authorization: Bearer`.
    Bearer(String),
}

impl Credential {
    /// What must be told to nobody.
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
    /// Who.
    pub user: AgentId,
    /// By what.
    pub credential: Credential,
}

/// Everybody who is known by a credential.
#[derive(Clone, Default)]
pub struct Callers {
    by_key: BTreeMap<Digest, Principal>,
    by_token: BTreeMap<Digest, Principal>,
}

impl Callers {
    /// These.
    pub fn new(callers: &[Caller]) -> Self {
        let mut known = Self::default();
        for Caller { user, credential } in callers {
            let (map, secret) = match credential {
                Credential::ApiKey(key) => (&mut known.by_key, key),
                Credential::Bearer(token) => (&mut known.by_token, token),
            };
            map.insert(Digest::of(secret.as_bytes()), Principal::User(user.clone()));
        }
        known
    }

    /// By which schemes they prove who they are.
    pub fn schemes(&self) -> CallerSchemes {
        CallerSchemes { api_key: !self.by_key.is_empty(), bearer: !self.by_token.is_empty(), needed: false }
    }

    /// Whom a credential proves that came as `key` or in `authorization`; none if there is none. One that proves nobody
    /// is refused.
    pub(super) fn of(
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
        let found = known.get(&Digest::of(secret.as_bytes()));
        found
            .cloned()
            .map(Some)
            .ok_or_else(|| Problem::new(Reason::Unauthenticated, "the credential proves nobody"))
    }
}
