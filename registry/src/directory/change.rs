//! The decisions of the directory: changed rows, membership events, errors.

use crate::{entry::Presence, pinned_keys::PinnedKey};
use protocol::{
    card::Card,
    ids::AgentId,
    problem::{Problem, Reason},
    time::NodeTime,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// The stored record of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentRow {
    pub card: Arc<Card>,
    /// The random id of its process, minted at its start.
    pub instance: String,
    /// The instances of its former processes, the latest last.
    #[serde(default)]
    pub superseded: VecDeque<String>,
    pub incarnation: u64,
    /// How and when it left; `None` while it is live.
    #[serde(rename = "gone", default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitRecord>,
}

/// How and when an agent left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitRecord {
    pub presence: Presence,
    /// The time of its exit.
    pub at: NodeTime,
    /// Whether it counts as departed only because it has been away for longer than its card says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_lapsed: bool,
}

/// Why an agent left, as in `agent.left` signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    Expired,
    Deregistered,
    /// It deregistered after it had finished or handed back its work.
    Drained,
    /// A new process of the same agent took its place.
    Superseded,
}

impl Departure {
    /// Whether it is away or has left.
    pub fn presence(self) -> Presence {
        match self {
            Self::Expired | Self::Drained | Self::Superseded => Presence::Dead,
            Self::Deregistered => Presence::Departed,
        }
    }

    /// The `reason` in the signal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Deregistered => "deregistered",
            Self::Drained => "drained",
            Self::Superseded => "superseded",
        }
    }
}

/// An agent joined or left; published as a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MembershipEvent {
    Joined {
        id: AgentId,
        incarnation: u64,
        endpoint: String,
        /// How many tasks it does at once.
        max_parallel: u32,
    },
    Left {
        id: AgentId,
        /// The incarnation that ended.
        incarnation: u64,
        reason: Departure,
    },
}

impl MembershipEvent {
    pub(super) fn id(&self) -> &AgentId {
        match self {
            Self::Joined { id, .. } | Self::Left { id, .. } => id,
        }
    }

    pub(super) fn joined(row: &AgentRow) -> Self {
        Self::Joined {
            id: row.card.agent_id.clone(),
            incarnation: row.incarnation,
            endpoint: row.card.endpoint.clone(),
            max_parallel: row.card.terms.max_parallel,
        }
    }

    pub(super) fn left(row: &AgentRow, reason: Departure) -> Self {
        Self::Left { id: row.card.agent_id.clone(), incarnation: row.incarnation, reason }
    }
}

/// A decision: the rows it writes and the events it publishes. It takes effect when it is applied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DirectoryChange {
    pub written: Vec<AgentRow>,
    /// Keys to pin, or to give up.
    pub pinned: Vec<PinnedKey>,
    /// Agents whose rows are deleted.
    pub forgotten: Vec<AgentId>,
    /// How many of the rows are of agents whose leases are over.
    pub expired: usize,
    /// The highest incarnation of any forgotten row; new agents start above it.
    pub floor: u64,
    /// Events to publish, in order.
    pub events: Vec<MembershipEvent>,
    /// Agents with events that are not published, because they flap.
    pub suppressed: BTreeSet<AgentId>,
    /// Agents that flapped and have settled.
    pub settled: Vec<AgentId>,
}

/// The decision on a registration.
#[derive(Debug)]
pub struct RegistrationDecision {
    pub incarnation: u64,
    /// The change to commit and apply; `None` for a repeat.
    pub change: Option<DirectoryChange>,
}

/// Why the directory refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// No agent of that id and incarnation is registered; the sender has to register (again).
    #[error("no agent {0} is registered: register (again) at POST {agents}", agents = protocol::routes::AGENTS)]
    Unknown(AgentId),
    /// A later process of the same agent has taken over.
    #[error(
        "agent {id} is in its incarnation {current} by now; yours is superseded, stop working under this id"
    )]
    Stale { id: AgentId, current: u64 },
    /// It is there, so it can't be forgotten.
    #[error("agent {0} is there: stop it first")]
    Present(AgentId),
    /// The limit of agents is reached.
    #[error("the registry holds its limit of {0} agents")]
    Full(usize),
}

impl From<DirectoryError> for Problem {
    fn from(error: DirectoryError) -> Self {
        let message = error.to_string();
        match error {
            DirectoryError::Unknown(_) => Self::new(Reason::AgentNotFound, message),
            DirectoryError::Stale { current, .. } => {
                Self::new(Reason::StaleIncarnation, message).with("incarnation", current)
            }
            DirectoryError::Present(_) => Self::new(Reason::AgentPresent, message),
            DirectoryError::Full(_) => Self::new(Reason::Overloaded, message),
        }
    }
}

/// Counts of agents by state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryStats {
    /// Agents whose heartbeats arrive in time.
    pub alive: usize,
    /// Agents with two heartbeats missing.
    pub suspect: usize,
    /// Dead and departed agents whose rows are kept.
    pub gone: usize,
    /// Agents whose joined and left signals are suppressed.
    pub flapping: usize,
    /// Whether more agents are overdue than may expire; then the network is the likely cause.
    pub self_preserving: bool,
}
