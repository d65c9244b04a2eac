//! The sessions of the console: who has signed in at which port, for how long. They are in memory and end with the process.
//!
//! A session has two secrets, and needs both. The cookie goes to every server on its host, whatever the port, so it proves nothing
//! alone; the key is kept by the page, which only its own origin reads, and sent as a header. Only digests of both are kept.

use crate::{budget_holder::BudgetHolder, clock::wall_time, token_format::random_token};
use protocol::{ids::Digest, principal::Principal, time::WallTime};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

/// How long a session lasts.
pub(crate) const SESSION: Duration = Duration::from_secs(12 * 60 * 60);
/// How long a link may be opened.
const LINK: Duration = Duration::from_secs(120);
/// How often an open stream looks whether its session is still there.
const LOOK: Duration = Duration::from_secs(15);
/// The most sessions, and the most links, of one principal; the one that ends first makes room.
const MAX_EACH: usize = 64;

/// Who has signed in, and whose budget the requests use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsoleUser {
    pub(crate) principal: Principal,
    pub(crate) holder: BudgetHolder,
}

/// The secrets of a new session.
#[derive(Debug)]
pub(crate) struct NewConsoleSession {
    /// The value of its cookie.
    pub(crate) cookie: String,
    /// What the page sends in a header.
    pub(crate) key: String,
}

/// The sessions of a process. Cheap to clone; every clone shares them.
#[derive(Clone, Default)]
pub struct ConsoleSessions(Arc<Mutex<SessionTable>>);

#[derive(Default)]
struct SessionTable {
    /// Told whenever sessions end before their time.
    ended: watch::Sender<()>,
    /// By the digest of the cookie.
    sessions: BTreeMap<Digest, ConsoleSession>,
    /// By the digest of the code.
    links: BTreeMap<Digest, ConsoleSession>,
}

struct ConsoleSession {
    user: ConsoleUser,
    /// The port at which it is good.
    port: u16,
    /// The digest of the key; of a link, of the code itself.
    key: Digest,
    ends: WallTime,
}

/// The name of the cookie at `port`.
pub(crate) fn cookie_name(port: u16) -> String {
    format!("mesh-console-{port}")
}

fn digest(secret: &str) -> Digest {
    Digest::of(secret.as_bytes())
}

/// Adds `session` to `all`, without those that have ended and with room for its user.
fn insert(all: &mut BTreeMap<Digest, ConsoleSession>, id: Digest, session: ConsoleSession, now: WallTime) {
    all.retain(|_, known| known.ends > now);
    let own = |known: &ConsoleSession| known.user.principal == session.user.principal;
    if all.values().filter(|&known| own(known)).count() >= MAX_EACH {
        let first = all.iter().filter(|&(_, known)| own(known)).min_by_key(|(_, known)| known.ends);
        let first = first.map(|(id, _)| *id);
        first.and_then(|id| all.remove(&id));
    }
    all.insert(id, session);
}

impl ConsoleSessions {
    fn table(&self) -> MutexGuard<'_, SessionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code of a link that signs `user` in at `port`, once.
    pub(crate) fn new_link(&self, user: ConsoleUser, port: u16, now: WallTime) -> String {
        let code = random_token("");
        let id = digest(&code);
        insert(
            &mut self.table().links,
            id,
            ConsoleSession { user, port, key: id, ends: now.plus(LINK) },
            now,
        );
        code
    }

    /// Who is signed in by the code of a link, which is void from then on, whatever the port.
    pub(crate) fn redeem(&self, code: &str, port: u16, now: WallTime) -> Option<ConsoleUser> {
        let link = self.table().links.remove(&digest(code))?;
        (link.port == port && link.ends > now).then_some(link.user)
    }

    /// Signs `user` in at `port`.
    pub(crate) fn begin(&self, user: ConsoleUser, port: u16, now: WallTime) -> NewConsoleSession {
        let (cookie, key) = (random_token(""), random_token(""));
        let session = ConsoleSession { user, port, key: digest(&key), ends: now.plus(SESSION) };
        insert(&mut self.table().sessions, digest(&cookie), session, now);
        NewConsoleSession { cookie, key }
    }

    /// Who a request at `port` with this cookie and this key is from.
    pub(crate) fn find(&self, cookie: &str, key: &str, port: u16, now: WallTime) -> Option<ConsoleUser> {
        let table = self.table();
        let session = table.sessions.get(&digest(cookie))?;
        let is_good = session.key == digest(key) && session.port == port && session.ends > now;
        is_good.then(|| session.user.clone())
    }

