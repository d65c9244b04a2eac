//! The file of one token: that of an agent, or of a user at an agent, for one tool server. Only its owner may read it, and who
//! changes it holds its lock, as several processes may renew it.

use super::{LoginError, machine::MachineLogin};
use async_trait::async_trait;
use protocol::{
    ids::{AgentId, Digest},
    principal::Principal,
};
use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What is kept of a login.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeptLogin {
    /// For people who look at the file.
    pub(super) server: String,
    pub(super) agent: AgentId,
    /// Whose token it is; the agent's if absent.
    pub(super) user: Option<String>,
    /// The secret of the client, if the authorization server has made one for it.
    pub(super) client_secret: Option<String>,
    pub(super) redirect: String,
    /// The client's id, the tokens and their issuer.
    pub(super) credentials: StoredCredentials,
}

impl KeptLogin {
    /// When the token ends, as far as that is known.
    pub(super) fn ends(&self) -> Option<SystemTime> {
        Some(UNIX_EPOCH + Duration::from_secs(self.credentials.token_received_at?) + self.lifetime()?)
    }

    fn lifetime(&self) -> Option<Duration> {
        let token = serde_json::to_value(&self.credentials.token_response).ok()?;
        token["expires_in"].as_u64().map(Duration::from_secs)
    }

    /// Whether the token is good for a while.
    fn is_fresh(&self) -> bool {
        let soon = SystemTime::now() + self.lifetime().map_or(FRESH, |lifetime| FRESH.min(lifetime / 2));
        self.credentials.token_response.is_some() && self.ends().is_none_or(|ends| ends > soon)
    }

    fn refresh_token(credentials: &StoredCredentials) -> Option<Value> {
        let token = serde_json::to_value(&credentials.token_response).ok()?;
        token.get("refresh_token").cloned()
    }
}

/// A token of a machine that ends sooner is replaced; a short one after half its life.
const FRESH: Duration = Duration::from_secs(30);

/// Where the token of one holder lies.
#[derive(Debug, Clone)]
pub(super) struct TokenFile(PathBuf);

impl TokenFile {
    /// In `dir`, for the server at `url`. The name tells nothing.
    pub(super) fn new(dir: &Path, url: &str, agent: &AgentId, user: Option<&Principal>) -> Self {
        let user = user.map(ToString::to_string).unwrap_or_default();
        let name = Digest::of(format!("{url}\n{agent}\n{user}").as_bytes());
        Self(dir.join(format!("{name}.json")))
    }

