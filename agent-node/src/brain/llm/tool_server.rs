//! MCP servers, whose tools a model may call. A connection stays open between turns; a server that died is started again.

mod failure;
mod greeting;
mod listener;
mod offer;
mod process;
mod server_record;
mod stdout_lines;
mod tool_result;

use super::{
    loop_tool::CallOutcome,
    on_behalf_of::{self, ON_BEHALF_OF},
    skill_folder::SkillFolder,
    tool_permission::{ToolPermission, ToolPermissions},
};
use crate::{
    brain::{
        TurnRequest,
        brain_tools::ToolServerReport,
        exec::{
            BrainRights,
            access::BrainAccess,
            process::{WORKSPACE, beside_its_file},
        },
        server_log::ServerLog,
        turn_handle::TurnHandle,
    },
    outbox::environment_proxy::ProxiedClients,
    tool_login::{LoginConfig, LoginError, LoginOwner, ServerLogin},
};
use failure::ServerFailure;
use greeting::{Greeting, LearntGreeting, OneGreeting};
use listener::ServerListener;
pub(super) use offer::ToolOffer;
use patterns::turn::Progress;
use process::{ServerProcess, ServerStdio};
use protocol::principal::TaskRoot;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::{
    RoleClient, ServiceError,
    model::{CallToolRequestParams, CallToolResult, RequestMetaObject, SubscriptionFilter},
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::{
        AuthClient, StreamableHttpClientTransport,
        async_rw::{AsyncRwTransport, DEFAULT_MAX_LINE_LENGTH},
        streamable_http_client::{
            StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
        },
    },
};
use rustix::io::Errno;
use serde_json::{Map, Value};
use server_record::ServerRecord;
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use stdout_lines::AnsweredLines;
use tokio::{sync::Mutex, time::Instant};

/// One tool server of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolServerConfig {
    /// What comes before the names of its tools where they collide.
    pub name: String,
    pub transport: ToolServerTransport,
    /// The tools that the model may call, by their names there.
    pub permissions: ToolPermissions,
    /// Tools that look for something that takes time: equal calls of them are no circle.
    pub poll: Vec<String>,
    /// Whether calls may be repeated, whatever the server says about them.
    pub idempotent: bool,
    /// How long a call may take.
    pub timeout: Duration,
    /// Whether it is told whom each call is for.
    pub forwards_user: bool,
}

impl ToolServerConfig {
    /// The token that tells whom a call in the turn of `request` is for, if the server is told.
    pub(super) fn token_for(&self, access: &BrainAccess, request: &TurnRequest) -> Option<String> {
        let audience = match &self.transport {
            ToolServerTransport::Http { url, .. } => url.split('?').next().unwrap_or_default(),
            ToolServerTransport::Stdio { .. } | ToolServerTransport::Skills(_) => &self.name,
        };
        self.forwards_user.then(|| on_behalf_of::token(access, audience, request)).flatten()
    }
}

/// Where a tool server is.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolServerTransport {
    /// A command that speaks MCP on its standard input and output.
    Stdio {
        /// The program and its arguments.
        command: Vec<String>,
        /// Its environment beside what it inherits.
        env: BTreeMap<String, String>,
        dir: Option<PathBuf>,
    },
    /// A URL that speaks streamable HTTP.
    Http {
        url: String,
        /// Headers of every request. They hold credentials.
        headers: BTreeMap<String, crate::outbox::a2a::credentials::SecretString>,
        /// How the agent logs in there.
        login: Option<LoginConfig>,
    },
    /// A folder of skills, which this process reads.
    Skills(SkillFolder),
}

/// How long a server may take to start and to say what it offers.
const START: Duration = Duration::from_secs(60);
/// How often `timeout` a call may take that reports its progress.
const MAX_EXTENSION: u32 = 10;
/// The least time between two reports of progress that are shown.
const PROGRESS_PAUSE: Duration = Duration::from_secs(1);
/// How long a server may take to show that it speaks the transport of 2024.
const SSE_WAIT: Duration = Duration::from_secs(5);
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
    /// Whether it was reached, but did not take the greeting.
    is_greeting: bool,
    /// Whether a login is missing.
    pub(super) needs_login: bool,
}

/// A tool server, connected as soon as it is needed.
#[derive(Debug)]
pub(super) struct ToolServer {
    pub(super) config: ToolServerConfig,
    /// What a command gets as `HOME` and `TMPDIR`.
    home: Option<PathBuf>,
    /// Where its standard error goes.
    log: ServerLog,
    http: ProxiedClients,
    greeting: LearntGreeting,
    record: ServerRecord,
    login: Option<ServerLogin>,
    /// The root of the task that the connection is for, if it is for one task.
    root: Option<TaskRoot>,
    connection: Mutex<Option<Arc<McpConnection>>>,
}

