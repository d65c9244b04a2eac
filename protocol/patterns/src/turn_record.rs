//! What the log of a task's turns holds, and what of it a turn is given.

use super::{
    chunk::ChunkRange,
    turn::{Checkpoint, RequestResult},
};
use protocol::a2a::message::Message;
use serde::{Deserialize, Serialize};

/// A record of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "record")]
pub enum TurnRecord {
    /// The result of a request of the brain.
    Answer(RequestResult),
    /// A message of the owner.
    Message(Box<Message>),
    /// A note of the brain to itself.
    Checkpoint(Checkpoint),
}

/// The answers and messages that a turn is given, by their numbers. The answers are those before a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnInput {
    /// The number of answers.
    #[serde(default)]
    pub answers: u64,
    /// The messages that are new to it.
    #[serde(default)]
    pub messages: ChunkRange,
    /// The chunks of a refused result, for the artifacts of the prompt's `revision`.
    #[serde(default, skip_serializing_if = "ChunkRange::is_default")]
    pub refused: ChunkRange,
}

impl TurnInput {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a turn is given none.
    pub fn is_empty(&self) -> bool {
        self.answers == 0 && self.messages.is_empty() && self.refused.is_empty()
    }
}
