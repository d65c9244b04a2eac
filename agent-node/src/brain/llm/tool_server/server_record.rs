//! What is known of a tool server: all its connections, of turns with a workspace or a user of their own too, write to one record.

use super::{McpConnection, ToolOffer, ToolServerTransport};
use crate::{
    brain::{
        brain_tools::{LeftOutTool, OfferedTool, ToolServerKind, ToolServerReport, ToolServerState},
        llm::tool_permission::ToolPermissions,
    },
    clock::wall_time,
};
use protocol::time::WallTime;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The record of a tool server.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerRecord(Arc<Mutex<KnownServer>>);

#[derive(Debug, Default)]
struct KnownServer {
    starting: usize,
    connections: Vec<Weak<McpConnection>>,
    failure: Option<(String, WallTime)>,
    last_used: Option<WallTime>,
    tools: Vec<OfferedTool>,
    left_out: Vec<LeftOutTool>,
}

/// A start that is under way.
pub(super) struct StartingServer(ServerRecord);

impl Drop for StartingServer {
    fn drop(&mut self) {
        self.0.known().starting -= 1;
    }
}

impl ServerRecord {
    fn known(&self) -> MutexGuard<'_, KnownServer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that it starts, until the result is dropped.
    pub(super) fn starts(&self) -> StartingServer {
        self.known().starting += 1;
        StartingServer(self.clone())
    }

    pub(super) fn is_connected(&self, connection: &Arc<McpConnection>) {
        let mut known = self.known();
        known.failure = None;
        known.connections.retain(|connection| connection.strong_count() > 0);
        known.connections.push(Arc::downgrade(connection));
    }

    pub(super) fn has_failed(&self, why: &str) {
        self.known().failure = Some((why.to_owned(), wall_time()));
    }

    pub(super) fn is_used(&self) {
        self.known().last_used = Some(wall_time());
    }

    pub(super) fn has_listed(&self, offer: &ToolOffer, permissions: &ToolPermissions) {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let tools = offer.tools.iter().map(|tool| OfferedTool {
            name: tool.name.to_string(),
            description: text(tool.description.as_deref().or(tool.title.as_deref())),
            permission: permissions.of(&tool.name),
        });
        let left_out = offer.left_out.iter();
        let left_out = left_out.map(|(name, why)| LeftOutTool { name: name.clone(), why: why.clone() });
        let mut known = self.known();
        (known.tools, known.left_out) = (tools.collect(), left_out.collect());
        known.failure = None;
    }

    /// The report of the server of this name, which is at `place`.
    pub(super) fn report(
        &self,
        name: &str,
        place: String,
        transport: &ToolServerTransport,
    ) -> ToolServerReport {
        let known = self.known();
        let is_live = |connection: &Weak<McpConnection>| {
            connection.upgrade().is_some_and(|connection| !connection.is_closed())
        };
        let kind = match transport {
            ToolServerTransport::Stdio { .. } => ToolServerKind::Command,
            ToolServerTransport::Http { .. } => ToolServerKind::Url,
            ToolServerTransport::Skills(_) => ToolServerKind::Skills,
        };
        let has_connected = !known.connections.is_empty();
        let state = if known.failure.is_none() && known.connections.iter().any(is_live) {
            ToolServerState::Connected
        } else if known.starting > 0 {
            ToolServerState::Starting
        } else if known.failure.is_some() {
            ToolServerState::Failed
        } else if has_connected {
            ToolServerState::Ended
        } else if kind == ToolServerKind::Skills {
            // It is read with the configuration.
            ToolServerState::Connected
        } else {
            ToolServerState::NotStarted
        };
        let failure = known.failure.clone().filter(|_| state == ToolServerState::Failed);
        let (why, failed_at) = failure.unzip();
        ToolServerReport {
            name: name.to_owned(),
            kind,
            place,
            state,
            why,
            failed_at,
            last_used: known.last_used,
            tools: known.tools.clone(),
            left_out: known.left_out.clone(),
        }
    }
}