#[derive(Debug)]
struct McpConnection {
    service: RunningService<RoleClient, ServerListener>,
    _process: Option<ServerProcess>,
}

impl ToolServer {
    pub(super) fn new(config: ToolServerConfig, rights: &BrainRights, http: ProxiedClients) -> Self {
        let (home, log) = (rights.home.clone(), rights.log.clone());
        let login = rights.logins.as_ref().and_then(|logins| logins.find(&log.agent, &config.name));
        let (greeting, record, connection) = Default::default();
        Self { config, home, log, http, greeting, record, login, root: None, connection }
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
        Self { config, ..self.anew() }
    }

    /// The same server without its connection.
    fn anew(&self) -> Self {
        let Self { config, home, log, http, greeting, record, login, root, connection: _ } = self;
        Self {
            config: config.clone(),
            home: home.clone(),
            log: log.clone(),
            http: http.clone(),
            greeting: greeting.clone(),
            record: record.clone(),
            login: login.clone(),
            root: root.clone(),
            connection: Mutex::default(),
        }
    }

    /// Whether it is sent the token of the user whose task it is.
    pub(super) fn is_of_user(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.config.whose == LoginOwner::User)
    }

    /// The same server for a task of `root`: its connection is that of one user.
    pub(super) fn for_root(&self, root: Option<&TaskRoot>) -> Self {
        Self { root: root.cloned(), ..self.anew() }
    }

    /// Its command or URL, for people.
    pub(super) fn name(&self) -> String {
        match &self.config.transport {
            ToolServerTransport::Stdio { command, .. } => command.join(" "),
            ToolServerTransport::Http { url, .. } => transport::http_client::redact_url(url).to_string(),
            ToolServerTransport::Skills(folder) => folder.dir.display().to_string(),
        }
    }

    /// What is known of it and its tools. Nothing is started for it.
    pub(super) fn report(&self) -> ToolServerReport {
        let ToolServerConfig { name, transport, permissions, .. } = &self.config;
        if let ToolServerTransport::Skills(folder) = transport {
            let offer = ToolOffer { tools: vec![folder.tool()], left_out: Vec::new() };
            self.record.has_listed(&offer, permissions);
        }
        self.record.report(name, self.name(), transport)
    }

    fn error(&self, message: impl Into<String>, is_transient: bool) -> ToolServerError {
        let (is_greeting, needs_login) = (false, false);
        ToolServerError {
            server: self.name(),
            message: message.into(),
            is_transient,
            is_greeting,
            needs_login,
        }
    }

    fn login_error(&self, error: &LoginError) -> ToolServerError {
        let is_transient = matches!(error, LoginError::Unreachable(_));
        let needs_login = matches!(error, LoginError::Missing(_));
        ToolServerError { needs_login, ..self.error(error.to_string(), is_transient) }
    }

    /// What a failure says, and how one logs in if that may be missing.
    fn explained(&self, failure: &ServerFailure) -> String {
        let message = &failure.message;
        match (&self.login, failure.is_unauthorized) {
            (_, false) => message.clone(),
            (Some(login), true) => format!("{message} (`{}` logs in)", login.command()),
            (None, true) => format!(
                "{message} (the credentials are those of `headers`; with OAuth give it `login: agent` or `login: user`, \
                 then run `mesh login {} --agent {}`)",
                self.config.name, self.log.agent
            ),
        }
    }

    /// The agent whose server it is.
    pub(super) fn agent(&self) -> &str {
        &self.log.agent
    }

    /// Its tools, as [`Self::tools`] has them, within `limit`.
    pub(super) async fn tools_within(&self, limit: Duration) -> Result<ToolOffer, ToolServerError> {
        let listed = tokio::time::timeout(limit, self.tools()).await.unwrap_or_else(|_| {
            Err(self.error(format!("does not list its tools within {} s", limit.as_secs()), true))
        });
        match &listed {
            Ok(offer) => self.record.has_listed(offer, &self.config.permissions),
            Err(error) => self.record.has_failed(&error.message),
        }
        listed
    }

    /// Its tools but those that are hidden. Connects if there is no live connection; a connection that fails is opened anew once.
    pub(super) async fn tools(&self) -> Result<ToolOffer, ToolServerError> {
        if let ToolServerTransport::Skills(folder) = &self.config.transport {
            return Ok(ToolOffer { tools: vec![folder.tool()], left_out: Vec::new() });
        }
        let mut connection = self.connect().await?;
        let mut listed = self.list(&connection).await;
        let is_unauthorized = listed.as_ref().is_err_and(|failure| failure.is_unauthorized);
        if is_unauthorized {
            self.drop_token();
        }
        if is_unauthorized || listed.as_ref().is_err_and(|failure| failure.is_transient) {
            self.disconnect(&connection).await;
            connection = self.connect().await?;
            listed = self.list(&connection).await;
        }
        let ToolOffer { mut tools, mut left_out } = listed.map_err(|failure| {
            let needs_login = failure.is_unauthorized && self.login.is_some();
            ToolServerError { needs_login, ..self.error(self.explained(&failure), failure.is_transient) }
        })?;
        let (agent, server) = (self.log.agent.as_str(), self.config.name.as_str());
        let permissions = &self.config.permissions;
        let is_known = |name: &str| {
            tools.iter().any(|tool| tool.name == name)
                || left_out.iter().any(|(left_out, _)| left_out == name)
        };
        if let Some(missing) = permissions.named().find(|name| !is_known(name)) {
            let known: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
            let message = format!("has no tool {missing:?}; it has: {}", known.join(", "));
            if !connection.has_changing_tools() {
                return Err(self.error(message, false));
            }
            tracing::warn!(target: "brain", agent, server, "the tool server {message}; its list may change");
        }
        tools.retain(|tool| permissions.of(&tool.name) != ToolPermission::Hidden);
        left_out.retain(|(name, _)| {
            matches!(permissions.of(name), ToolPermission::Allowed | ToolPermission::Asked)
        });
        for (tool, why) in &left_out {
            tracing::warn!(target: "brain", agent, server, tool, why, "a tool is left out");
        }
        Ok(ToolOffer { tools, left_out })
    }

    /// Whether it has said that its tools have changed, since the last such question.
    pub(super) async fn take_has_other_tools(&self) -> bool {
        let held = self.connection.lock().await;
        held.as_ref().is_some_and(|connection| connection.service.service().take_has_other_tools())
    }

    async fn list(&self, connection: &McpConnection) -> Result<ToolOffer, ServerFailure> {
        tokio::time::timeout(START, offer::list(connection.service.peer())).await.unwrap_or_else(|_| {
            Err(failure::transient(format!("does not list its tools within {} s", START.as_secs())))
        })
    }

    /// Calls a tool. Dropping the future cancels the call at the server. What it reports of its progress is sent to `turn`.
    pub(super) async fn call(
        &self,
        name: String,
        arguments: Map<String, Value>,
        token: Option<String>,
        turn: &TurnHandle,
    ) -> CallOutcome {
        self.record.is_used();
        if let ToolServerTransport::Skills(folder) = &self.config.transport {
            return folder.call(arguments).await;
        }
        let connection = match self.connect().await {
            Ok(connection) => connection,
            Err(error) => {
                self.record.has_failed(&error.message);
                return tool_result::failed(format!("the call was not made: {error}"));
            }
        };
        let limit = self.config.timeout;
        match self.result(&connection, (name, arguments, token), turn).await {
            Some(Ok(result)) => tool_result::read(result),
            // The server has refused the call, or an answer came that is no result of a tool.
            Some(Err(ServiceError::McpError(error))) => tool_result::failed(error.message.to_string()),
            Some(Err(
                ServiceError::UnexpectedResponse | ServiceError::InputRequiredRoundsExceeded { .. },
            )) => tool_result::failed("the tool asks for input, which this agent can't give".to_owned()),
            Some(Err(error)) if is_too_large(&error) => {
                self.disconnect(&connection).await;
                let mib = MAX_ANSWER >> 20;
                tool_result::failed(format!("the result has more than {mib} MiB, and was dropped"))
            }
            Some(Err(error)) => {
                self.disconnect(&connection).await;
                let failure = failure::of_request(&error);
                if failure.is_unauthorized {
                    self.drop_token();
                }
                let said = self.explained(&failure);
                self.record.has_failed(&said);
                match failure::is_before_call(&error) {
                    true => tool_result::failed(format!("the call was not made: the server {said}")),
                    false => CallOutcome::Interrupted(format!("the server {said}")),
                }
            }
            None => {
                // It may be stuck. Other calls that are under way keep it.
                self.disconnect(&connection).await;
                CallOutcome::Interrupted(format!("no answer within {} s (`timeout`)", limit.as_secs()))
            }
        }
    }

    /// The result of a call, or `None` if there is none within `timeout` of its begin or of the last report of progress. Reports
    /// do not say to which of several calls of a connection they belong, so they extend all of them.
    async fn result(
        &self,
        connection: &McpConnection,
        (name, arguments, token): (String, Map<String, Value>, Option<String>),
        turn: &TurnHandle,
    ) -> Option<Result<CallToolResult, ServiceError>> {
        let (limit, tool) = (self.config.timeout, name.clone());
        let mut progress = connection.service.service().progress();
        let mut params = CallToolRequestParams::new(name).with_arguments(arguments);
        params.meta = token.map(|token| {
            let mut meta = RequestMetaObject::default();
            meta.insert(ON_BEHALF_OF.to_owned(), token.into());
            meta
        });
        let call = connection.service.call_tool(params);
        tokio::pin!(call);
        let begun = Instant::now();
        let (mut until, mut shown) = (begun + limit, None);
        loop {
            tokio::select! {
                result = &mut call => return Some(result),
                Ok(()) = progress.changed() => {
                    let said = progress.borrow_and_update().clone();
                    let now = Instant::now();
                    until = (now + limit).min(begun + limit * MAX_EXTENSION);
                    if shown.is_none_or(|shown| now > shown + PROGRESS_PAUSE) {
                        shown = Some(now);
                        let message = format!("{tool}: {said}");
                        turn.send(Progress::Status { message }).await;
                    }
                }
                () = tokio::time::sleep_until(until) => return None,
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
        let _starting = self.record.starts();
        let known = self.greeting.get();
        let answers_late = Arc::new(AtomicBool::new(false));
        let opened = match self.open_within(known, &answers_late).await {
            Err(error) if error.is_greeting => {
                let other = known.after_failure(answers_late.load(Ordering::Relaxed));
                tracing::debug!(server = self.name(), %error, ?other, "a tool server is greeted once more");
                self.open_within(other, &answers_late).await?
            }
            opened => opened?,
        };
        if let Some(server) = opened.service.peer().peer_info() {
            self.greeting.put(Greeting::of(&server.protocol_version));
        }
        if self.greeting.get() == Greeting::Discover && opened.has_changing_tools() {
            follow_changes(&opened.service);
        }
        tracing::debug!(server = self.name(), "a tool server is connected");
        let opened = held.insert(Arc::new(opened)).clone();
        self.record.is_connected(&opened);
        Ok(opened)
    }

    /// What may keep its command from starting.
    fn fetch_hint(&self) -> String {
        match &self.config.transport {
            ToolServerTransport::Stdio { command, env, .. } => process::fetch_hint(command, env),
            ToolServerTransport::Http { .. } | ToolServerTransport::Skills(_) => String::new(),
        }
    }

    async fn open_within(
        &self,
        greeting: Greeting,
        answers_late: &Arc<AtomicBool>,
    ) -> Result<McpConnection, ToolServerError> {
        tokio::time::timeout(START, self.open(greeting, answers_late)).await.unwrap_or_else(|_| {
            let hint = self.fetch_hint();
            Err(self.error(format!("does not start within {} s{hint}", START.as_secs()), true))
        })
    }

    /// Drops `connection` if it is still the one in use. Its process ends with it.
    async fn disconnect(&self, connection: &Arc<McpConnection>) {
        let mut held = self.connection.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, connection)) {
            *held = None;
        }
    }

    async fn open(
        &self,
        greeting: Greeting,
        answers_late: &Arc<AtomicBool>,
    ) -> Result<McpConnection, ToolServerError> {
        let (listener, lifecycle) = (ServerListener::new(), greeting.lifecycle());
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
                let transport = AsyncRwTransport::new(AnsweredLines::new(stdout), stdin);
                let transport =
                    OneGreeting::new(transport, listener.clone(), self.name(), answers_late.clone());
                match listener.serve_with_lifecycle(transport, lifecycle).await {
                    Ok(service) => Ok(McpConnection { service, _process: Some(process) }),
                    Err(error) => {
                        let last_words = process.last_words().await;
                        let hint = self.fetch_hint();
                        let message =
                            format!("does not speak MCP: {error}; its last words: {last_words}{hint}");
                        Err(ToolServerError { is_greeting: true, ..self.error(message, false) })
                    }
                }
            }
            ToolServerTransport::Http { url, headers, login } => {
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
                let all_headers: HeaderMap = custom.clone().into_iter().collect();
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(custom)
                    .max_json_response_size(MAX_ANSWER)
                    .max_sse_event_size(MAX_ANSWER);
                let client = self.http.for_url(url).clone();
                let greeted = match (login, &self.login) {
                    (None, _) => self.greet(client, config, (listener, lifecycle), answers_late).await,
                    (Some(_), None) => {
                        return Err(self.error("needs a login, and this process keeps none", false));
                    }
                    (Some(_), Some(login)) => {
                        let user =
                            login.holder(self.root.as_ref()).map_err(|error| self.login_error(&error))?;
                        let manager =
                            login.open(user.as_ref()).await.map_err(|error| self.login_error(&error))?;
                        let client = AuthClient::new(client, manager);
                        self.greet(client, config, (listener, lifecycle), answers_late).await
                    }
                };
                match greeted {
                    Ok(service) => Ok(McpConnection { service, _process: None }),
                    Err(error) => {
                        let failure = failure::of_start(&error);
                        let (mut message, is_transient) = (self.explained(&failure), failure.is_transient);
                        let needs_login = failure.is_unauthorized && self.login.is_some();
                        if needs_login {
                            self.drop_token();
                        }
                        let is_greeting = !error.is_authorization_required() && !is_transient;
                        if is_greeting && self.speaks_sse(url, all_headers).await {
                            message = "speaks HTTP+SSE of MCP 2024-11-05, which is not supported: give its URL for \
                                       streamable HTTP (often …/mcp), or a command that bridges the two"
                                .to_owned();
                        }
                        Err(ToolServerError { is_greeting, needs_login, ..self.error(message, is_transient) })
                    }
                }
            }
        }
    }

    /// Greets a server at a URL.
    async fn greet<C: StreamableHttpClient + Send + 'static>(
        &self,
        client: C,
        config: StreamableHttpClientTransportConfig,
        (listener, lifecycle): (ServerListener, ClientLifecycleMode),
        answers_late: &Arc<AtomicBool>,
    ) -> Result<RunningService<RoleClient, ServerListener>, Box<ClientInitializeError>> {
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let transport = OneGreeting::new(transport, listener.clone(), self.name(), answers_late.clone());
        listener.serve_with_lifecycle(transport, lifecycle).await.map_err(Box::new)
    }

    /// A token that was not taken is of no use if another can be got without a person.
    fn drop_token(&self) {
        if let Some(login) = &self.login
            && let Err(error) = login.drop_own_token()
        {
            tracing::warn!(target: "brain", agent = self.log.agent, server = self.config.name, %error, "a token stays");
        }
    }

    /// Whether a server that took no message is one of the transport of 2024, HTTP+SSE: it opens an event stream first.
    async fn speaks_sse(&self, url: &str, headers: HeaderMap) -> bool {
        let asked = async {
            let request =
                self.http.for_url(url).get(url).headers(headers).header("accept", "text/event-stream");
            let mut answer = request.send().await.ok()?;
            let kind = answer.headers().get("content-type")?.to_str().ok()?.to_owned();
            let begin = answer.chunk().await.ok()??;
            let is_endpoint =
                begin.windows(15).any(|text| text == b"event: endpoint" || text == b"event:endpoint\n");
            Some(kind.starts_with("text/event-stream") && is_endpoint)
        };
        tokio::time::timeout(SSE_WAIT, asked).await.ok().flatten().unwrap_or(false)
    }
}

