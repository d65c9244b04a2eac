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

    /// The user of an API key. Fails for an unknown one.
    pub(super) fn of_key(&self, key: &str) -> Result<Principal, Problem> {
        user_of(&self.by_key, key)
    }

    /// The user of a bearer token. Fails for an unknown one.
    pub(super) fn of_token(&self, token: &str) -> Result<Principal, Problem> {
        user_of(&self.by_token, token)
    }
}

fn user_of(known: &BTreeMap<Digest, Principal>, secret: &str) -> Result<Principal, Problem> {
    let found = known.get(&Digest::of(secret.as_bytes()));
    found.cloned().ok_or_else(|| Problem::new(Reason::Unauthenticated, "the credential proves nobody"))
}
