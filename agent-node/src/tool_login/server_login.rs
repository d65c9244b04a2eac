//! One tool server of an agent that takes a login: how its authorization server is found, and its tokens got and kept.

use super::{
    LoginConfig, LoginError, LoginOwner, LoginSession,
    machine::{self, MachineLogin},
    outbound_oauth::OutboundOAuth,
    token_file::{KeptLogin, TokenFile, TokenStore},
};
use crate::outbox::{a2a::credentials::SecretString, outbound_client::OutboundClient};
use protocol::{
    ids::AgentId,
    principal::{Principal, TaskRoot},
};
use reqwest::Url;
use rmcp::transport::{
    AuthorizationManager,
    auth::{AuthorizationMetadata, ClientCredentialsConfig, OAuthClientConfig, StoredCredentials},
};
use std::{fmt, path::PathBuf, sync::Arc, time::SystemTime};

/// The name under which the mesh registers itself at authorization servers.
const CLIENT: &str = "Agent Mesh";

/// One tool server of an agent that takes a login.
#[derive(Clone)]
pub struct ServerLogin {
    pub agent: AgentId,
    /// The name of the server in the agent's file.
    pub server: String,
    pub url: String,
    pub config: LoginConfig,
    pub(super) dir: PathBuf,
    pub(super) outside: OutboundClient,
}

/// A login that is there.
#[derive(Debug)]
pub struct KnownLogin {
    pub issuer: Option<String>,
    pub scopes: Vec<String>,
    pub ends: Option<SystemTime>,
}

impl ServerLogin {
    /// The command that logs in.
    pub fn command(&self) -> String {
        format!("mesh login {} --agent {}", self.server, self.agent)
    }

    /// Whose token is sent for a task of `root`. `None`: the agent's.
    pub fn holder(&self, root: Option<&TaskRoot>) -> Result<Option<Principal>, LoginError> {
        match self.config.whose {
            LoginOwner::Agent => Ok(None),
            LoginOwner::User => {
                let user = root.and_then(TaskRoot::proven_user).ok_or(LoginError::Unproven)?;
                Ok(Some(user.clone()))
            }
        }
    }

    /// The login of `by`, or that of the agent.
    pub fn known(&self, by: &Principal) -> Result<Option<KnownLogin>, LoginError> {
        let kept = self.file(self.holder_of(by).as_ref()).read()?;
        Ok(kept.map(|kept| KnownLogin {
            ends: kept.ends(),
            issuer: kept.credentials.issuer,
            scopes: kept.credentials.granted_scopes,
        }))
    }

    /// Forgets the login of `by`, or that of the agent. Whether there was one.
    pub async fn forget(&self, by: &Principal) -> Result<bool, LoginError> {
        let file = self.file(self.holder_of(by).as_ref());
        let _lock = file.lock().await?;
        Ok(file.remove()?)
    }

    /// Removes the token of the agent if it gets another by its secret.
    pub fn drop_own_token(&self) -> Result<(), LoginError> {
        if self.config.whose == LoginOwner::Agent && self.secret().is_some() {
            self.file(None).remove()?;
        }
        Ok(())
    }

    fn holder_of(&self, by: &Principal) -> Option<Principal> {
        (self.config.whose == LoginOwner::User).then(|| by.clone())
    }

    fn file(&self, user: Option<&Principal>) -> TokenFile {
        TokenFile::new(&self.dir, &self.url, &self.agent, user)
    }

    /// What sends and renews the token of `user`, or of the agent.
    pub async fn open(&self, user: Option<&Principal>) -> Result<AuthorizationManager, LoginError> {
        let file = self.file(user);
        let kept = file.read()?;
        if kept.is_none() && self.secret().is_none() {
            return Err(LoginError::Missing(self.command()));
        }
        let (mut session, metadata) = self.discover().await?;
        if let Some(client) = self.machine(&metadata, &session.http) {
            self.log_in_by_secret(&mut session, &metadata, client).await?;
            return Ok(session.manager);
        }
        let kept = kept.ok_or_else(|| LoginError::Missing(self.command()))?;
        if kept.credentials.issuer != metadata.issuer {
            let name =
                |issuer: Option<&String>| issuer.map_or("one without a name", String::as_str).to_owned();
            let (was, is) = (name(kept.credentials.issuer.as_ref()), name(metadata.issuer.as_ref()));
            return Err(LoginError::OtherIssuer { was, is, login: self.command() });
        }
        let mut client = OAuthClientConfig::new(&kept.credentials.client_id, &kept.redirect);
        client.client_secret = self.secret().map(str::to_owned).or_else(|| kept.client_secret.clone());
        let configured = session.manager.configure_client(client);
        configured.map_err(|error| session.error(&error))?;
        session.manager.set_credential_store(TokenStore {
            file,
            kept,
            issuer: metadata.issuer,
            machine: None,
        });
        Ok(session.manager)
    }

