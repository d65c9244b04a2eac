//! What was said between the agent of a task and its language model, as people read it.

use crate::{time::WallTime, usage::ModelUsage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that was said, with the turn of the brain in which it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelLine {
    pub at: WallTime,
    pub turn: u32,
    #[serde(flatten)]
    pub what: ModelWords,
}

/// What was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum ModelWords {
    /// The model was told something that came later than the task: by a person, or by another agent.
    Told {
        text: String,
        /// The images and files that came with it, by name or media type.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
    },
    /// The model answered.
    Answered(Box<ModelReply>),
    /// No answer came, or it broke off: why, as a code.
    Failed { code: String, usage: ModelUsage },
    /// Words were dropped, because the conversation was too long.
    Dropped { what: Vec<String> },
}

/// An answer of the model and what came of its calls.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelReply {
    pub text: String,
    /// What it thought before, if its provider sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ModelToolCall>,
    /// What it was told about its answer, such as what is wrong with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The call that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ModelUsage>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelToolCall {
    pub id: String,
    pub name: String,
    /// As the model wrote them.
    pub arguments: Value,
    /// With what it was made, if a hook or a person has changed the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_with: Option<Value>,
    /// How often it was started.
    pub starts: u32,
    /// What the model was told of its result; `None` while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}