    /// What is there, if anything is.
    pub(super) fn read(&self) -> io::Result<Option<KeptLogin>> {
        match fs::read(&self.0) {
            Ok(content) => Ok(Some(serde_json::from_slice(&content)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces it. Who calls holds the lock, or makes the token.
    pub(super) fn write(&self, kept: &KeptLogin) -> io::Result<()> {
        self.create_dir()?;
        let draft = self.0.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(&serde_json::to_vec(kept)?)?;
        file.sync_all()?;
        fs::rename(&draft, &self.0)
    }

    /// Whether there was one.
    pub(super) fn remove(&self) -> io::Result<bool> {
        match fs::remove_file(&self.0) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock, which is let go when what is returned is dropped, or its process ends.
    pub(super) async fn lock(&self) -> io::Result<File> {
        self.create_dir()?;
        let path = self.0.with_extension("lock");
        let locked = tokio::task::spawn_blocking(move || {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
            file.lock()?;
            Ok(file)
        });
        locked.await.map_err(io::Error::other)?
    }

    fn create_dir(&self) -> io::Result<()> {
        let dir = self.0.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(dir)
    }
}

/// A token file as the library reads and writes it, for tokens of one issuer.
pub(super) struct TokenStore {
    pub(super) file: TokenFile,
    /// What is written beside the credentials.
    pub(super) kept: KeptLogin,
    /// The issuer that the server names. Tokens of another are as if they were not there.
    pub(super) issuer: Option<String>,
    /// Gets another token when one ends, without a person.
    pub(super) machine: Option<Arc<MachineLogin>>,
}

impl TokenStore {
    fn of_issuer(&self) -> io::Result<Option<KeptLogin>> {
        Ok(self.file.read()?.filter(|kept| kept.credentials.issuer == self.issuer))
    }
}

fn failed(error: impl ToString) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait]
impl CredentialStore for TokenStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let read = || self.of_issuer().map_err(failed);
        let Some(machine) = &self.machine else {
            return Ok(read()?.map(|kept| kept.credentials));
        };
        let mut kept = read()?;
        if !kept.as_ref().is_some_and(KeptLogin::is_fresh) {
            let _lock = self.file.lock().await.map_err(failed)?;
            // Another process may have got one meanwhile.
            kept = read()?;
            if !kept.as_ref().is_some_and(KeptLogin::is_fresh) {
                machine.exchange().await?;
                kept = read()?;
            }
        }
        // The library must not refresh it: another one is got here.
        Ok(kept.map(|kept| {
            let mut credentials = kept.credentials;
            credentials.token_received_at = None;
            credentials.token_response.iter_mut().for_each(|token| token.set_refresh_token(None));
            credentials
        }))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.file.write(&KeptLogin { credentials, ..self.kept.clone() }).map_err(failed)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.file.remove().map(drop).map_err(failed)
    }

    async fn on_refresh_token_rejected(&self, rejected: &StoredCredentials) -> Result<(), AuthError> {
        let kept = self.of_issuer().map_err(failed)?;
        let is_same = kept.is_some_and(|kept| {
            KeptLogin::refresh_token(&kept.credentials) == KeptLogin::refresh_token(rejected)
        });
        if is_same { self.clear().await } else { Ok(()) }
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        // A machine's token is got while it is read, under the same lock.
        match self.machine {
            Some(_) => Ok(None),
            None => {
                self.file.lock().await.map(|lock| Some(CredentialRefreshGuard::new(lock))).map_err(failed)
            }
        }
    }
}

impl From<io::Error> for LoginError {
    fn from(error: io::Error) -> Self {
        Self::Store(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn kept(token: &str) -> KeptLogin {
        let token =
            serde_json::json!({ "access_token": token, "token_type": "Bearer", "refresh_token": token });
        let token = serde_json::from_value(token).unwrap();
        KeptLogin {
            server: "tools".into(),
            agent: AgentId::parse("a").unwrap(),
            user: None,
            client_secret: None,
            redirect: "http://127.0.0.1:1/".into(),
            credentials: StoredCredentials::new("client".into(), Some(token), Vec::new(), None)
                .with_issuer(Some("https://as.example".into())),
        }
    }

    fn store(dir: &Path, issuer: &str) -> TokenStore {
        let agent = AgentId::parse("a").unwrap();
        TokenStore {
            file: TokenFile::new(&dir.join("logins"), "https://tools.example/mcp", &agent, None),
            kept: kept("x"),
            issuer: Some(issuer.to_owned()),
            machine: None,
        }
    }

    #[tokio::test]
    async fn only_its_owner_reads_a_token_and_it_is_for_its_issuer_only() {
        let dir = tempfile::tempdir().unwrap();
        let own = store(dir.path(), "https://as.example");
        own.save(kept("one").credentials).await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&own.file.0), mode(&dir.path().join("logins"))), (0o600, 0o700));
        assert!(own.load().await.unwrap().is_some());
        assert!(store(dir.path(), "https://other.example").load().await.unwrap().is_none());
        let user = Principal::local_user();
        let agent = AgentId::parse("a").unwrap();
        let of_user =
            TokenFile::new(&dir.path().join("logins"), "https://tools.example/mcp", &agent, Some(&user));
        assert!(of_user.read().unwrap().is_none(), "the token of an agent is nobody else's");
    }

    #[tokio::test]
    async fn a_refresh_token_that_was_refused_goes_and_a_newer_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), "https://as.example");
        store.save(kept("two").credentials).await.unwrap();
        store.on_refresh_token_rejected(&kept("one").credentials).await.unwrap();
        assert!(store.load().await.unwrap().is_some());
        store.on_refresh_token_rejected(&kept("two").credentials).await.unwrap();
        assert!(store.load().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn one_at_a_time_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), "https://as.example");
        let first = store.acquire_refresh_guard().await.unwrap();
        let mut second = std::pin::pin!(store.acquire_refresh_guard());
        let waited = tokio::time::timeout(Duration::from_millis(50), &mut second).await;
        assert!(waited.is_err());
        drop(first);
        second.await.unwrap();
    }
}
