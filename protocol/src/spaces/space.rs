//! A space: its members with their roles, how they may address each other, and what the curator may merge by itself.

use super::EntryType;
use crate::{
    ids::{AgentId, BadId},
    principal::Principal,
    problem::{Problem, Reason},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

pub use crate::ids::SpaceId;

/// The name of the space that always exists.
pub const DEFAULT_SPACE: &str = "default";

/// The most members that a space names.
pub const MAX_MEMBERS: usize = 1_000;

/// A space. Its JSON is the same on the wire, in configuration and in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Space {
    /// Its name; set by the board from the path.
    #[serde(default = "Space::default_id")]
    pub id: SpaceId,
    /// Its members. In the space `default` every agent is a member beside them.
    #[serde(default)]
    pub members: BTreeMap<MemberId, SpaceRole>,
    /// Who may address whom in its sessions.
    #[serde(default)]
    pub routing: SpaceRouting,
    /// The types of proposals that the curator merges without a person.
    #[serde(default)]
    pub auto_merge: BTreeSet<EntryType>,
    /// Counts its changes, from 1; 0 before it is stored. In a change it names the version that is replaced.
    #[serde(default)]
    pub version: u64,
}

impl Space {
    fn default_id() -> SpaceId {
        SpaceId::parse(DEFAULT_SPACE).unwrap_or_else(|_| unreachable!("`default` is an id"))
    }

    /// A space without members.
    pub fn new(id: SpaceId) -> Self {
        Self {
            id,
            members: BTreeMap::new(),
            routing: SpaceRouting::default(),
            auto_merge: BTreeSet::new(),
            version: 0,
        }
    }

    /// The space `default`, before anybody has changed it.
    pub fn initial_default() -> Self {
        Self::new(Self::default_id())
    }

    /// Whether it is the space `default`.
    pub fn is_default(&self) -> bool {
        self.id.as_str() == DEFAULT_SPACE
    }

    /// Whether it has the members, the routing and the types to merge of `wanted`.
    pub fn is_set_as(&self, wanted: &Self) -> bool {
        let set = |space: &Self| (space.members.clone(), space.routing, space.auto_merge.clone());
        set(self) == set(wanted)
    }

    /// Refuses more than [`MAX_MEMBERS`] members, and types in `autoMerge` that a person has to decide.
    pub fn check(&self) -> Result<(), Problem> {
        if self.members.len() > MAX_MEMBERS {
            let message = format!("members: {} are named, the limit is {MAX_MEMBERS}", self.members.len());
            return Err(Problem::new(Reason::InvalidField, message).with("field", "members"));
        }
        match self.auto_merge.iter().find(|kind| !kind.is_low_risk()) {
            None => Ok(()),
            Some(kind) => {
                let message = format!(
                    "autoMerge: {kind} needs a person's decision; learning, pattern and update are possible"
                );
                Err(Problem::new(Reason::InvalidField, message).with("field", "autoMerge"))
            }
        }
    }
}

/// What a member may do in a space. A later one may do what an earlier one may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpaceRole {
    Observer,
    /// Posts findings, proposals and memory.
    Member,
    /// Decides: merges, rejects, supersedes, archives.
    Curator,
    Owner,
}

impl fmt::Display for SpaceRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Observer => "observer",
            Self::Member => "member",
            Self::Curator => "curator",
            Self::Owner => "owner",
        })
    }
}

/// Who may address whom in a session of the space (DESIGN §14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SpaceRouting {
    /// Every seat may address every other.
    #[default]
    Open,
    /// Only seats of the same stage.
    SameStage,
    /// Only the host and the lead.
    UpDown,
    /// Only through the host.
    Mediated,
}

/// A member of a space: an agent by its id, or a user as `user:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MemberId {
    /// An agent of the mesh.
    Agent(AgentId),
    /// A user with a credential; `local` is the person with the mesh's token.
    User(AgentId),
}

impl MemberId {
    /// The member that `principal` is; a brain is its agent. `None` for a service.
    pub fn of(principal: &Principal) -> Option<Self> {
        match principal {
            Principal::Agent(id) | Principal::Brain(id) => Some(Self::Agent(id.clone())),
            Principal::User(id) => Some(Self::User(id.clone())),
            Principal::Service(_) => None,
        }
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(id) => id.fmt(f),
            Self::User(id) => write!(f, "user:{id}"),
        }
    }
}

impl TryFrom<String> for MemberId {
    type Error = BadId;
    fn try_from(text: String) -> Result<Self, BadId> {
        match text.split_once(':') {
            Some(("user", id)) => AgentId::parse(id).map(Self::User),
            Some(("agent", id)) => AgentId::parse(id).map(Self::Agent),
            _ => AgentId::parse(&text).map(Self::Agent),
        }
    }
}

impl From<MemberId> for String {
    fn from(member: MemberId) -> String {
        member.to_string()
    }
}
