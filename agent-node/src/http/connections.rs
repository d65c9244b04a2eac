//! The open connections of a process, and their limits (DESIGN §8, "Budgets"), which follow from its limit of open files.
//!
//! A connection has a credential once a request on it has proved an agent, a service, a brain, a configured user or the person.
//! Those without are limited per address and in all, those with one per principal; the rest is a reserve, on which nothing is
//! served without a credential. A connection is idle unless it serves a request that was authenticated: one whose head or body is
//! still on its way keeps no place. Where a limit is reached, the caller with the most connections gives up its oldest idle one,
//! those without a credential first.

pub(super) mod connection_state;
mod open_connections;

use super::{client_address::counted_as, local_callers::LocalCallers};
use crate::budget_holder::BudgetHolder;
use futures_util::task::AtomicWaker;
use open_connections::{OpenConnection, OpenConnections};
use protocol::problem::{Problem, Reason};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use std::{
    cmp::Reverse,
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
    pub max: usize,
    /// Those without a credential. The others are reserved for connections with one.
    pub max_without_credential: usize,
    /// Those without a credential from one address of another machine.
    pub max_per_address: usize,
    /// Those of one principal with a credential; the person's token has no such limit.
    pub max_per_principal: usize,
    /// The part of all that only the person's token can use.
    pub reserved_for_person: usize,
}

