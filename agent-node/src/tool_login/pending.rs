//! Logins that wait for a person: bounded in number and time, and each good for one answer. The state in the URL, which nobody can
//! guess, names the login; who brings the answer must be who began it. A browser that comes back to this machine is the person's of this
//! machine, and ends no login but the person's: anybody else may have sent the person a page.

use super::{LoginError, LoginSession, ServerLogin};
use protocol::principal::Principal;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long a login waits for its person.
pub const PENDING_LIFE: Duration = Duration::from_secs(600);
/// The most logins that wait at a node.
const MAX_PENDING: usize = 64;

/// How far a login is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginProgress {
    pub id: String,
    /// `None` while it waits; then nothing, or why it failed.
    pub end: Option<Result<(), String>>,
}

/// How the answer to a login comes to the node.
#[derive(Debug, Clone, Copy)]
pub enum LoginEnd<'a> {
    /// This caller brings it.
    Brought(&'a Principal),
    /// A browser of this machine was sent here.
    LocalBrowser,
}

struct PendingLogin {
    begun: Instant,
    state: String,
    by: Principal,
    login: ServerLogin,
    /// Whether the browser is sent back to an address of this machine.
    is_local: bool,
    /// What goes on with the answer, until it has come.
    session: Option<LoginSession>,
    progress: LoginProgress,
}

/// What an answer goes on with.
pub(super) struct TakenLogin {
    pub(super) id: String,
    pub(super) login: ServerLogin,
    pub(super) session: LoginSession,
}

#[derive(Default)]
pub(super) struct PendingLogins(Mutex<Vec<PendingLogin>>);

impl PendingLogins {
    /// Adds a login of `by` in place of an earlier one at the same server. Returns its id.
    pub(super) fn add(
        &self,
        state: String,
        by: &Principal,
        login: &ServerLogin,
        (session, is_local): (LoginSession, bool),
    ) -> Result<String, LoginError> {
        let mut logins = self.locked();
        logins.retain(|other| {
            let is_same = other.login.agent == login.agent && other.login.server == login.server;
            !(is_same && other.by == *by)
        });
        if logins.len() >= MAX_PENDING {
            return Err(LoginError::TooMany);
        }
        let id = uuid::Uuid::new_v4().simple().to_string();
        logins.push(PendingLogin {
            begun: Instant::now(),
            state,
            by: by.clone(),
            login: login.clone(),
            is_local,
            session: Some(session),
            progress: LoginProgress { id: id.clone(), end: None },
        });
        Ok(id)
    }

    /// The login with this state, once. `by` must have begun it.
    pub(super) fn take(&self, state: &str, by: LoginEnd<'_>) -> Option<TakenLogin> {
        let mut logins = self.locked();
        let is_own = |login: &PendingLogin| match by {
            LoginEnd::Brought(by) => login.by == *by,
            LoginEnd::LocalBrowser => login.is_local && login.by == Principal::local_user(),
        };
        let found = logins.iter_mut().find(|login| login.state == state && is_own(login))?;
        let session = found.session.take()?;
        Some(TakenLogin { id: found.progress.id.clone(), login: found.login.clone(), session })
    }

    /// Notes how a login has ended.
    pub(super) fn end(&self, id: &str, end: Result<(), String>) {
        if let Some(login) = self.locked().iter_mut().find(|login| login.progress.id == id) {
            login.progress.end = Some(end);
        }
    }

    pub(super) fn progress(&self, by: &Principal) -> Vec<LoginProgress> {
        let logins = self.locked();
        logins.iter().filter(|login| login.by == *by).map(|login| login.progress.clone()).collect()
    }

    /// Without those that are too old.
    fn locked(&self) -> MutexGuard<'_, Vec<PendingLogin>> {
        let mut logins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logins.retain(|login| login.begun.elapsed() < PENDING_LIFE);
        logins
    }
}
