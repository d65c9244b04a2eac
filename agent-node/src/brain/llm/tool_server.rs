//! MCP servers, whose tools a model may call. A connection stays open between turns; a server that died is started again.

mod failure;
mod process;
mod stdout_lines;
mod tool_result;

use super::{agent_loop::CallOutcome, skill_folder::SkillFolder};
use crate::brain::{
    exec::{
        BrainRights,
        process::{WORKSPACE, beside_its_file},
    },
    server_log::ServerLog,
};
use failure::ServerFailure;
use process::{ServerProcess, ServerStdio};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    RoleClient, ServiceError,
    model::{CallToolRequestParams, ClientConfig, Implementation, ProtocolVersion, Tool},
    service::{ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{
        StreamableHttpClientTransport,
        async_rw::DEFAULT_MAX_LINE_LENGTH,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use rustix::io::Errno;
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use stdout_lines::AnsweredLines;
use tokio::sync::Mutex;

/// One tool server of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolServerConfig {
    /// What comes before the names of its tools where they collide.
    pub name: String,
    pub transport: ToolServerTransport,
    /// The tools that the model may call, by their names there; all if `None`.
    pub allow: Option<Vec<String>>,
    /// Those of which a person decides on every call.
    pub approve: Vec<String>,
    /// Tools that look for something that takes time: equal calls of them are no circle.
    pub poll: Vec<String>,
    /// Whether calls may be repeated, whatever the server says about them.
    pub idempotent: bool,
    /// How long a call may take.
    pub timeout: Duration,
}

/// Where a tool server is.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolServerTransport {
    /// A command that speaks MCP on its standard input and output.
    Stdio {
        /// The program and its arguments.
        command: Vec<String>,
        /// Its environment beside `PATH` and `LANG`.
        env: BTreeMap<String, String>,
        dir: Option<PathBuf>,
    },
    /// A URL that speaks streamable HTTP.
    Http {
        url: String,
        /// Headers of every request. They hold credentials.
        headers: BTreeMap<String, crate::outbox::a2a::credentials::SecretString>,
    },
    /// A folder of skills, which this process reads.
    Skills(SkillFolder),
}

/// How long a server may take to start and to say what it offers.
const START: Duration = Duration::from_secs(60);
/// The largest answer of a server at a URL, bytes: as long as the longest line of a command.
const MAX_ANSWER: usize = DEFAULT_MAX_LINE_LENGTH;

/// Why a server can't be used.
#[derive(Debug, thiserror::Error)]
#[error("the tool server {server} {message}")]
pub(super) struct ToolServerError {
    server: String,
    message: String,
    /// Whether another try may succeed.
    pub(super) is_transient: bool,
}

/// A tool server, connected as soon as it is needed.
#[derive(Debug)]
pub(super) struct ToolServer {
    pub(super) config: ToolServerConfig,
    /// What a command gets as `HOME` and `TMPDIR`.
    home: Option<PathBuf>,
    /// Where its standard error goes.
    log: ServerLog,
    http: reqwest::Client,
    connection: Mutex<Option<Arc<McpConnection>>>,
}

#[derive(Debug)]
struct McpConnection {
    service: RunningService<RoleClient, ClientConfig>,
    _process: Option<ServerProcess>,
}

impl ToolServer {
    pub(super) fn new(config: ToolServerConfig, rights: &BrainRights, http: reqwest::Client) -> Self {
        let (home, log) = (rights.home.clone(), rights.log.clone());
        Self { config, home, log, http, connection: Mutex::new(None) }
    }

    /// The same server in the clone that a turn works in: a command is started there for that turn.
    pub(super) fn in_workspace(&self, workspace: &Path) -> Self {
        let mut config = self.config.clone();
        if let ToolServerTransport::Stdio { command, env, dir } = &mut config.transport {
            for part in command {
                *part = beside_its_file(part, dir.as_deref()).to_string_lossy().into_owned();
            }
            env.insert(WORKSPACE.to_owned(), workspace.to_string_lossy().into_owned());
            *dir = Some(workspace.to_owned());
        }
        let (home, log, http) = (self.home.clone(), self.log.clone(), self.http.clone());
        Self { config, home, log, http, connection: Mutex::new(None) }
    }

    /// Its command or URL, for people.
    pub(super) fn name(&self) -> String {
        match &self.config.transport {
            ToolServerTransport::Stdio { command, .. } => command.join(" "),
            ToolServerTransport::Http { url, .. } => blackboard::http_client::redact_url(url).to_string(),
            ToolServerTransport::Skills(folder) => folder.dir.display().to_string(),
        }
    }

    fn error(&self, message: impl Into<String>, is_transient: bool) -> ToolServerError {
        ToolServerError { server: self.name(), message: message.into(), is_transient }
    }

