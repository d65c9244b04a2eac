//! How the turn of a seat in a session ended, as it travels in the result of its task.

use crate::ids::AgentId;
use serde::{Deserialize, Serialize};

/// How the turn of a seat ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeatEnd {
    /// Whether only the turn is over: the seat has another one in the next round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passed: bool,
    /// The label of the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The agent that has taken the seat, if it is a capability's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doer: Option<AgentId>,
}
