//! Logins at tool servers by OAuth 2.1: a token belongs to a server, the issuer that it names, an agent, and a user or the agent
//! itself. The library `rmcp` speaks the protocol, by the client for URLs that others choose.
//!
//! `server_login` finds authorization servers and gets tokens, `token_file` keeps tokens, `pending` the logins that wait for a person, `machine` gets tokens by a client's secret.

mod machine;
mod outbound_oauth;
mod pending;
mod server_login;
mod token_file;

use crate::outbox::{
    a2a::credentials::SecretString,
    environment_proxy::is_loopback,
    outbound_client::{Error as OutboundError, OutboundClient},
};
use outbound_oauth::OutboundOAuth;
use pending::PendingLogins;
pub use pending::{LoginEnd, LoginProgress, PENDING_LIFE};
use protocol::{ids::AgentId, principal::Principal};
use reqwest::Url;
use rmcp::transport::{AuthorizationManager, auth::AuthError};
use schemars::JsonSchema;
use serde::Deserialize;
pub use server_login::{KnownLogin, ServerLogin};
use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

/// The most characters of what an authorization server says of a refusal.
const MAX_REASON: usize = 300;

/// How an agent logs in at a tool server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginConfig {
    pub whose: LoginOwner,
    /// The id and the secret that the authorization server has given to the mesh; it registers itself if there is none.
    pub client: Option<(String, Option<SecretString>)>,
    /// What it asks for; what the server names if empty.
    pub scopes: Vec<String>,
}

/// Whose token is sent to a tool server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginOwner {
    /// One of the agent, for all tasks.
    Agent,
    /// That of the user at the root of the task.
    User,
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// Nobody has logged in, or the login is over.
    #[error("wants a login: `{0}`")]
    Missing(String),
    /// The token is of another issuer than the server names.
    #[error(
        "names another authorization server, {is}, than the one that the login is of, {was}: if that is right, `{login}`"
    )]
    OtherIssuer { was: String, is: String, login: String },
    /// The task's root is not proven to be a user.
    #[error(
        "takes the token of a user, and the user of this task is not proven: send it with a credential or the person's token"
    )]
    Unproven,
    /// The server or its authorization server does not take the login.
    #[error("{0}")]
    Refused(String),
    /// It can't be reached; another try may succeed.
    #[error("{0}")]
    Unreachable(String),
    /// The file of the token can't be used.
    #[error("has a token that can't be read or written: {0}")]
    Store(String),
    /// There is no such login, or it was used already.
    #[error("no login waits for this: it was used, or is too old; run `mesh login` again")]
    NotPending,
    /// Too many logins wait.
    #[error("too many logins wait for their end: try again in {} minutes", PENDING_LIFE.as_secs() / 60)]
    TooMany,
}

/// The logins of the agents of a node.
#[derive(Clone)]
pub struct ToolLogins(Arc<LoginParts>);

struct LoginParts {
    dir: PathBuf,
    outside: OutboundClient,
    servers: RwLock<BTreeMap<(AgentId, String), ServerLogin>>,
    pending: PendingLogins,
}

/// A login that a person goes on with.
#[derive(Debug)]
pub struct BegunLogin {
    pub id: String,
    /// What the person opens.
    pub url: String,
}

/// What speaks to an authorization server, and how it does.
struct LoginSession {
    manager: AuthorizationManager,
    http: Arc<OutboundOAuth>,
}

impl ToolLogins {
    /// Logins whose tokens lie in `dir`.
    pub fn new(dir: PathBuf, outside: OutboundClient) -> Self {
        Self(Arc::new(LoginParts {
            dir,
            outside,
            servers: RwLock::default(),
            pending: PendingLogins::default(),
        }))
    }

