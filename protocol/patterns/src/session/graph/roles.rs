//! What a seat is in its stage, and who may speak to whom.

use super::Graph;
use protocol::ids::AgentId;
use serde::{Deserialize, Serialize};

/// The name of the agent in the cast that leads.
const LEAD: &str = "lead";

/// What a seat is in its stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeatRole {
    /// It does a part of the work.
    #[default]
    Member,
    /// It sees everything, messages to others included.
    Observer,
    /// The same, and it may address any seat, while nobody addresses it alone.
    Supervisor,
}

impl SeatRole {
    /// Whether it sees everything, and has no turn in the order of the stage.
    pub fn watches(self) -> bool {
        match self {
            Self::Member => false,
            Self::Observer | Self::Supervisor => true,
        }
    }
}

/// When a seat that watches has a turn without being addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeatReviews {
    /// After every turn of a member.
    EachAction,
}

/// Who may speak to whom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionRouting {
    /// Seats speak to each other within a stage.
    #[default]
    SameStage,
    /// Seats speak to the host, the lead and supervisors, and these to any seat.
    UpDown,
    /// What seats say to each other goes through the host, as messages of a stage: no `help`, no `delegate`.
    Mediated,
}

/// Whose the findings of a session are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionFindings {
    /// The session's: its seats see these and no others, and they end with it.
    #[default]
    Session,
    /// Those of its space, as any task's.
    Shared,
}

impl SessionRouting {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::SameStage => "same-stage",
            Self::UpDown => "up-down",
            Self::Mediated => "mediated",
        }
    }
}

impl Graph {
    /// Who may speak to whom.
    pub fn routing(&self) -> SessionRouting {
        self.routing.unwrap_or_default()
    }

    /// The agent of the cast that leads, if it is spoken to by every seat.
    pub(crate) fn lead(&self) -> Option<AgentId> {
        let lead = self.cast.get(LEAD).filter(|_| self.routing() == SessionRouting::UpDown)?;
        AgentId::parse(lead).ok()
    }

    /// Whether `agent` is spoken to by every seat, and may speak to every seat.
    pub(crate) fn is_up(&self, host: &AgentId, agent: &AgentId) -> bool {
        agent == host || self.lead().as_ref() == Some(agent)
    }
}
