//! What is to be done.

use crate::{
    artifact::Artifact,
    ids::{AgentId, Capability, TaskId},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Deref;

/// What a task demands: its requester says it, and its doer's brain is told it. Every message, record and prompt about a task
/// has these members beside its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskTerms {
    /// What is to be done.
    pub description: String,
    /// The capability that it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// What to do it with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// When it must be done (RFC 3339). It only gets earlier from agent to agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<WallTime>,
    /// Media types that the requester can use; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_modes: Vec<String>,
}

impl TaskTerms {
    /// Nothing but what is to be done.
    pub fn new(description: impl Into<String>) -> Self {
        Self { description: description.into(), ..Self::default() }
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id.
    pub task_id: TaskId,
    /// Read them as members of the task.
    #[serde(flatten)]
    pub terms: TaskTerms,
    /// The artifacts that come with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

impl Deref for Task {
    type Target = TaskTerms;

    fn deref(&self) -> &TaskTerms {
        &self.terms
    }
}

/// A question of another agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PeerQuestion {
    /// What is asked.
    pub question: String,
    /// The agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<AgentId>,
    /// The capability whose view is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// The agents through which it has come. Who is one of them answers it, and asks no other agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<AgentId>,
    /// The artifacts that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

/// A result to check. The turn ends with any message if it is accepted, and as `rejected` with the findings if not; any other
/// end says nothing about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResultToCheck {
    /// The task whose result it is.
    pub task_id: TaskId,
    /// What was to be done.
    pub description: String,
    /// The capability that it needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// What it was done with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The agent that did it.
    pub doer: AgentId,
    /// The summary of the doer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The JSON Schema that the request demands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// What a turn is about; `S` is a signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Subject<S = Value> {
    /// A task to do.
    Task(Task),
    /// A peer's question.
    Help(PeerQuestion),
    /// A result to check before it counts: the prompt's `produced`, and a message.
    Check(ResultToCheck),
    /// A signal that the agent subscribes to, as the board has it. A turn that ends with nothing to say has done its work.
    Signal(S),
}

impl<S> Subject<S> {
    /// The task to do, if it is one.
    pub fn task(&self) -> Option<&Task> {
        if let Self::Task(task) = self { Some(task) } else { None }
    }

    /// The task or result, by its id.
    pub fn task_id(&self) -> Option<&TaskId> {
        match self {
            Self::Task(Task { task_id, .. }) | Self::Check(ResultToCheck { task_id, .. }) => Some(task_id),
            Self::Help(_) | Self::Signal(_) => None,
        }
    }
}

/// A task's state (A2A §4.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaskState {
    /// Accepted, not started.
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    /// It is being done.
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
    /// Its owner cancelled it.
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    /// The agent rejected it.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
}

impl TaskState {
    /// Whether it is terminal.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether it waits for its owner: for an answer, or for a credential (A2A §4.1.3).
    pub fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
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

#[cfg(feature = "schema")]
impl schemars::JsonSchema for TaskState {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TaskState".into()
    }

    // Later versions may know more states.
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// An earlier task of the same A2A context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PastTask {
    /// Its id.
    pub task_id: TaskId,
    /// What was to be done.
    pub description: String,
    /// How it ended, as A2A names it: `TASK_STATE_COMPLETED`, ….
    pub state: TaskState,
    /// Its summary, or why it failed; without one, the beginning of the artifact that it wrote last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl PastTask {
    /// What was asked and how it was answered, a line each.
    pub fn words(&self) -> String {
        let answer = self.message.as_deref().unwrap_or_else(|| self.state.word());
        format!("The user: {}\nThe answer: {answer}\n", self.description)
    }
}
