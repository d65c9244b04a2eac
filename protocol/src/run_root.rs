//! The root of a run: the task from which all others of it come.

use crate::ids::{AgentId, TaskId};
use serde::{Deserialize, Serialize};

/// The task at the root of a run, and the agent that answers for it. What is proposed in the run waits for its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRoot {
    pub task: TaskId,
    pub agent: AgentId,
}
