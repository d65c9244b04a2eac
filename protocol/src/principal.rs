//! Who speaks. Every request yields one principal; every lookup takes one (DESIGN §8).

use crate::ids::{AgentId, BadId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who a request was proven to come from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Principal {
    /// An agent of the mesh, by its signature.
    Agent(AgentId),
    /// A user; `local` is the user on this machine.
    User(AgentId),
}

impl Principal {
    /// The user on this machine, who needs no credential on loopback.
    pub fn local_user() -> Self {
        Self::User(AgentId::parse("local").unwrap_or_else(|_| unreachable!("`local` is an id")))
    }

    /// Its text in two parts: what it is, and its id. Neither has anything that JSON would escape.
    pub fn parts(&self) -> [&str; 2] {
        match self {
            Self::Agent(id) => ["agent:", id.as_str()],
            Self::User(id) => ["user:", id.as_str()],
        }
    }

    /// The agent, if it is one.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(id) => Some(id),
            Self::User(_) => None,
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().into_iter().try_for_each(|part| f.write_str(part))
    }
}

impl Serialize for Principal {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl TryFrom<String> for Principal {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        match text.split_once(':') {
            Some(("agent", id)) => AgentId::parse(id).map(Self::Agent),
            Some(("user", id)) => AgentId::parse(id).map(Self::User),
            _ => AgentId::parse(&text).map(Self::User),
        }
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> String {
        principal.to_string()
    }
}
