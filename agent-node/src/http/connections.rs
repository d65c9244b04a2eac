//! The open connections of a process, and their limits (DESIGN §8, "Budgets"), which follow from its limit of open files.
//!
//! A connection has a credential once a request on it has proved an agent, a service, a brain or a configured user. Those without
//! are limited per address and in all; the rest of the limit is for those with one. Where a limit is reached, the oldest idle
//! connection without a credential is closed in favour of a new one.

use super::edge::LocalCallers;
use futures_util::task::AtomicWaker;
use protocol::problem::{Problem, Reason};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

/// The most connections of a process, whatever its limit of open files.
const MAX_CONNECTIONS: usize = 20_000;
/// The most connections of one address without a credential.
const MAX_PER_ADDRESS: usize = 256;

/// Limits of the open connections of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionLimits {
    /// All connections.
    pub max: usize,
    /// Those without a credential. The others are reserved for connections with one.
    pub max_without_credential: usize,
    /// Those without a credential from one address of another machine.
    pub max_per_address: usize,
}

impl ConnectionLimits {
    /// The limits of a process that may open `files` files. A quarter of them is for its store, its own calls and its brains; a
    /// quarter of the connections is for callers with a credential.
    pub fn of_open_files(files: Option<u64>) -> Self {
        let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        let max = (files / 4 * 3).clamp(16, MAX_CONNECTIONS);
        Self { max, max_without_credential: max / 4 * 3, max_per_address: MAX_PER_ADDRESS.min(max / 4) }
    }

    /// The limits of this process.
    pub fn of_process() -> Self {
        Self::of_open_files(getrlimit(Resource::Nofile).current)
    }
}

/// The open connections of a process. Every clone shares them.
#[derive(Clone)]
pub struct Connections(Arc<Shared>);

struct Shared {
    limits: ConnectionLimits,
    local: LocalCallers,
    open: Mutex<OpenConnections>,
    refused: AtomicU64,
    closed_idle: AtomicU64,
}

#[derive(Default)]
struct OpenConnections {
    next: u64,
    /// In the order in which they were accepted.
    by_id: BTreeMap<u64, Arc<Connection>>,
    without_credential: usize,
    /// Those without a credential of each address of another machine.
    per_address: HashMap<IpAddr, usize>,
}

/// How many connections there are, for `/state` and `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionCounts {
    /// The limits.
    #[serde(flatten)]
    pub limits: ConnectionLimits,
    /// Open connections.
    pub open: usize,
    /// Those without a credential.
    pub without_credential: usize,
    /// New connections that were closed at once, since the start.
    pub refused: u64,
    /// Idle ones that were closed in favour of a new one, since the start.
    pub closed_idle: u64,
}

/// One open connection.
pub(crate) struct Connection {
    id: u64,
    /// Its address; `None` for the user of this machine, whom the limit per address does not concern.
    address: Option<IpAddr>,
    requests: AtomicUsize,
    served: AtomicU64,
    has_credential: AtomicBool,
    /// Whether it was accepted beyond the limit for connections without a credential.
    is_in_reserve: AtomicBool,
    is_evicted: AtomicBool,
    waker: AtomicWaker,
}

/// Holds a connection open; it is over when this is dropped.
pub(crate) struct ConnectionGuard {
    connection: Arc<Connection>,
    shared: Arc<Shared>,
}

/// Held while a request on a connection is served.
pub(crate) struct ServedRequest(Arc<Connection>);

impl Connections {
    /// No connection, with these limits. Addresses in `local` are those of the user of this machine.
    pub fn new(limits: ConnectionLimits, local: LocalCallers) -> Self {
        let open = Mutex::default();
        Self(Arc::new(Shared {
            limits,
            local,
            open,
            refused: AtomicU64::new(0),
            closed_idle: AtomicU64::new(0),
        }))
    }

