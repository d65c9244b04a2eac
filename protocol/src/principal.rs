//! Who speaks. Every request yields one principal; every lookup takes one (DESIGN §8).

use crate::ids::{AgentId, BadId};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Who a request was proven to come from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub enum Principal {
    /// An agent of the mesh, by its signature.
    Agent(AgentId),
    /// A user; `local` is the user on this machine.
    User(AgentId),
    /// A service of the mesh, by its signature.
    Service(MeshService),
    /// The brain of an agent, by the token that its node gave it.
    Brain(AgentId),
}

/// What proves the principal of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SenderProof {
    /// A token, an API key or a signature.
    Credential,
    /// The address it comes from, which makes it the local user's.
    Address,
}

/// How the agent that met the principal at the root of a task knew who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RootProof {
    /// By a configured credential: an API key or a client's secret.
    Credential,
    /// By a person's token.
    Token,
    /// By the address of the request: the user of the machine.
    Local,
    /// By the signature of an agent, which is the root itself.
    Signature,
}

impl RootProof {
    /// How `root`, who made a request with this proof, is known.
    pub fn of(root: &Principal, proof: SenderProof) -> Self {
        match (root, proof) {
            (Principal::Agent(_) | Principal::Service(_), _) => Self::Signature,
            (Principal::User(_), SenderProof::Address) => Self::Local,
            (Principal::User(user), SenderProof::Credential) if user.as_str() != "local" => Self::Credential,
            (Principal::User(_) | Principal::Brain(_), _) => Self::Token,
        }
    }

    /// A proof that this version knows. What a later version adds counts as none.
    pub fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        Ok(Self::deserialize(serde_json::Value::deserialize(from)?).ok())
    }
}

/// Who is at the root of a task, and how that is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRoot {
    pub principal: Principal,
    /// Unproven if absent.
    #[serde(default, deserialize_with = "RootProof::known", skip_serializing_if = "Option::is_none")]
    pub proof: Option<RootProof>,
}

impl TaskRoot {
    /// The person whose mesh it is, proven.
    pub fn person() -> Self {
        Self { principal: Principal::local_user(), proof: Some(RootProof::Token) }
    }

    /// An agent that does something on its own behalf.
    pub fn agent(agent: &AgentId) -> Self {
        Self { principal: Principal::Agent(agent.clone()), proof: Some(RootProof::Signature) }
    }

    /// The principal that `sender` names with this proof. An agent that names itself has signed.
    pub fn named_by(sender: &Principal, principal: Principal, proof: Option<RootProof>) -> Self {
        let is_signed = *sender == principal && principal.agent().is_some();
        Self { principal, proof: if is_signed { Some(RootProof::Signature) } else { proof } }
    }

    /// Whether it is the person whose mesh it is, proven.
    pub fn is_person(&self) -> bool {
        self.principal == Principal::local_user() && self.sender_proof() == SenderProof::Credential
    }

    /// What the principal has proven itself with, as in a request of its own.
    pub fn sender_proof(&self) -> SenderProof {
        match self.proof {
            Some(RootProof::Credential | RootProof::Token | RootProof::Signature) => SenderProof::Credential,
            Some(RootProof::Local) | None => SenderProof::Address,
        }
    }

    /// The user that it is proven to be, by a credential: the address of a request is also that of every program on a machine.
    pub fn proven_user(&self) -> Option<&Principal> {
        let is_proven = matches!(self.proof, Some(RootProof::Credential | RootProof::Token));
        Some(&self.principal).filter(|principal| is_proven && matches!(principal, Principal::User(_)))
    }
}

/// A service of the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MeshService {
    Registry,
    Board,
}

impl MeshService {
    /// The service with this name.
    fn parse(name: &str) -> Option<Self> {
        [Self::Registry, Self::Board].into_iter().find(|service| service.name() == name)
    }

    /// Its name, with which it signs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Board => "board",
        }
    }
}

impl Principal {
    /// The user on this machine, who needs no credential on loopback.
    pub fn local_user() -> Self {
        Self::User(AgentId::parse("local").unwrap_or_else(|_| unreachable!("`local` is an id")))
    }

    /// The principal that signs as `id`: a service under a service's name, else the agent.
    pub fn of_signer(id: AgentId) -> Self {
        match MeshService::parse(id.as_str()) {
            Some(service) => Self::Service(service),
            None => Self::Agent(id),
        }
    }

    /// Its text in two parts: what it is, and its id. Neither has anything that JSON would escape.
    pub fn parts(&self) -> [&str; 2] {
        match self {
            Self::Agent(id) => ["agent:", id.as_str()],
            Self::User(id) => ["user:", id.as_str()],
            Self::Service(service) => ["service:", service.name()],
            Self::Brain(id) => ["brain:", id.as_str()],
        }
    }

    /// Its id without what it is; a label only.
    pub fn id(&self) -> &str {
        self.parts()[1]
    }

    /// The agent, if it is one.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(id) => Some(id),
            Self::User(_) | Self::Service(_) | Self::Brain(_) => None,
        }
    }

    /// Whether it is an agent or a service. The mesh believes them when they name another principal.
    pub fn is_of_mesh(&self) -> bool {
        matches!(self, Self::Agent(_) | Self::Service(_))
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
            Some(("brain", id)) => AgentId::parse(id).map(Self::Brain),
            Some(("service", name)) => match MeshService::parse(name) {
                Some(service) => Ok(Self::Service(service)),
                None => AgentId::parse(&text).map(Self::User),
            },
            _ => AgentId::parse(&text).map(Self::User),
        }
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> String {
        principal.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_is_read_as_it_is_written() {
        let parse = |text: &str| Principal::try_from(text.to_owned());
        for text in ["agent:a-1", "user:local", "user:anna", "service:registry", "service:board", "brain:a-1"]
        {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("anna"), parse("user:anna"), "a user by itself");
        for bad in ["service:mesh", "service:", "brain:", "agent:../x", "group:a"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let signer = |id: &str| Principal::of_signer(AgentId::parse(id).unwrap()).to_string();
        assert_eq!((signer("registry"), signer("a-1")), ("service:registry".into(), "agent:a-1".into()));
    }
}
