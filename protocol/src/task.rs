//! The one task: A2A's states, A2A's JSON (A2A §4.1.1–4.1.3). What the mesh adds stands in `metadata` under
//! [`EXTENSION`].

use crate::{
    artifact::Artifact,
    ids::{AgentId, Capability, ConversationId, TaskId},
    principal::Principal,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The URI under which a task's metadata carries what the mesh adds: path, conversation, award.
pub const EXTENSION: &str = "urn:agent-mesh:ext:task:v1";

/// A task's state (A2A §4.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaskState {
    /// Taken, not begun.
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    /// Somebody is at it.
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    /// It waits for an answer from its owner.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    /// It waits for a credential.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
    /// Done, with a result.
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    /// It will not be done; the status message says why.
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    /// Its owner ended it.
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    /// The agent would not take it.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
}

impl TaskState {
    /// Whether nothing can follow it.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => true,
            Self::Submitted | Self::Working | Self::InputRequired | Self::AuthRequired => false,
        }
    }

    /// One word for people: `completed`, `input-required`, …
    pub fn word(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::AuthRequired => "auth-required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
        }
    }
}

/// What is asked, as every rule sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSpec {
    /// The task.
    pub task_id: TaskId,
    /// What to do, in words.
    pub description: String,
    /// The ability it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// What to do it with, any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Content it starts from, already resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// When it is of no use any more. Only shrinks on the way down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<WallTime>,
    /// Media types the asker can use; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_modes: Vec<String>,
    /// The agents it came through, oldest first, each authenticated by the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<AgentId>,
    /// The asker's own task that this one is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// On whose behalf all this happens: the principal who asked first. May see everything done for it.
    pub root: Principal,
}

/// A status: the state and, where there is something to say, a sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Where the task stands.
    pub state: TaskState,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Status {
    /// A state and a sentence about it.
    pub fn new(state: TaskState, message: impl Into<String>) -> Self {
        Self { state, message: Some(message.into()) }
    }
}

/// A task as its agent keeps and shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// What was asked.
    pub spec: TaskSpec,
    /// The conversation that does it.
    pub conversation: ConversationId,
    /// Who asked this agent, and so owns the task here.
    pub owner: Principal,
    /// Everyone else who may see it.
    #[serde(default)]
    pub participants: Vec<Principal>,
    /// Who is doing it, when another agent is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doer: Option<AgentId>,
    /// Where it stands.
    pub status: Status,
    /// When that changed last.
    pub changed_at: WallTime,
    /// When it was taken.
    pub created_at: WallTime,
    /// What has been produced so far.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
}

impl Task {
    /// Whether `principal` may see it.
    pub fn is_visible_to(&self, principal: &Principal) -> bool {
        self.owner == *principal || self.spec.root == *principal || self.participants.contains(principal)
    }

    /// A2A's Task, with what the mesh adds under [`EXTENSION`].
    pub fn to_a2a(&self) -> Value {
        let mut ours = json!({
            "conversationId": self.conversation,
            "description": self.spec.description,
            "owner": self.owner,
            "createdAt": self.created_at,
            "path": self.spec.path,
        });
        if let (Some(members), Some(capability)) = (ours.as_object_mut(), &self.spec.capability) {
            members.insert("capability".into(), json!(capability));
        }
        if let (Some(members), Some(parent)) = (ours.as_object_mut(), &self.spec.parent) {
            members.insert("parentTaskId".into(), json!(parent));
        }
        if let (Some(members), Some(doer)) = (ours.as_object_mut(), &self.doer) {
            members.insert("doer".into(), json!(doer));
        }
        let mut task = Map::new();
        task.insert("id".into(), json!(self.spec.task_id));
        task.insert("contextId".into(), json!(self.conversation));
        task.insert(
            "status".into(),
            status_json(&self.spec.task_id, &self.conversation, &self.status, self.changed_at),
        );
        if !self.artifacts.is_empty() {
            task.insert("artifacts".into(), json!(self.artifacts));
        }
        task.insert("metadata".into(), json!({ EXTENSION: ours }));
        Value::Object(task)
    }
}

/// A2A's TaskStatus.
pub fn status_json(task: &TaskId, conversation: &ConversationId, status: &Status, at: WallTime) -> Value {
    let mut json = json!({ "state": status.state, "timestamp": at });
    if let (Some(members), Some(text)) = (json.as_object_mut(), &status.message) {
        let message = json!({
            "messageId": format!("{task}.status"),
            "role": "ROLE_AGENT",
            "taskId": task,
            "contextId": conversation,
            "parts": [{ "text": text }],
        });
        members.insert("message".into(), message);
    }
    json
}