    /// Ends the session with this cookie.
    pub(crate) fn end(&self, cookie: &str) {
        let mut table = self.table();
        table.sessions.remove(&digest(cookie));
        table.ended.send_replace(());
    }

    /// Waits until no session at `port` has this cookie and this key: it was ended, it made room for another, or its time is over.
    pub(crate) async fn closed(&self, cookie: &str, key: &str, port: u16) {
        let mut ended = self.table().ended.subscribe();
        while self.find(cookie, key, port, wall_time()).is_some() {
            // Its time may end, and another sign-in may take its place.
            let _ = tokio::time::timeout(LOOK, ended.changed()).await;
        }
    }

    /// Ends all sessions and links of `principal`, and returns how many sessions there were.
    pub(crate) fn end_all(&self, principal: &Principal) -> usize {
        let mut table = self.table();
        let before = table.sessions.len();
        table.sessions.retain(|_, session| session.user.principal != *principal);
        table.links.retain(|_, link| link.user.principal != *principal);
        table.ended.send_replace(());
        before - table.sessions.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallTime = WallTime(1_000);

    fn user() -> ConsoleUser {
        ConsoleUser { principal: Principal::local_user(), holder: BudgetHolder::Person }
    }

    #[test]
    fn a_session_needs_its_cookie_its_key_and_its_port_and_ends() {
        let sessions = ConsoleSessions::default();
        let NewConsoleSession { cookie, key } = sessions.begin(user(), 8_001, NOW);
        let other = sessions.begin(user(), 8_001, NOW);
        let find = |cookie: &str, key: &str, port, now| sessions.find(cookie, key, port, now);
        assert_eq!(find(&cookie, &key, 8_001, NOW), Some(user()));
        assert_eq!(find(&cookie, "", 8_001, NOW), None, "the cookie alone");
        assert_eq!(find("", &key, 8_001, NOW), None, "the key alone");
        assert_eq!(find(&cookie, &cookie, 8_001, NOW), None);
        assert_eq!(find(&cookie, &other.key, 8_001, NOW), None, "the key of another session");
        assert_eq!(find(&cookie, &key, 8_002, NOW), None, "at another port");
        assert_eq!(find(&cookie, &key, 8_001, NOW.plus(SESSION)), None, "twelve hours later");
        sessions.end(&cookie);
        assert_eq!(find(&cookie, &key, 8_001, NOW), None);
        assert_eq!(find(&other.cookie, &other.key, 8_001, NOW), Some(user()));
        assert_eq!(sessions.end_all(&Principal::local_user()), 1);
        assert_eq!(find(&other.cookie, &other.key, 8_001, NOW), None);
    }

    #[test]
    fn a_link_signs_in_once_at_its_port_and_soon() {
        let sessions = ConsoleSessions::default();
        let code = sessions.new_link(user(), 8_001, NOW);
        assert_eq!(sessions.redeem(&code, 8_001, NOW), Some(user()));
        assert_eq!(sessions.redeem(&code, 8_001, NOW), None, "once");
        let code = sessions.new_link(user(), 8_001, NOW);
        assert_eq!(sessions.redeem(&code, 8_002, NOW), None, "at another port");
        assert_eq!(sessions.redeem(&code, 8_001, NOW), None, "and it is void");
        let code = sessions.new_link(user(), 8_001, NOW);
        assert_eq!(sessions.redeem(&code, 8_001, NOW.plus(LINK)), None, "too late");
    }

    #[tokio::test]
    async fn who_waits_for_the_end_of_a_session_is_told_at_once() {
        let sessions = ConsoleSessions::default();
        let NewConsoleSession { cookie, key } = sessions.begin(user(), 8_001, wall_time());
        let closed = sessions.closed(&cookie, &key, 8_001);
        let mut closed = std::pin::pin!(closed);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut closed).await.is_err(), "it is open");
        sessions.end(&cookie);
        assert!(tokio::time::timeout(Duration::from_secs(2), &mut closed).await.is_ok());
    }

    #[test]
    fn one_user_has_a_bounded_number_of_sessions() {
        let sessions = ConsoleSessions::default();
        let first = sessions.begin(user(), 1, NOW);
        for later in 1..=MAX_EACH as i64 {
            sessions.begin(user(), 1, WallTime(NOW.0 + later));
        }
        assert_eq!(sessions.find(&first.cookie, &first.key, 1, NOW), None, "the oldest has made room");
        assert_eq!(sessions.table().sessions.len(), MAX_EACH);
    }
}