    /// The URL that a person opens, and what waits for the answer; `None` if the login is done without a person.
    pub(super) async fn begin(
        &self,
        by: &Principal,
        redirect: &str,
    ) -> Result<Option<(Url, LoginSession)>, LoginError> {
        let (mut session, metadata) = self.discover().await?;
        if let Some(client) = self.machine(&metadata, &session.http) {
            self.log_in_by_secret(&mut session, &metadata, client).await?;
            let got = session.manager.get_access_token().await;
            return got.map(|_| None).map_err(|error| session.error(&error));
        }
        let scopes = match self.config.scopes.as_slice() {
            [] => session.manager.select_initial_scopes(&[]).await,
            given => given.to_vec(),
        };
        let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
        let user = self.holder_of(by);
        let client = self.client(&mut session, &metadata, user.as_ref(), (redirect, &scopes)).await?;
        let store = TokenStore {
            kept: self.kept(user.as_ref(), client.client_secret.clone(), redirect),
            file: self.file(user.as_ref()),
            issuer: metadata.issuer,
            machine: None,
        };
        let configured = session.manager.configure_client(client);
        configured.map_err(|error| session.error(&error))?;
        session.manager.set_credential_store(store);
        let url = session.manager.get_authorization_url(&scopes).await;
        let url = url.map_err(|error| session.error(&error))?;
        let url = Url::parse(&url)
            .map_err(|error| LoginError::Refused(format!("names no page for logins: {error}")))?;
        Ok(Some((url, session)))
    }

    /// The client of the configuration, or one that was registered earlier for the same way back, or a new one.
    async fn client(
        &self,
        session: &mut LoginSession,
        metadata: &AuthorizationMetadata,
        user: Option<&Principal>,
        (redirect, scopes): (&str, &[&str]),
    ) -> Result<OAuthClientConfig, LoginError> {
        let kept = self.file(user).read().ok().flatten();
        let kept =
            kept.filter(|kept| kept.credentials.issuer == metadata.issuer && kept.redirect == redirect);
        let (id, secret) = match (&self.config.client, kept) {
            (Some((id, _)), _) => (id.clone(), self.secret().map(str::to_owned)),
            (None, Some(kept)) => (kept.credentials.client_id, kept.client_secret),
            (None, None) => {
                let made = session.manager.register_client(CLIENT, redirect, scopes).await;
                return made.map_err(|error| match session.error(&error) {
                    LoginError::Refused(why) => LoginError::Refused(format!(
                        "does not let the mesh register itself: give the `clientId` of a client that its operator has made ({why})"
                    )),
                    other => other,
                });
            }
        };
        let mut client = OAuthClientConfig::new(id, redirect);
        client.client_secret = secret;
        Ok(client)
    }

    async fn discover(&self) -> Result<(LoginSession, AuthorizationMetadata), LoginError> {
        let mut session =
            LoginSession::new(&self.url, Arc::new(OutboundOAuth::new(self.outside.clone()))).await?;
        let found = session.manager.resolve_metadata().await.map_err(|error| session.error(&error))?;
        if !found.source.is_discovered() {
            let what = "names no authorization server: neither RFC 9728 nor RFC 8414 metadata are there";
            return Err(LoginError::Refused(what.to_owned()));
        }
        session.manager.set_metadata(found.metadata.clone());
        Ok((session, found.metadata))
    }

    fn secret(&self) -> Option<&str> {
        self.config.client.as_ref()?.1.as_ref().map(SecretString::expose)
    }

    /// The client that gets tokens by its secret, if it may.
    fn machine(
        &self,
        metadata: &AuthorizationMetadata,
        http: &OutboundOAuth,
    ) -> Option<ClientCredentialsConfig> {
        let (id, _) = self.config.client.as_ref()?;
        let secret = self.secret().filter(|_| self.config.whose == LoginOwner::Agent)?;
        machine::is_offered(metadata).then(|| ClientCredentialsConfig::ClientSecret {
            client_id: id.clone(),
            client_secret: secret.to_owned(),
            scopes: self.config.scopes.clone(),
            resource: Some(http.resource(&self.url)),
        })
    }

    /// Lets the session get tokens by the secret of `client`.
    async fn log_in_by_secret(
        &self,
        session: &mut LoginSession,
        metadata: &AuthorizationMetadata,
        client: ClientCredentialsConfig,
    ) -> Result<(), LoginError> {
        let store = |machine| TokenStore {
            file: self.file(None),
            kept: self.kept(None, None, ""),
            issuer: metadata.issuer.clone(),
            machine,
        };
        let mut writer = LoginSession::new(&self.url, session.http.clone()).await?;
        writer.manager.set_metadata(metadata.clone());
        for manager in [&mut writer.manager, &mut session.manager] {
            manager.configure_client_credentials(&client).map_err(|error| session.http.error(&error))?;
        }
        writer.manager.set_credential_store(store(None));
        let machine = MachineLogin { manager: writer.manager, client };
        session.manager.set_credential_store(store(Some(Arc::new(machine))));
        Ok(())
    }

    /// What is kept beside the credentials.
    fn kept(&self, user: Option<&Principal>, client_secret: Option<String>, redirect: &str) -> KeptLogin {
        KeptLogin {
            server: self.server.clone(),
            agent: self.agent.clone(),
            user: user.map(ToString::to_string),
            // That of the configuration stays there.
            client_secret: client_secret.filter(|_| self.config.client.is_none()),
            redirect: redirect.to_owned(),
            credentials: StoredCredentials::new(String::new(), None, Vec::new(), None),
        }
    }
}

impl fmt::Debug for ServerLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLogin")
            .field("agent", &self.agent)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