    /// Its tools that are allowed. Connects if there is no live connection; a connection that fails is opened anew once.
    pub(super) async fn tools(&self) -> Result<Vec<Tool>, ToolServerError> {
        if let ToolServerTransport::Skills(folder) = &self.config.transport {
            return Ok(vec![folder.tool()]);
        }
        let connection = self.connect().await?;
        let listed = match self.list(&connection).await {
            Ok(tools) => tools,
            Err(_) => {
                self.disconnect(&connection).await;
                let connection = self.connect().await?;
                let listed = self.list(&connection).await;
                listed.map_err(|ServerFailure { message, is_transient }| self.error(message, is_transient))?
            }
        };
        let allow = self.config.allow.as_ref();
        let is_allowed = |tool: &Tool| allow.is_none_or(|allow| allow.iter().any(|name| *name == tool.name));
        let wanted = allow.into_iter().flatten().chain(&self.config.approve);
        if let Some(missing) = wanted.into_iter().find(|name| listed.iter().all(|tool| tool.name != **name)) {
            let known: Vec<_> = listed.iter().map(|tool| tool.name.as_ref()).collect();
            let message = format!("has no tool {missing:?}; it has: {}", known.join(", "));
            return Err(self.error(message, false));
        }
        let (usable, nameless): (Vec<_>, Vec<_>) =
            listed.into_iter().filter(is_allowed).partition(|tool| !tool.name.is_empty());
        if !nameless.is_empty() {
            let (agent, server) = (self.log.agent.as_str(), self.config.name.as_str());
            tracing::warn!(target: "brain", agent, server, "a tool without a name is left out");
        }
        Ok(usable)
    }

    async fn list(&self, connection: &McpConnection) -> Result<Vec<Tool>, ServerFailure> {
        match tokio::time::timeout(START, connection.service.peer().list_all_tools()).await {
            Ok(tools) => tools.map_err(|error| {
                let failure = failure::of_request(&error);
                let message = format!("does not list its tools: it {}", failure.message);
                ServerFailure { message, ..failure }
            }),
            Err(_) => {
                let message = format!("does not list its tools within {} s", START.as_secs());
                Err(ServerFailure { message, is_transient: true })
            }
        }
    }

    /// Calls a tool. Dropping the future cancels the call at the server.
    pub(super) async fn call(&self, name: String, arguments: Map<String, Value>) -> CallOutcome {
        if let ToolServerTransport::Skills(folder) = &self.config.transport {
            return folder.call(arguments).await;
        }
        let connection = match self.connect().await {
            Ok(connection) => connection,
            Err(error) => return CallOutcome::Interrupted(error.to_string()),
        };
        let request = CallToolRequestParams::new(name).with_arguments(arguments);
        let limit = self.config.timeout;
        match tokio::time::timeout(limit, connection.service.call_tool(request)).await {
            Ok(Ok(result)) => tool_result::read(result),
            // The server has refused the call, or an answer came that is no result of a tool.
            Ok(Err(ServiceError::McpError(error))) => tool_result::failed(error.message.to_string()),
            Ok(Err(ServiceError::UnexpectedResponse | ServiceError::InputRequiredRoundsExceeded { .. })) => {
                tool_result::failed("the tool asks for input, which this agent can't give".to_owned())
            }
            Ok(Err(error)) if is_too_large(&error) => {
                self.disconnect(&connection).await;
                let mib = MAX_ANSWER >> 20;
                tool_result::failed(format!("the result has more than {mib} MiB, and was dropped"))
            }
            Ok(Err(error)) => {
                self.disconnect(&connection).await;
                CallOutcome::Interrupted(format!("the server {}", failure::of_request(&error).message))
            }
            Err(_) => {
                // It may be stuck. Other calls that are under way keep it.
                self.disconnect(&connection).await;
                CallOutcome::Interrupted(format!("no answer within {} s (`timeout`)", limit.as_secs()))
            }
        }
    }

