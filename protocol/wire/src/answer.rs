//! What comes back to a brain.

use crate::{
    artifact::Artifact,
    ids::{AgentId, TaskId},
    question::Decision,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The result of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RequestResult {
    /// The id of the request.
    pub id: String,
    /// Whether there is an answer.
    pub ok: bool,
    /// The agent whose brain gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
    /// The agent that is accountable for it, if it is another one: it says who did it. Of a task for a capability, this agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<AgentId>,
    /// The answer, or why there is none.
    pub text: String,
    /// Its artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The id of a delegated task at its doer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The decision on an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The values of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Map<String, Value>>,
    /// How the turn of a seat ended. Only the host of a session is given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub seat: Option<SeatEnd>,
    /// The first turn that is given it.
    #[serde(default)]
    pub for_turn: u32,
}

/// How the turn of a seat in a session ended, as it travels in the result of its task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeatEnd {
    /// Whether only the turn is over: the seat has another one in the next round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passed: bool,
    /// The label of the stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether it has called a tool, asked others or posted something: a turn without words may have worked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acted: bool,
    /// How many findings it has posted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub findings: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What was refused of the result of an earlier attempt, for the doer that tries again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResultRevision {
    /// What is wrong with it.
    pub findings: String,
    /// The refused artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}