    /// Adds a server. Fails if no client can be made for it.
    pub fn add(
        &self,
        agent: &AgentId,
        server: &str,
        url: &str,
        config: &LoginConfig,
    ) -> Result<(), OutboundError> {
        // A server of this machine may have its authorization server there, too.
        let is_local = Url::parse(url).is_ok_and(|url| is_loopback(&url));
        let outside = match is_local {
            true => self.0.outside.with_loopback()?,
            false => self.0.outside.clone(),
        };
        let (agent, server) = (agent.clone(), server.to_owned());
        let (dir, url, config) = (self.0.dir.clone(), url.to_owned(), config.clone());
        let login = ServerLogin { agent: agent.clone(), server: server.clone(), url, config, dir, outside };
        self.0.servers.write().unwrap_or_else(PoisonError::into_inner).insert((agent, server), login);
        Ok(())
    }

    /// The servers of an agent that take a login.
    pub fn of_agent(&self, agent: &AgentId) -> Vec<ServerLogin> {
        let servers = self.0.servers.read().unwrap_or_else(PoisonError::into_inner);
        servers.values().filter(|login| login.agent == *agent).cloned().collect()
    }

    /// The server with this name.
    pub fn find(&self, agent: &str, server: &str) -> Option<ServerLogin> {
        let servers = self.0.servers.read().unwrap_or_else(PoisonError::into_inner);
        servers.values().find(|login| login.agent.as_str() == agent && login.server == server).cloned()
    }

    /// Begins a login of `by`. The browser is sent back to `redirect`.
    pub async fn begin(
        &self,
        login: &ServerLogin,
        by: &Principal,
        redirect: &str,
    ) -> Result<Option<BegunLogin>, LoginError> {
        let Some((url, session)) = login.begin(by, redirect).await? else { return Ok(None) };
        let is_local = Url::parse(redirect).is_ok_and(|url| is_loopback(&url));
        let is_safe = url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url);
        let state = url.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned());
        let Some(state) = state.filter(|_| is_safe) else {
            let host = url.host_str().unwrap_or_default();
            return Err(LoginError::Refused(format!(
                "names a page for logins that is no https: page, of {host:?}"
            )));
        };
        let id = self.0.pending.add(state, by, login, (session, is_local))?;
        Ok(Some(BegunLogin { id, url: url.into() }))
    }

    /// Ends a login with the URL that the browser was sent back to. Returns the login.
    pub async fn finish(&self, url: &str, by: LoginEnd<'_>) -> Result<ServerLogin, LoginError> {
        let url = Url::parse(url).map_err(|_| LoginError::NotPending)?;
        let parameters: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
        let parameter = |name: &str| parameters.get(name).map(String::as_str);
        let state = parameter("state").unwrap_or_default();
        let taken = self.0.pending.take(state, by).ok_or(LoginError::NotPending)?;
        let ended = match (parameter("code"), parameter("error")) {
            (Some(code), None) => taken.session.exchange(code, state, parameter("iss")).await,
            (_, error) => {
                let why = [error, parameter("error_description")].into_iter().flatten().collect::<Vec<_>>();
                let why: String =
                    why.join(", ").chars().filter(|c| !c.is_control()).take(MAX_REASON).collect();
                Err(LoginError::Refused(format!("does not log in: {why}")))
            }
        };
        self.0.pending.end(&taken.id, ended.as_ref().map(drop).map_err(ToString::to_string));
        ended.map(|()| taken.login)
    }

    /// How far the logins are that `by` has begun.
    pub fn progress(&self, by: &Principal) -> Vec<LoginProgress> {
        self.0.pending.progress(by)
    }
}

impl LoginSession {
    async fn new(url: &str, http: Arc<OutboundOAuth>) -> Result<Self, LoginError> {
        match AuthorizationManager::new_with_oauth_http_client(url, http.clone()).await {
            Ok(manager) => Ok(Self { manager, http }),
            Err(error) => Err(LoginError::Refused(error.to_string())),
        }
    }

    /// Gets the token for the code of an answer.
    async fn exchange(&self, code: &str, state: &str, issuer: Option<&str>) -> Result<(), LoginError> {
        let got = self.manager.exchange_code_for_token_with_issuer(code, state, issuer).await;
        got.map(drop).map_err(|error| self.error(&error))
    }

    fn error(&self, error: &AuthError) -> LoginError {
        self.http.error(error)
    }
}

impl fmt::Debug for ToolLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolLogins").finish_non_exhaustive()
    }
}
