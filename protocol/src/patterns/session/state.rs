//! The state of a session: which stage and seat is where. What was said is in the task's log; here are its numbers.

use crate::{
    ids::{AgentId, Digest},
    patterns::ChunkRange,
    time::WallTime,
};
use serde::{Deserialize, Serialize};

/// Where a stage is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StageState {
    /// Stages before it have not ended.
    #[default]
    Waiting,
    /// Its seats work.
    Running,
    /// A person is asked about its result.
    Gated,
    /// It has ended with a label.
    Done,
    /// It has failed.
    Failed,
    /// A stage that it needs has failed.
    Blocked,
    /// Another way was taken.
    Skipped,
}

impl StageState {
    /// Whether it has ended.
    pub(super) fn has_ended(self) -> bool {
        match self {
            Self::Done | Self::Failed | Self::Blocked | Self::Skipped => true,
            Self::Waiting | Self::Running | Self::Gated => false,
        }
    }
}

/// Where a seat is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub(super) enum SeatState {
    /// It waits for its turn.
    #[default]
    Idle,
    /// It has its turn.
    Speaking {
        /// The name of the turn.
        turn: String,
    },
    /// It is done with the stage.
    Done,
    /// Its turns have failed.
    Failed {
        /// Why.
        why: String,
    },
}

/// A seat of a running stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SeatRun {
    #[serde(flatten)]
    pub(super) state: SeatState,
    /// The agent that has taken it, if it is a capability's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filled: Option<AgentId>,
    /// Its turns, those that failed included.
    pub(super) turns: u32,
    /// Failures of its current turn.
    pub(super) failures: u32,
    /// The number of the next message that it has not seen.
    pub(super) seen: u64,
    /// Whether a message has reopened it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) reopened: bool,
    /// Its messages that were not delivered, and why; its next turn is told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) refused: Vec<String>,
}

impl SeatRun {
    pub(super) fn is_speaking(&self) -> bool {
        matches!(self.state, SeatState::Speaking { .. })
    }
}

/// A stage as it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StageRun {
    pub(super) state: StageState,
    /// How often it was begun.
    pub(super) iteration: u32,
    /// How often it has gone back.
    pub(super) looped: u32,
    pub(super) round: u32,
    pub(super) seats: Vec<SeatRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) opened: Option<WallTime>,
    /// Since when a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gated: Option<WallTime>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    /// Why it ended so, or why it waits no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// Whether something that it was made of is missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) partial: bool,
    /// What its seats have contributed to the team.
    pub(super) findings: u32,
    /// Its end waits for running turns.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) closing: bool,
    /// The content of the round so far, and of the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) this_round: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_round: Option<Digest>,
    /// The last words of each seat, for the stages after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) result: Vec<Said>,
    /// What it is given when it is begun again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) feedback: Vec<Said>,
}

/// Something that a seat has said: artifacts in the task's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Said {
    /// Counts what was said in the session.
    pub(super) number: u64,
    pub(super) stage: usize,
    /// The seat; a person, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seat: Option<usize>,
    /// The seats that it is for; all, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) to: Vec<usize>,
    pub(super) artifacts: Vec<String>,
    pub(super) chunks: ChunkRange,
    pub(super) bytes: usize,
    /// Whether it is the text or result of a turn, not a message on the way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_last_word: bool,
}

impl Said {
    /// Whether seat `place` of its stage may see it.
    pub(super) fn is_for(&self, place: usize) -> bool {
        self.to.is_empty() || self.to.contains(&place) || self.seat == Some(place)
    }
}
