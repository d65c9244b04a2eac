//! What the directory decides: rows as they are to be, whom it is told, or why not.

use crate::entry::Presence;
use protocol::{
    card::Card,
    ids::AgentId,
    problem::{Problem, Reason},
    time::NodeTime,
};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, sync::Arc};

/// What is durable about an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What it said of itself.
    pub card: Arc<Card>,
    /// Which process it is: random, minted at its start.
    pub instance: String,
    /// Which processes it was before, the latest last.
    #[serde(default)]
    pub superseded: VecDeque<String>,
    /// Which life of it this is.
    pub incarnation: u64,
    /// Since when it is no longer there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Gone>,
}

/// How and when an agent ceased to be there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gone {
    /// Dead or departed.
    pub presence: Presence,
    /// When.
    pub at: NodeTime,
}

/// Why an agent left, as `agent.left` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// Its lease ran out.
    Expired,
    /// It said goodbye.
    Deregistered,
    /// It said goodbye after it had finished or handed back what it did.
    Drained,
    /// A new process of the same agent took its place.
    Superseded,
}

impl Departure {
    /// The word on the board.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Deregistered => "deregistered",
            Self::Drained => "drained",
            Self::Superseded => "superseded",
        }
    }
}

/// Something others are to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An agent came.
    Joined {
        /// Who.
        id: AgentId,
        /// In which life.
        incarnation: u64,
        /// Where it listens.
        endpoint: String,
    },
    /// An agent left.
    Left {
        /// Who.
        id: AgentId,
        /// Which life of it ended.
        incarnation: u64,
        /// Why.
        why: Departure,
    },
}

impl Notice {
    pub(super) fn id(&self) -> &AgentId {
        match self {
            Self::Joined { id, .. } | Self::Left { id, .. } => id,
        }
    }

    pub(super) fn joined(row: &Row) -> Self {
        let (id, endpoint) = (row.card.agent_id.clone(), row.card.endpoint.clone());
        Self::Joined { id, incarnation: row.incarnation, endpoint }
    }

    pub(super) fn left(row: &Row, why: Departure) -> Self {
        Self::Left { id: row.card.agent_id.clone(), incarnation: row.incarnation, why }
    }
}

/// A decision: everything it writes, and whom it is told. It takes effect when it is applied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// Rows as they are to be.
    pub written: Vec<Row>,
    /// Rows that go.
    pub forgotten: Vec<AgentId>,
    /// The highest incarnation of any row that was forgotten; new agents start above it.
    pub floor: u64,
    /// What others are to be told, in order.
    pub notices: Vec<Notice>,
}

/// The answer to a registration.
#[derive(Debug)]
pub struct Admitted {
    /// Which life of the agent this is.
    pub incarnation: u64,
    /// What has to be made durable first; nothing for a repeat.
    pub change: Option<Change>,
}

/// Why the directory does not do what it is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nobody registered of that id and incarnation: it has to register, or to do so again.
    #[error("no agent {0} is registered: register (again) at POST {agents}", agents = protocol::routes::AGENTS)]
    Unknown(AgentId),
    /// A later process of the same agent has taken over.
    #[error(
        "agent {id} is in its incarnation {current} by now; yours is superseded, stop working under this id"
    )]
    Stale {
        /// Who.
        id: AgentId,
        /// The incarnation in force.
        current: u64,
    },
    /// There is no room for another agent.
    #[error("the registry holds its limit of {0} agents")]
    Full(usize),
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        match refused {
            Refused::Unknown(_) => Self::new(Reason::AgentNotFound, message),
            Refused::Stale { current, .. } => {
                Self::new(Reason::StaleIncarnation, message).with("incarnation", current)
            }
            Refused::Full(_) => Self::new(Reason::Overloaded, message),
        }
    }
}

/// How many agents there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Heard of in time.
    pub alive: usize,
    /// Two heartbeats missing.
    pub suspect: usize,
    /// Left within the last day.
    pub gone: usize,
    /// Of how many it is kept back that they come and go.
    pub flapping: usize,
    /// Whether more agents are overdue than may expire: something is wrong with the network rather than with them.
    pub self_preserving: bool,
}
