//! The MCP server of a node, and the sessions with it.

use crate::mcp::{MeshApi, MeshServer};
use dashmap::DashMap;
use protocol::{
    limits::Limits,
    principal::Principal,
    problem::{Problem, Reason},
};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::local::{LocalSessionManager, SessionConfig},
};
use std::{sync::Arc, time::Duration};
use transport::http_client::HttpClient;

/// How long a session without any message lives. A person may take that long for an answer.
const SESSION_IDLE: Duration = Duration::from_secs(3_600);

const MAX_SESSIONS: usize = 64;

/// How much deeper than a request of the mesh a message of MCP may nest: around the arguments of a tool.
const ENVELOPE_DEPTH: usize = 8;

/// Who began a session, and whether it was proven to be a person's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionOwner {
    pub(super) principal: Principal,
    pub(super) is_persons: bool,
}

/// The MCP endpoint of a node.
pub struct McpEndpoint {
    pub(super) service: StreamableHttpService<MeshServer, LocalSessionManager>,
    manager: Arc<LocalSessionManager>,
    pub(super) sessions: DashMap<String, SessionOwner>,
    pub(super) wire: HttpClient,
    pub(super) max_depth: usize,
}

impl McpEndpoint {
    /// The endpoint of a node with these limits.
    pub fn new(limits: &Limits) -> Result<Self, Problem> {
        let mut manager = LocalSessionManager::default();
        let mut sessions = SessionConfig::default();
        sessions.keep_alive = Some(SESSION_IDLE);
        manager.session_config = sessions;
        let manager = Arc::new(manager);
        // The edge has checked the host and the origin.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_max_request_body_bytes(limits.max_body_bytes);
        let server = MeshServer::per_request();
        Ok(Self {
            service: StreamableHttpService::new(move || Ok(server.clone()), manager.clone(), config),
            manager,
            sessions: DashMap::new(),
            wire: MeshApi::client()?,
            max_depth: limits.max_depth + ENVELOPE_DEPTH,
        })
    }

    /// Refuses a session of somebody else like one that is not there.
    pub(super) fn check_session(&self, id: &str, owner: &SessionOwner) -> Result<(), Problem> {
        match self.sessions.get(id).is_some_and(|known| *known == *owner) {
            true => Ok(()),
            false => Err(Problem::new(
                Reason::SessionNotFound,
                "no MCP session of yours has this id: begin one with initialize",
            )),
        }
    }

    /// Refuses one more session of a caller that has the most. Forgets those that have ended.
    pub(super) async fn check_sessions_of(&self, owner: &SessionOwner) -> Result<(), Problem> {
        let open = self.manager.sessions.read().await;
        self.sessions.retain(|id, _| open.contains_key(id.as_str()));
        drop(open);
        match self.sessions.iter().filter(|known| **known == *owner).count() {
            MAX_SESSIONS.. => {
                let message = format!("{} has {MAX_SESSIONS} MCP sessions; end some first", owner.principal);
                Err(Problem::new(Reason::RateLimited, message).with("limit", MAX_SESSIONS))
            }
            _ => Ok(()),
        }
    }
}
