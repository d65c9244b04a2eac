//! What a brain can call, as far as its node knows: the tool servers with their state, and the tools of each.

use protocol::time::WallTime;
use serde::{Deserialize, Serialize};

/// What a brain can call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrainTools {
    /// Its tool servers, in the order of the configuration.
    pub servers: Vec<ToolServerReport>,
    /// What the mesh gives to it, each tool in some of its turns.
    pub built_in: Vec<OfferedTool>,
}

/// A tool server, as it was when it was used last: nothing is started or asked for the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolServerReport {
    pub name: String,
    pub kind: ToolServerKind,
    /// Its command, its URL, or its folder.
    pub place: String,
    pub state: ToolServerState,
    /// Why it can't be used, if it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<WallTime>,
    /// When one of its tools was called last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<WallTime>,
    /// The tools that it has listed last. Those that the rules hide are not among them.
    pub tools: Vec<OfferedTool>,
    /// The tools that can't be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutTool>,
}

/// How a tool server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolServerKind {
    /// A command that the node starts.
    Command,
    Url,
    /// A folder of skills, which the node reads.
    Skills,
}

/// Whether a tool server can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolServerState {
    /// No turn has needed it since the start of the node.
    NotStarted,
    Starting,
    /// It runs and is connected.
    Connected,
    Failed,
    /// The connection has ended, and the next turn opens another one.
    Ended,
}

impl ToolServerState {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotStarted => "not started yet",
            Self::Starting => "starting",
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::Ended => "ended",
        }
    }
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedTool {
    pub name: String,
    pub description: String,
    pub permission: ToolPermission,
}

/// A tool that can't be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOutTool {
    pub name: String,
    pub why: String,
}

/// What the rules of an agent say of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolPermission {
    Allowed,
    /// A person decides on each call.
    Asked,
    /// The model may not call it, and is told so if it does.
    Denied,
    /// There is an `allow`, and no rule names it: it is as if the server had no such tool.
    Hidden,
}
