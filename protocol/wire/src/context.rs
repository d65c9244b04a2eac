//! What a turn is given of the turns before it in the same context: on one seat of a session, or in one A2A context of a user.

use crate::{
    artifact::Artifact,
    ids::{AgentId, TaskId},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The earlier turns of a context, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TurnContext {
    /// A line about each turn that is not given whole; empty if all are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// What was said before the chat came to this agent, in words, once it has had a turn in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub before: String,
    /// The turns that are given whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<PastTurn>,
}

/// A turn that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PastTurn {
    /// Its task.
    pub task_id: TaskId,
    /// Where it was: the stage, the round and whom it talked with alone; empty if it was on no seat.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// What the user has said; absent for the turn of a seat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// What is left of the turns before it, in the brain's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What was new to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<Artifact>,
    /// Its notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Value>,
    /// What it has produced, its messages to single seats included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub produced: Vec<Artifact>,
    /// Its last words, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The agent that has answered, if the chat was handed over to another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AgentId>,
}

/// How a chat came to the agent of a turn: another agent has handed it over, or back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChatHandover {
    /// The agent that has handed it over.
    pub by: AgentId,
    /// Why.
    pub reason: String,
    /// Whether the agent of the turn had it before: it has come back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_back: bool,
    /// What is left of what was said long ago.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
}
