//! The tools of a turn, as the loop has them: for which turns they are, who has them, and what comes of a call.

use super::{model::ToolSpec, tool_permission::ToolPermission, transcript::ToolResult};
use patterns::session::graph::SeatRole;
use protocol::artifact::Artifact;

/// What a turn is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopSubject {
    /// A task: the answer is an artifact.
    Task,
    /// The same, as a message of a chat, which can be handed over.
    Chat,
    /// The turn of a seat in a session: the answer is what it says.
    Seat { role: SeatRole, is_sealed: bool },
    /// A question: the answer is the message of the end.
    Help { asks_agents: bool },
    /// A signal: there need not be an answer.
    Signal,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoopTool {
    /// What the model sees of it.
    pub(super) spec: ToolSpec,
    pub(super) kind: LoopToolKind,
}

impl LoopTool {
    /// Whether the model may not call it: it is not shown to the model.
    pub(super) fn is_denied(&self) -> bool {
        matches!(self.kind, LoopToolKind::Server { permission: ToolPermission::Denied, .. })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum LoopToolKind {
    Mesh,
    /// A tool server, by its position.
    Server {
        /// The position of the server in the configuration.
        server: usize,
        /// The name of the tool there.
        name: String,
        /// Whether a call that was interrupted may be made again.
        is_repeatable: bool,
        /// Whether it may be called.
        permission: ToolPermission,
        /// Whether it looks for something that takes time, so that equal calls are no circle.
        is_poll: bool,
    },
}

/// What came of a call of a tool server, or of the board.
#[derive(Debug)]
pub(super) enum CallOutcome {
    Answered(ToolResult, Vec<Artifact>),
    /// There is no answer, and nobody knows whether the call took effect.
    Interrupted(String),
}