    /// Admits a new connection from `peer`; `None` if it has to be closed.
    pub(crate) fn admit(&self, peer: IpAddr) -> Option<ConnectionGuard> {
        let Self(shared) = self;
        let limits = &shared.limits;
        let address = Some(peer.to_canonical()).filter(|address| !shared.local.contains(*address));
        let mut open = shared.open();
        let of_address = |open: &OpenConnections| {
            address.and_then(|address| open.per_address.get(&address).copied()).unwrap_or_default()
        };
        let is_refused = of_address(&open) >= limits.max_per_address
            && !shared.evict_idle(&mut open, |idle| idle.address == address);
        if !is_refused && open.without_credential >= limits.max_without_credential {
            // One of the reserve may be about to prove a credential.
            shared.evict_idle(&mut open, |idle| !idle.is_in_reserve.load(Relaxed));
        }
        if is_refused || open.by_id.len() >= limits.max && !shared.evict_idle(&mut open, |_| true) {
            shared.refused.fetch_add(1, Relaxed);
            return None;
        }
        let is_in_reserve = open.without_credential >= limits.max_without_credential;
        let connection = Arc::new(Connection {
            id: open.next,
            address,
            requests: AtomicUsize::new(0),
            served: AtomicU64::new(0),
            has_credential: AtomicBool::new(false),
            is_in_reserve: AtomicBool::new(is_in_reserve),
            is_evicted: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        open.next += 1;
        open.by_id.insert(connection.id, Arc::clone(&connection));
        open.without_credential += 1;
        if let Some(address) = address {
            *open.per_address.entry(address).or_default() += 1;
        }
        drop(open);
        Some(ConnectionGuard { connection, shared: Arc::clone(shared) })
    }

    /// The present counts.
    pub fn counts(&self) -> ConnectionCounts {
        let Self(shared) = self;
        let open = shared.open();
        ConnectionCounts {
            limits: shared.limits,
            open: open.by_id.len(),
            without_credential: open.without_credential,
            refused: shared.refused.load(Relaxed),
            closed_idle: shared.closed_idle.load(Relaxed),
        }
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the oldest idle connection without a credential that `may_go`. Returns whether there was one.
    fn evict_idle(&self, open: &mut OpenConnections, may_go: impl Fn(&Connection) -> bool) -> bool {
        let is_idle = |connection: &&Arc<Connection>| {
            connection.requests.load(Relaxed) == 0
                && !connection.has_credential.load(Relaxed)
                && may_go(connection)
        };
        let Some(oldest) = open.by_id.values().find(is_idle).cloned() else { return false };
        open.remove(&oldest);
        oldest.is_evicted.store(true, Relaxed);
        oldest.waker.wake();
        self.closed_idle.fetch_add(1, Relaxed);
        true
    }
}

impl OpenConnections {
    fn remove(&mut self, connection: &Connection) {
        if self.by_id.remove(&connection.id).is_some() && !connection.has_credential.load(Relaxed) {
            self.uncount(connection);
        }
    }

    /// Removes it from the counts of those without a credential.
    fn uncount(&mut self, connection: &Connection) {
        self.without_credential -= 1;
        if let Some(address) = connection.address
            && let Some(count) = self.per_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&address);
            }
        }
    }
}

impl ConnectionGuard {
    /// The connection.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Notes that a request was authenticated on it, by a credential or without one. Fails without one on a connection of the
    /// reserve.
    pub(crate) fn note_caller(&self, has_credential: bool) -> Result<(), Problem> {
        let Self { connection, shared } = self;
        if connection.has_credential.load(Relaxed) {
            return Ok(());
        }
        if has_credential {
            let mut open = shared.open();
            if open.by_id.contains_key(&connection.id) && !connection.has_credential.swap(true, Relaxed) {
                open.uncount(connection);
            }
            return Ok(());
        }
        if !connection.is_in_reserve.load(Relaxed) {
            return Ok(());
        }
        let max = shared.limits.max_without_credential;
        if shared.open().without_credential <= max {
            connection.is_in_reserve.store(false, Relaxed);
            return Ok(());
        }
        let message = format!("{max} connections without a credential are open, which is the limit");
        Err(Problem::new(Reason::Overloaded, message).with("limit", max))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.shared.open().remove(&self.connection);
    }
}

impl Connection {
    /// Call it at the start of a request.
    pub(crate) fn begin_request(self: &Arc<Self>) -> ServedRequest {
        self.requests.fetch_add(1, Relaxed);
        self.served.fetch_add(1, Relaxed);
        ServedRequest(Arc::clone(self))
    }

    /// Ready when the connection has to close in favour of another one.
    pub(crate) fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        if self.is_evicted.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Returns when the connection has to close in favour of another one.
    pub(crate) async fn evicted(&self) {
        poll_fn(|cx| self.poll_evicted(cx)).await;
    }

