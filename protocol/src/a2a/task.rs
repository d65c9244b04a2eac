//! The A2A task on the wire (A2A §4.1.1–4.1.3). The stored task is [`crate::task::Task`].

use super::{
    json::{Fields, FromProtoJson, InvalidField, choice},
    message::Message,
    part::Artifact,
};
use crate::time::WallTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use wire::task::TaskState;

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aTask {
    /// Made by the server.
    pub id: String,
    /// The context it belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    pub status: TaskStatus,
    /// What it has produced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The messages, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
    /// Metadata of the server, and of extensions under their URIs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl A2aTask {
    /// The same with at most so many of the newest messages; all of them if it is unset (A2A §3.2.4).
    #[must_use]
    pub fn with_history(mut self, most: Option<usize>) -> Self {
        if let Some(most) = most {
            let old = self.history.len().saturating_sub(most);
            self.history.drain(..old);
        }
        self
    }
}

/// The status of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    pub state: TaskState,
    /// A message of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<WallTime>,
}

const STATES: &[(&str, Option<TaskState>)] = &[
    ("TASK_STATE_UNSPECIFIED", None),
    ("TASK_STATE_SUBMITTED", Some(TaskState::Submitted)),
    ("TASK_STATE_WORKING", Some(TaskState::Working)),
    ("TASK_STATE_COMPLETED", Some(TaskState::Completed)),
    ("TASK_STATE_FAILED", Some(TaskState::Failed)),
    ("TASK_STATE_CANCELED", Some(TaskState::Canceled)),
    ("TASK_STATE_INPUT_REQUIRED", Some(TaskState::InputRequired)),
    ("TASK_STATE_REJECTED", Some(TaskState::Rejected)),
    ("TASK_STATE_AUTH_REQUIRED", Some(TaskState::AuthRequired)),
];

/// A state in a place where none means any.
pub(super) fn state_if_any(value: &Value) -> Result<Option<TaskState>, InvalidField> {
    choice(value, STATES)
}

impl FromProtoJson for TaskState {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        choice(&value, STATES)?.ok_or_else(|| InvalidField::new("", "is required, is TASK_STATE_UNSPECIFIED"))
    }
}

impl FromProtoJson for TaskStatus {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            state: fields.required("state")?,
            message: fields.message("message")?,
            timestamp: fields.time("timestamp")?,
        })
    }
}

impl FromProtoJson for A2aTask {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            id: fields.required_text("id")?,
            context_id: fields.text("contextId")?.unwrap_or_default(),
            status: fields.required("status")?,
            artifacts: fields.list("artifacts")?,
            history: fields.list("history")?,
            metadata: fields.object("metadata")?,
        })
    }
}