impl ConnectionLimits {
    /// The limits of a process that may open `files` files. A quarter of them is for its store, its own calls and its brains; a
    /// quarter of the connections is for callers with a credential.
    pub fn of_open_files(files: Option<u64>) -> Self {
        let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        let max = (files / 4 * 3).clamp(16, MAX_CONNECTIONS);
        Self {
            max,
            max_without_credential: max / 4 * 3,
            max_per_address: MAX_PER_ADDRESS.min(max / 4),
            max_per_principal: max / 4,
            reserved_for_person: max / 16,
        }
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

/// How many connections there are, for `/state` and `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionCounts {
    #[serde(flatten)]
    pub limits: ConnectionLimits,
    pub open: usize,
    pub without_credential: usize,
    /// New connections that were closed at once, since the start.
    pub refused: u64,
    /// Idle ones that were closed in favour of another one, since the start.
    pub closed_idle: u64,
}

pub(crate) struct Connection {
    id: u64,
    requests: AtomicUsize,
    /// Requests that were authenticated and are served.
    authenticated: AtomicUsize,
    served: AtomicU64,
    has_credential: AtomicBool,
    /// Whether it may serve requests with a credential only.
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
pub(crate) struct ServedRequest {
    connection: Arc<Connection>,
    shared: Arc<Shared>,
    is_authenticated: AtomicBool,
}

impl Connections {
    /// No connection, with these limits. The limit per address does not concern addresses in `local`, which are those of the
    /// user of this machine.
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
        let holder = BudgetHolder::Address(counted_as(peer));
        let mut open = shared.open();
        let is_refused = !shared.local.contains(peer)
            && open.count(&holder) >= limits.max_per_address
            && !shared.evict_idle(&mut open, |of, _| *of == holder);
        if !is_refused && open.usable_without_credential() >= limits.max_without_credential {
            // One of the reserve may be about to prove a credential.
            shared
                .evict_idle(&mut open, |of, idle| !of.has_credential() && !idle.is_in_reserve.load(Relaxed));
        }
        if is_refused || open.by_id.len() >= limits.max && !shared.evict_idle(&mut open, |_, _| true) {
            shared.refused.fetch_add(1, Relaxed);
            return None;
        }
        let is_in_reserve = open.usable_without_credential() >= limits.max_without_credential
            || open.not_for_person() >= limits.max_not_for_person();
        let connection = Arc::new(Connection {
            id: open.next,
            requests: AtomicUsize::new(0),
            authenticated: AtomicUsize::new(0),
            served: AtomicU64::new(0),
            has_credential: AtomicBool::new(false),
            is_in_reserve: AtomicBool::new(is_in_reserve),
            is_evicted: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        open.next += 1;
        open.insert(Arc::clone(&connection), holder);
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

impl ConnectionLimits {
    /// The connections of one of `workers` worker threads at which actix stops to accept. All together leave an eighth more open
    /// than `max`: those that have given way and are about to close.
    pub(super) fn max_per_worker(&self, workers: usize) -> usize {
        (self.max + self.max / 8).div_ceil(workers.max(1)) + 1
    }

    fn max_not_for_person(&self) -> usize {
        self.max - self.reserved_for_person
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes an idle connection that `may_go`: of those without a credential if there are any, the oldest of the holder that has
    /// the most; never one of the person's. Returns whether there was one.
    fn evict_idle(
        &self,
        open: &mut OpenConnections,
        may_go: impl Fn(&BudgetHolder, &Connection) -> bool,
    ) -> bool {
        let mut holders: Vec<_> =
            open.by_holder.iter().filter(|(holder, _)| **holder != BudgetHolder::Person).collect();
        holders.sort_by_key(|(holder, ids)| (holder.has_credential(), Reverse(ids.len())));
        let is_idle = |id: &&u64| {
            open.by_id.get(*id).is_some_and(|OpenConnection { connection, holder }| {
                connection.authenticated.load(Relaxed) == 0 && may_go(holder, connection)
            })
        };
        let Some(oldest) = holders.into_iter().find_map(|(_, ids)| ids.iter().find(is_idle).copied()) else {
            return false;
        };
        let Some(evicted) = open.remove(oldest) else { return false };
        evicted.is_evicted.store(true, Relaxed);
        evicted.waker.wake();
        self.closed_idle.fetch_add(1, Relaxed);
        true
    }

    /// Notes that `holder` uses `connection`. Fails if a limit keeps it from that.
    fn note_holder(&self, connection: &Connection, holder: &BudgetHolder) -> Result<(), Problem> {
        let limits = &self.limits;
        let mut open = self.open();
        let Some(before) = open.by_id.get(&connection.id).map(|open| &open.holder) else {
            return Err(overloaded("the connection is closed in favour of another one", limits.max));
        };
        if before.has_credential() {
            return Ok(());
        }
        match holder {
            BudgetHolder::Person => {}
            holder if holder.has_credential() => {
                let max = limits.max_per_principal;
                if open.count(holder) >= max && !self.evict_idle(&mut open, |of, _| of == holder) {
                    let message = format!(
                        "{holder} uses {max} connections here, which is the limit; close some, or send more requests on each"
                    );
                    return Err(Problem::new(Reason::RateLimited, message).with("limit", max));
                }
            }
            BudgetHolder::Address(_) | BudgetHolder::Principal(_) => {
                let max = limits.max_without_credential;
                let is_idle = |of: &BudgetHolder, idle: &Connection| {
                    !of.has_credential() && !idle.is_in_reserve.load(Relaxed)
                };
                if open.usable_without_credential() >= max && !self.evict_idle(&mut open, is_idle) {
                    let message =
                        format!("{max} connections without a credential are open, which is the limit");
                    return Err(overloaded(&message, max));
                }
            }
        }
        let max = limits.max_not_for_person();
        if *holder != BudgetHolder::Person
            && connection.is_in_reserve.load(Relaxed)
            && open.not_for_person() >= max
            && !self.evict_idle(&mut open, |_, idle| !idle.is_in_reserve.load(Relaxed))
        {
            return Err(overloaded(&format!("{max} connections are in use, which is the limit"), max));
        }
        open.set_holder(connection.id, holder);
        Ok(())
    }
}

fn overloaded(message: &str, limit: usize) -> Problem {
    Problem::new(Reason::Overloaded, message).with("limit", limit)
}

impl ConnectionGuard {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Call it at the start of a request.
    pub(crate) fn begin_request(&self) -> ServedRequest {
        let (connection, shared) = (Arc::clone(&self.connection), Arc::clone(&self.shared));
        connection.requests.fetch_add(1, Relaxed);
        connection.served.fetch_add(1, Relaxed);
        ServedRequest { connection, shared, is_authenticated: AtomicBool::new(false) }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.shared.open().remove(self.connection.id);
    }
}

impl Connection {
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

impl ServedRequest {
    /// Notes that the request was authenticated as `holder`'s; the connection does not give way to another one while it is served.
    /// Fails if a limit keeps the holder from the connection.
    pub(crate) fn note_caller(&self, holder: &BudgetHolder) -> Result<(), Problem> {
        let Self { connection, shared, is_authenticated } = self;
        if !is_authenticated.swap(true, Relaxed) {
            connection.authenticated.fetch_add(1, Relaxed);
        }
        let is_noted = connection.has_credential.load(Relaxed)
            || !holder.has_credential() && !connection.is_in_reserve.load(Relaxed);
        let noted = match is_noted && !connection.is_evicted.load(Relaxed) {
            true => Ok(()),
            false => shared.note_holder(connection, holder),
        };
        noted.inspect_err(|_| self.end())
    }

    fn end(&self) {
        if self.is_authenticated.swap(false, Relaxed) {
            self.connection.authenticated.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for ServedRequest {
    fn drop(&mut self) {
        self.end();
        self.connection.requests.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