    /// The live connection, or a new one.
    async fn connect(&self) -> Result<Arc<McpConnection>, ToolServerError> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        *held = None;
        let opened = match tokio::time::timeout(START, self.open()).await {
            Ok(opened) => opened?,
            Err(_) => {
                return Err(self.error(format!("does not start within {} s", START.as_secs()), true));
            }
        };
        tracing::debug!(server = self.name(), "a tool server is connected");
        Ok(held.insert(Arc::new(opened)).clone())
    }

    /// Drops `connection` if it is still the one in use. Its process ends with it.
    async fn disconnect(&self, connection: &Arc<McpConnection>) {
        let mut held = self.connection.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, connection)) {
            *held = None;
        }
    }

    async fn open(&self) -> Result<McpConnection, ToolServerError> {
        let mut client = ClientConfig::default();
        client.client_info = Implementation::new("agent-mesh", env!("CARGO_PKG_VERSION"));
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        };
        match &self.config.transport {
            ToolServerTransport::Skills(_) => Err(self.error("is a folder and speaks no MCP", false)),
            ToolServerTransport::Stdio { command, env, dir } => {
                let started = ServerProcess::start(
                    (&self.log, &self.config.name),
                    command,
                    env,
                    dir.as_deref(),
                    self.home.as_deref(),
                );
                let (process, ServerStdio { stdout, stdin }) = started
                    .map_err(|error| self.error(format!("can't be started: {error}"), may_pass(&error)))?;
                let stdout = AnsweredLines::new(stdout);
                match client.serve_with_lifecycle((stdout, stdin), lifecycle).await {
                    Ok(service) => Ok(McpConnection { service, _process: Some(process) }),
                    Err(error) => {
                        let last_words = process.last_words().await;
                        Err(self.error(
                            format!("does not speak MCP: {error}; its last words: {last_words}"),
                            false,
                        ))
                    }
                }
            }
            ToolServerTransport::Http { url, headers } => {
                let mut custom = HashMap::new();
                for (name, value) in headers {
                    let (Ok(name), Ok(mut value)) =
                        (HeaderName::try_from(name), HeaderValue::try_from(value.expose()))
                    else {
                        return Err(self.error(
                            format!(
                                "can't get the header {name:?}: its name or value is not allowed in HTTP"
                            ),
                            false,
                        ));
                    };
                    value.set_sensitive(true);
                    custom.insert(name, value);
                }
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(custom)
                    .max_json_response_size(MAX_ANSWER)
                    .max_sse_event_size(MAX_ANSWER);
                let transport = StreamableHttpClientTransport::with_client(self.http.clone(), config);
                let service = client.serve_with_lifecycle(transport, lifecycle).await;
                let service = service.map_err(|error| {
                    let ServerFailure { message, is_transient } = failure::of_start(&error);
                    self.error(message, is_transient)
                })?;
                Ok(McpConnection { service, _process: None })
            }
        }
    }
}

/// Whether a command can't be started because the machine lacks something for a while. All other reasons stay.
fn may_pass(error: &std::io::Error) -> bool {
    let passing = [Errno::AGAIN, Errno::INTR, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::TXTBSY];
    Errno::from_io_error(error).is_some_and(|error| passing.contains(&error))
}

/// Whether a call has no result because its answer is larger than [`MAX_ANSWER`]. Of an answer in an event stream the client only
/// says that the stream has broken.
fn is_too_large(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    let error = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    matches!(error, Some(StreamableHttpError::ResponseBodyTooLarge { .. }))
}

impl McpConnection {
    fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::brain::llm::http_model::HttpModel;
    use std::os::unix::fs::PermissionsExt as _;

    /// A server that no test starts.
    pub(crate) fn server(name: &str) -> ToolServerConfig {
        ToolServerConfig {
            name: name.to_owned(),
            transport: ToolServerTransport::Stdio {
                command: vec!["/nonexistent/server".to_owned()],
                env: BTreeMap::new(),
                dir: None,
            },
            allow: None,
            approve: Vec::new(),
            poll: Vec::new(),
            idempotent: false,
            timeout: Duration::from_secs(5),
        }
    }

    #[tokio::test]
    async fn a_command_that_is_missing_is_no_passing_failure() {
        let server = ToolServer::new(server("s"), &BrainRights::default(), HttpModel::client().unwrap());
        let error = server.tools().await.unwrap_err();
        assert!(
            !error.is_transient && error.to_string().contains("/nonexistent/server can't be started"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_command_that_may_not_be_executed_is_no_passing_failure() {
        let dir = tempfile::tempdir().unwrap();
        for (name, content, mode) in [("denied", "#!/bin/sh\n", 0o644), ("no-shell", "#!/no/sh\n", 0o755)] {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let command = vec![path.display().to_string()];
            let transport = ToolServerTransport::Stdio { command, env: BTreeMap::new(), dir: None };
            let config = ToolServerConfig { transport, ..server("s") };
            let server = ToolServer::new(config, &BrainRights::default(), HttpModel::client().unwrap());
            let error = server.tools().await.unwrap_err();
            assert!(!error.is_transient && error.to_string().contains("can't be started"), "{name}: {error}");
        }
        let lacks = |code: Errno| may_pass(&std::io::Error::from(code));
        assert!(lacks(Errno::MFILE) && lacks(Errno::AGAIN) && !lacks(Errno::ACCESS));
    }

    #[tokio::test]
    async fn what_a_server_that_speaks_no_mcp_says_last_is_in_the_error() {
        let mut config = server("s");
        let command = ["sh", "-c", "echo no such module >&2; exit 3"].map(str::to_owned).to_vec();
        config.transport = ToolServerTransport::Stdio { command, env: BTreeMap::new(), dir: None };
        let error = ToolServer::new(config, &BrainRights::default(), HttpModel::client().unwrap())
            .tools()
            .await
            .unwrap_err();
        assert!(error.to_string().contains("does not speak MCP") && !error.is_transient, "{error}");
        assert!(error.to_string().ends_with("its last words: no such module"), "{error}");
    }
}