    /// Returns when no request has been served for `limit` or a little longer.
    pub(crate) async fn idle(&self, limit: std::time::Duration) {
        loop {
            let before = self.served.load(Relaxed);
            tokio::time::sleep(limit).await;
            if self.requests.load(Relaxed) == 0 && self.served.load(Relaxed) == before {
                return;
            }
        }
    }
}

impl Drop for ServedRequest {
    fn drop(&mut self) {
        let Self(connection) = self;
        connection.requests.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits =
        ConnectionLimits { max: 8, max_without_credential: 6, max_per_address: 3 };

    fn connections() -> Connections {
        Connections::new(LIMITS, LocalCallers::default())
    }

    fn from(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_evicted(guard: &ConnectionGuard) -> bool {
        guard.connection.is_evicted.load(Relaxed)
    }

    #[test]
    fn the_limits_follow_from_the_limit_of_open_files() {
        let of = ConnectionLimits::of_open_files;
        assert_eq!(
            of(Some(1024)),
            ConnectionLimits { max: 768, max_without_credential: 576, max_per_address: 192 }
        );
        assert_eq!(of(Some(65_536)).max_per_address, 256);
        assert_eq!((of(None).max, of(Some(1 << 30)).max), (20_000, 20_000));
    }

    #[test]
    fn an_address_has_a_limit_and_its_oldest_idle_connection_gives_way() {
        let connections = connections();
        let kept: Vec<_> = (0..3).map(|_| connections.admit(from(1)).unwrap()).collect();
        let busy = kept[0].connection.begin_request();
        let fourth = connections.admit(from(1)).unwrap();
        assert!(!is_evicted(&kept[0]) && is_evicted(&kept[1]) && !is_evicted(&kept[2]));
        let others: Vec<_> = [&kept[2], &fourth].map(|guard| guard.connection.begin_request()).into();
        assert!(connections.admit(from(1)).is_none(), "all three are busy");
        assert!(connections.admit(from(2)).is_some(), "another address is not concerned");
        assert_eq!((connections.counts().refused, connections.counts().closed_idle), (1, 1));
        drop((busy, others, kept, fourth));
        assert_eq!((connections.counts().open, connections.counts().without_credential), (0, 0));
        assert!(connections.0.open().per_address.is_empty());
    }

    #[test]
    fn connections_with_a_credential_count_for_no_address_and_are_not_closed() {
        let connections = connections();
        let proven: Vec<_> = (0..5)
            .map(|_| {
                let guard = connections.admit(from(1)).unwrap();
                guard.note_caller(true).unwrap();
                guard
            })
            .collect();
        assert_eq!(connections.counts().without_credential, 0);
        let _more: Vec<_> = (0..3).map(|_| connections.admit(from(1)).unwrap()).collect();
        assert!(connections.admit(from(2)).is_some(), "an idle one without a credential gives way");
        assert!(proven.iter().all(|guard| !is_evicted(guard)));
    }

    #[test]
    fn the_reserve_is_for_callers_with_a_credential() {
        let connections = connections();
        let kept: Vec<_> = (1..=6).map(|last| connections.admit(from(last)).unwrap()).collect();
        let busy: Vec<_> = kept.iter().map(|guard| guard.connection.begin_request()).collect();
        let (one, other) =
            (connections.admit(from(7)).unwrap(), connections.admit(IpAddr::from([127, 0, 0, 1])).unwrap());
        assert_eq!(one.note_caller(true), Ok(()));
        let refused = other.note_caller(false).unwrap_err();
        assert_eq!(
            (refused.reason, refused.message.contains('6')),
            (Reason::Overloaded, true),
            "{refused:?}"
        );
        let (_one_busy, _other_busy) = (one.connection.begin_request(), other.connection.begin_request());
        assert!(connections.admit(from(8)).is_none(), "all are busy");
        drop(busy);
        drop(kept);
        assert_eq!(other.note_caller(false), Ok(()));
    }

    #[test]
    fn the_user_of_this_machine_has_no_limit_per_address() {
        let connections = connections();
        let local: Vec<_> =
            (0..6).map(|_| connections.admit(IpAddr::from([127, 0, 0, 1])).unwrap()).collect();
        assert!(local.iter().all(|guard| !is_evicted(guard)));
        let _seventh = connections.admit(IpAddr::from([127, 0, 0, 1])).unwrap();
        assert!(is_evicted(&local[0]), "but the one for all without a credential");
    }
}
