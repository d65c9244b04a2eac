//! The answers to a client: one answer, or one event after the other (A2A §3.2.3, §4.2).

use super::{
    json::{Fields, FromProtoJson, InvalidField},
    message::Message,
    part::Artifact,
    task::{A2aTask, TaskStatus},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The status of a task has changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusUpdate {
    pub task_id: String,
    #[serde(default)]
    pub context_id: String,
    pub status: TaskStatus,
    /// Metadata of the server.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// A task has produced something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUpdate {
    pub task_id: String,
    #[serde(default)]
    pub context_id: String,
    /// The artifact, or a piece of it.
    pub artifact: Artifact,
    /// Whether its parts join the artifact of the same id.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// Whether no piece follows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_chunk: bool,
    /// Metadata of the server.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// One event of a stream, or the body of a push notification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StreamResponse {
    /// The task as it is.
    Task(Box<A2aTask>),
    /// An answer without a task.
    Message(Box<Message>),
    /// Its status has changed.
    StatusUpdate(Box<StatusUpdate>),
    /// It has produced something.
    ArtifactUpdate(Box<ArtifactUpdate>),
}

impl StreamResponse {
    /// As JSON for the wire.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether it ends its task.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Task(task) => task.status.state.is_terminal(),
            Self::StatusUpdate(update) => update.status.state.is_terminal(),
            Self::Message(_) => true,
            Self::ArtifactUpdate(_) => false,
        }
    }
}

/// What a message is answered with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SendMessageResponse {
    Task(Box<A2aTask>),
    /// A message, and no task.
    Message(Box<Message>),
}

impl FromProtoJson for StatusUpdate {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            task_id: fields.required_text("taskId")?,
            context_id: fields.text("contextId")?.unwrap_or_default(),
            status: fields.required("status")?,
            metadata: fields.object("metadata")?,
        })
    }
}

impl FromProtoJson for ArtifactUpdate {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        Ok(Self {
            task_id: fields.required_text("taskId")?,
            context_id: fields.text("contextId")?.unwrap_or_default(),
            artifact: fields.required("artifact")?,
            append: fields.flag("append")?.unwrap_or_default(),
            last_chunk: fields.flag("lastChunk")?.unwrap_or_default(),
            metadata: fields.object("metadata")?,
        })
    }
}

impl FromProtoJson for StreamResponse {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        let members = [
            fields.message("task")?.map(Box::new).map(Self::Task),
            fields.message("message")?.map(Box::new).map(Self::Message),
            fields.message("statusUpdate")?.map(Box::new).map(Self::StatusUpdate),
            fields.message("artifactUpdate")?.map(Box::new).map(Self::ArtifactUpdate),
        ];
        one(members, "task, message, statusUpdate, artifactUpdate")
    }
}

impl FromProtoJson for SendMessageResponse {
    fn from_proto(value: Value) -> Result<Self, InvalidField> {
        let mut fields = Fields::of(value)?;
        let task = fields.message("task")?.map(Box::new).map(Self::Task);
        one([task, fields.message("message")?.map(Box::new).map(Self::Message)], "task, message")
    }
}

fn one<T, const N: usize>(members: [Option<T>; N], names: &str) -> Result<T, InvalidField> {
    let mut members = members.into_iter().flatten();
    match (members.next(), members.next()) {
        (Some(member), None) => Ok(member),
        (None, _) => Err(InvalidField::new("", format!("needs one of {names}"))),
        (Some(_), Some(_)) => Err(InvalidField::new("", format!("may have only one of {names}"))),
    }
}