/// Asks a server of 2026-07-28 to say when its tools change; older ones say so unasked. It ends with the connection.
fn follow_changes(service: &RunningService<RoleClient, ServerListener>) {
    let (peer, listener) = (service.peer().clone(), service.service().clone());
    drop(tokio::spawn(async move {
        let wanted = SubscriptionFilter::builder().tools_list_changed().build();
        let Ok(mut changes) = peer.listen(wanted).await else { return };
        while let Ok(Some(_)) = changes.next().await {
            listener.note_other_tools();
        }
    }));
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
    /// Whether the server says that its list of tools may change.
    fn has_changing_tools(&self) -> bool {
        let server = self.service.peer().peer_info();
        let tools = server.and_then(|server| server.capabilities.tools.clone());
        tools.and_then(|tools| tools.list_changed).unwrap_or(false)
    }

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
            permissions: ToolPermissions::default(),
            poll: Vec::new(),
            idempotent: false,
            forwards_user: false,
            timeout: Duration::from_secs(5),
        }
    }

    #[tokio::test]
    async fn a_command_that_is_missing_is_no_passing_failure() {
        let server = ToolServer::new(server("s"), &BrainRights::default(), HttpModel::clients().unwrap());
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
            let server = ToolServer::new(config, &BrainRights::default(), HttpModel::clients().unwrap());
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
        let error = ToolServer::new(config, &BrainRights::default(), HttpModel::clients().unwrap())
            .tools()
            .await
            .unwrap_err();
        assert!(error.to_string().contains("does not speak MCP") && !error.is_transient, "{error}");
        assert!(error.to_string().ends_with("its last words: no such module"), "{error}");
    }
}
