//! Serialises changes of the directory: decide, commit, apply, notify watchers.

use super::{
    messages::{
        ChangeKey, Deregister, GetAgent, LeaveReason, ReadKeyRecords, RecordHeartbeat, RegistryState,
        ReportSuspicion, WatchStart,
    },
    rows,
};
use crate::{
    config::Config,
    directory::{AgentDirectory, Departure, DirectoryChange, DirectoryError, RegistrationDecision},
    entry::{AgentEntry, AgentList, AgentQuery, Heartbeat, LeaseGrant},
    pinned_keys::{KeyCursor, KeyPage, PinnedKey, PinnedKeys},
    registration_request::{RegistrationRequest, may_speak_for},
};
use protocol::{
    card::Card,
    identity::{KeyCertificate, PublicIdentity},
    ids::AgentId,
    principal::{MeshService, Principal},
    problem::{Problem, Reason},
    time::{NodeTime, WallTime},
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};
use store::{Error, Lane, SharedStore};
use tokio::sync::{
    Mutex, MutexGuard, Notify, Semaphore, broadcast,
    oneshot::{self, error::TryRecvError},
};
use transport::endpoint_probe::refuses;
use transport::key_ring::KeyRing;
use transport::operation::{Caller, Service};

/// The node clock and the wall clock, as functions so that tests can drive them.
#[derive(Clone)]
pub struct Clocks {
    /// The clock of leases.
    pub node: Arc<dyn Fn() -> NodeTime + Send + Sync>,
    /// The clock of signal timestamps.
    pub wall: Arc<dyn Fn() -> WallTime + Send + Sync>,
}

/// Most registrations in one commit.
const MAX_BATCH: usize = 256;

/// A registration that waits for the next commit.
pub(super) struct PendingRegistration {
    card: Arc<Card>,
    instance: String,
    identity: Arc<PublicIdentity>,
    reply: oneshot::Sender<Result<LeaseGrant, Problem>>,
}

impl PendingRegistration {
    fn answer(self, outcome: Result<LeaseGrant, Problem>) {
        // A caller that has gone away is registered anyway; its repeat gets the same answer.
        let _ = self.reply.send(outcome);
    }
}

/// State shared by the handlers. Changes are decided and committed one at a time; reads and heartbeats don't wait.
pub(super) struct RegistrationService {
    pub(super) config: Config,
    pub(super) clocks: Clocks,
    pub(super) store: SharedStore,
    pub(super) directory: RefCell<AgentDirectory>,
    pub(super) pins: RefCell<PinnedKeys>,
    pub(super) keys: KeyRing,
    /// Names this life of the registry in cursors of key records.
    pub(super) life: String,
    pub(super) pending: RefCell<VecDeque<PendingRegistration>>,
    pub(super) change_lock: Mutex<()>,
    pub(super) change_permits: Semaphore,
    pub(super) sweep_is_queued: Cell<bool>,
    pub(super) outbox_wake: Rc<Notify>,
    pub(super) changes: broadcast::Sender<Arc<AgentEntry>>,
}

impl RegistrationService {
    pub(super) fn now(&self) -> NodeTime {
        (self.clocks.node)()
    }

    async fn register(&self, by: &Principal, request: RegistrationRequest) -> Result<LeaseGrant, Problem> {
        request.check()?;
        let RegistrationRequest { card, instance } = request;
        let id = card.agent_id.clone();
        let taken = self.directory.borrow().get(&id, self.now()).is_some();
        may_speak_for(by, &id, taken)?;
        // The key that the request was proven by.
        let identity = self
            .keys
            .identity(id.as_str())
            .ok_or_else(|| Problem::new(Reason::Unauthenticated, format!("no key of {id} is known here")))?;
        let lock = self.lock_changes()?;
        let (reply, mut receiver) = oneshot::channel();
        self.pending.borrow_mut().push_back(PendingRegistration { card, instance, identity, reply });
        let guard = lock.await;
        let mut outcome = receiver.try_recv();
        if outcome == Err(TryRecvError::Empty) {
            self.admit_pending(&guard).await;
            outcome = receiver.try_recv();
        }
        outcome.unwrap_or_else(|_| {
            Err(Problem::new(Reason::Internal, "the registration came to nothing; it may be tried again"))
        })
    }

    /// Decides on the pending registrations and commits them in one batch. A second registration of the same agent waits
    /// for the next batch, as its decision depends on the first.
    async fn admit_pending(&self, guard: &MutexGuard<'_, ()>) {
        let (mut admitted, mut repeats) = (Vec::new(), Vec::new());
        let mut all = DirectoryChange::default();
        {
            let (mut pending, directory) = (self.pending.borrow_mut(), self.directory.borrow());
            let mut ids = BTreeSet::new();
            while let Some(next) = pending.pop_front() {
                let is_full = ids.len() >= MAX_BATCH || ids.len() >= directory.free_slots().max(1);
                if is_full || !ids.insert(next.card.agent_id.clone()) {
                    pending.push_front(next);
                    break;
                }
                let pin = self.pins.borrow().pin(&next.identity, (self.clocks.wall)());
                let decision = directory.register(next.card.clone(), &next.instance).map_err(Problem::from);
                match pin.and_then(|pin| Ok((pin, decision?))) {
                    Err(problem) => next.answer(Err(problem)),
                    Ok((None, RegistrationDecision { incarnation, change: None })) => {
                        repeats.push((next, incarnation))
                    }
                    Ok((pin, RegistrationDecision { incarnation, change })) => {
                        let change = change.unwrap_or_default();
                        all.pinned.extend(pin);
                        all.floor = all.floor.max(change.floor);
                        all.written.extend(change.written);
                        all.forgotten.extend(change.forgotten);
                        all.events.extend(change.events);
                        admitted.push((next, incarnation));
                    }
                }
            }
        }
        let Config { lease_ms, heartbeat_ms, .. } = self.config;
        let grant = |id: &AgentId, incarnation| {
            let certificate = self.pins.borrow().certificate(id);
            LeaseGrant { incarnation, lease_ms, heartbeat_ms, certificate }
        };
        for (registration, incarnation) in repeats {
            let renewed = self.renew_on_repeat(&registration.card.agent_id, incarnation);
            let granted = renewed.map(|()| grant(&registration.card.agent_id, incarnation));
            registration.answer(granted);
        }
        if admitted.is_empty() {
            return;
        }
        let committed = self.commit_change(guard, Lane::Admission, all).await;
        for (registration, incarnation) in admitted {
            let granted = committed.clone().map(|()| grant(&registration.card.agent_id, incarnation));
            registration.answer(granted);
        }
    }

    /// Renews the lease of an agent that repeats its registration; its load stays as it was.
    fn renew_on_repeat(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        let now = self.now();
        let Some(entry) = self.directory.borrow().get(id, now) else { return Ok(()) };
        let AgentEntry { running, accepting, sent, .. } = entry;
        self.heartbeat(id, Heartbeat { incarnation, running, accepting, sent })
    }

    /// Renews a lease. An agent whose key is not pinned, after a reset, has to register again.
    pub(super) fn heartbeat(&self, id: &AgentId, heartbeat: Heartbeat) -> Result<(), Problem> {
        if self.pins.borrow().identity(id).is_none() {
            return Err(DirectoryError::Unknown(id.clone()).into());
        }
        let changed = self.directory.borrow_mut().heartbeat(id, heartbeat, self.now())?;
        if changed {
            self.notify_watchers([id]);
        }
        Ok(())
    }

    /// The entry of an agent, with its certificate.
    pub(super) fn entry(&self, id: &AgentId) -> Option<AgentEntry> {
        let entry = self.directory.borrow().get(id, self.now())?;
        Some(AgentEntry { key: self.pins.borrow().certificate(id), ..entry })
    }

    /// The entries that match `query`, with their certificates.
    pub(super) fn find(&self, query: &AgentQuery) -> Vec<AgentEntry> {
        let (found, pins) = (self.directory.borrow().find(query, self.now()), self.pins.borrow());
        let certified = |entry: AgentEntry| AgentEntry { key: pins.certificate(entry.id()), ..entry };
        found.into_iter().map(certified).collect()
    }

    /// Takes a key record that is durable: certifies the key, and has the process accept no other one.
    pub(super) fn apply_pin(&self, pin: PinnedKey) {
        let certificate = match &pin.identity {
            Some(identity) => {
                self.keys.set_pinned(Arc::new(identity.clone()), pin.number);
                self.keys.certify(identity, pin.number)
            }
            None => {
                self.keys.revoke(pin.id.as_str(), Some(pin.number));
                None
            }
        };
        let own = certificate.as_ref().filter(|_| self.keys.own(pin.id.as_str()).is_some());
        if let Some(Err(problem)) = own.map(|certificate| self.keys.learn(certificate)) {
            tracing::debug!(agent = %pin.id, %problem, "the certificate is not of the key that this process has");
        }
        self.pins.borrow_mut().apply(pin, certificate);
    }

    /// Certifies every key with the key that the registry has now.
    pub(super) fn recertify(&self) {
        let pins: Vec<_> = self.pins.borrow().all().cloned().collect();
        pins.into_iter().for_each(|pin| self.apply_pin(pin));
    }

    /// Pins the key of an agent that has proven the join secret; a repeat gets the same certificate.
    pub(super) async fn admit_key(&self, identity: &PublicIdentity) -> Result<KeyCertificate, Problem> {
        self.pins.borrow().check(identity)?;
        if self.pins.borrow().identity(identity.id()).is_none() {
            let guard = self.lock_changes()?.await;
            let pin = self.pins.borrow().pin(identity, (self.clocks.wall)())?;
            if let Some(pin) = pin {
                let change = DirectoryChange { pinned: vec![pin], ..DirectoryChange::default() };
                self.commit_change(&guard, Lane::Admission, change).await?;
            }
        }
        self.certificate(identity.id())
    }

    fn certificate(&self, id: &AgentId) -> Result<KeyCertificate, Problem> {
        let certificate = self.pins.borrow().certificate(id);
        certificate.ok_or_else(|| Problem::new(Reason::Internal, "this registry has no key to certify with"))
    }

    /// Gives up the key of `id`, as a person says.
    pub(super) async fn reset_key(&self, id: &AgentId) -> Result<(), Problem> {
        let guard = self.lock_changes()?.await;
        let pin = self.pins.borrow().reset(id, (self.clocks.wall)())?;
        tracing::warn!(agent = %id, "its key was reset by a person: the next process that registers under the id with a new key pins that");
        let change = DirectoryChange { pinned: vec![pin], ..DirectoryChange::default() };
        self.commit_change(&guard, Lane::Progress, change).await
    }

    pub(super) async fn forget(&self, id: &AgentId) -> Result<(), Problem> {
        let guard = self.lock_changes()?.await;
        let change = self.directory.borrow().forget(id)?;
        tracing::info!(agent = %id, "forgotten, as a person says");
        self.commit_change(&guard, Lane::Progress, change).await
    }

    pub(super) async fn sweep(&self) -> Result<(), Problem> {
        if self.sweep_is_queued.replace(true) {
            return Ok(());
        }
        self.try_endpoints().await;
        let guard = self.change_lock.lock().await;
        self.sweep_is_queued.set(false);
        let swept = self.directory.borrow_mut().sweep(self.now());
        self.notify_watchers(&swept.suspected);
        match swept.change {
            Some(change) => self.commit_change(&guard, Lane::Progress, change).await,
            None => Ok(()),
        }
    }

    /// Tries the endpoints of agents that peers could not reach, all at once.
    async fn try_endpoints(&self) {
        let tried = self.directory.borrow().endpoints_to_try();
        let tried = tried.into_iter().map(async |(id, endpoint)| (id, refuses(&endpoint).await));
        for (id, refused) in futures_util::future::join_all(tried).await {
            self.directory.borrow_mut().endpoint_tried(&id, refused);
        }
    }

    /// Locks the directory for a change, in order of arrival; refused if too many changes wait.
    fn lock_changes(&self) -> Result<impl Future<Output = MutexGuard<'_, ()>>, Problem> {
        let permit = self.change_permits.try_acquire().map_err(|_| {
            let message = format!("{} changes wait for the registry's store", self.config.max_waiting);
            Problem::new(Reason::Overloaded, message)
        })?;
        Ok(async move {
            let guard = self.change_lock.lock().await;
            drop(permit);
            guard
        })
    }

    /// Commits a decision, applies it, and notifies watchers and the outbox. A failed commit discards it.
    async fn commit_change(
        &self,
        _guard: &MutexGuard<'_, ()>,
        lane: Lane,
        mut change: DirectoryChange,
    ) -> Result<(), Problem> {
        self.directory.borrow().damp_flapping(&mut change, self.now());
        rows::commit(&self.store, lane, &change, (self.clocks.wall)()).await.map_err(store_problem)?;
        let has_signals = !change.events.is_empty();
        let pinned: Vec<_> = std::mem::take(&mut change.pinned);
        let rekeyed: Vec<_> = pinned.iter().map(|pin| pin.id.clone()).collect();
        pinned.into_iter().for_each(|pin| self.apply_pin(pin));
        let changed = self.directory.borrow_mut().apply(change, self.now());
        let only_rekeyed = rekeyed.iter().filter(|id| !changed.contains(id));
        self.notify_watchers(changed.iter().chain(only_rekeyed));
        if has_signals {
            self.outbox_wake.notify_one();
        }
        Ok(())
    }

    fn notify_watchers<'a>(&self, ids: impl IntoIterator<Item = &'a AgentId>) {
        if self.changes.receiver_count() == 0 {
            return;
        }
        for entry in ids.into_iter().filter_map(|id| self.entry(id)) {
            // An error means that the last watcher has left.
            let _ = self.changes.send(Arc::new(entry.without_sent()));
        }
    }

    pub(super) fn subscribe(&self) -> Result<WatchStart, Problem> {
        let max = self.config.max_watchers;
        if self.changes.receiver_count() >= max {
            return Err(Problem::new(Reason::Overloaded, format!("the registry takes {max} watchers")));
        }
        let query = AgentQuery { include_dead: true, ..AgentQuery::default() };
        let entries = self.find(&query).into_iter().map(AgentEntry::without_sent);
        Ok((entries.collect(), self.changes.subscribe()))
    }

    pub(super) fn state(&self) -> RegistryState {
        RegistryState {
            config: self.config.clone(),
            agents: self.directory.borrow().stats(),
            watchers: self.changes.receiver_count(),
            signals_waiting: rows::count_waiting_signals(&self.store),
        }
    }
}

impl Service<RegistrationRequest> for RegistrationService {
    async fn call(&self, by: &Caller, request: RegistrationRequest) -> Result<LeaseGrant, Problem> {
        self.register(&by.principal, request).await
    }
}

impl Service<RecordHeartbeat> for RegistrationService {
    async fn call(&self, by: &Caller, call: RecordHeartbeat) -> Result<(), Problem> {
        may_speak_for(&by.principal, &call.id, true)?;
        self.heartbeat(&call.id, call.heartbeat)
    }
}

impl Service<ReportSuspicion> for RegistrationService {
    async fn call(&self, by: &Caller, call: ReportSuspicion) -> Result<(), Problem> {
        let Principal::Agent(reporter) = &by.principal else {
            let message = "agents report whom they cannot reach; a user may only read";
            return Err(Problem::new(Reason::Forbidden, message));
        };
        Ok(self.directory.borrow_mut().suspect(reporter, &call.id, call.incarnation, self.now())?)
    }
}

impl Service<Deregister> for RegistrationService {
    async fn call(&self, by: &Caller, call: Deregister) -> Result<(), Problem> {
        may_speak_for(&by.principal, &call.id, true)?;
        let reason = match call.reason {
            Some(LeaveReason::Drained) => Departure::Drained,
            None => Departure::Deregistered,
        };
        let guard = self.lock_changes()?.await;
        let decision = self.directory.borrow().deregister(&call.id, call.incarnation, reason, self.now());
        match decision? {
            Some(change) => self.commit_change(&guard, Lane::Progress, change).await,
            None => Ok(()),
        }
    }
}

impl Service<AgentQuery> for RegistrationService {
    async fn call(&self, by: &Caller, query: AgentQuery) -> Result<AgentList, Problem> {
        let shown = self.find(&query).into_iter().map(|entry| entry.shown_to(by));
        Ok(AgentList { agents: shown.collect() })
    }
}

impl Service<GetAgent> for RegistrationService {
    async fn call(&self, by: &Caller, GetAgent { id }: GetAgent) -> Result<AgentEntry, Problem> {
        let unknown = || Problem::new(Reason::AgentNotFound, format!("no agent {id} is known"));
        Ok(self.entry(&id).ok_or_else(unknown)?.shown_to(by))
    }
}

impl Service<ChangeKey> for RegistrationService {
    async fn call(
        &self,
        by: &Caller,
        ChangeKey { id, change }: ChangeKey,
    ) -> Result<KeyCertificate, Problem> {
        may_speak_for(&by.principal, &id, true)?;
        let guard = self.lock_changes()?.await;
        let pin = self.pins.borrow().change(&id, &change, (self.clocks.wall)())?;
        if let Some(pin) = pin {
            tracing::info!(agent = %id, "its key was replaced, as its old key says");
            let change = DirectoryChange { pinned: vec![pin], ..DirectoryChange::default() };
            self.commit_change(&guard, Lane::Progress, change).await?;
        }
        self.certificate(&id)
    }
}

impl Service<ReadKeyRecords> for RegistrationService {
    async fn call(&self, _: &Caller, call: ReadKeyRecords) -> Result<KeyPage, Problem> {
        let (name, after) = (MeshService::Registry.name(), call.cursor()?);
        let no_key = || Problem::new(Reason::Internal, "this registry has no key to certify with");
        let registry = self.keys.own(name).ok_or_else(no_key)?.as_ref().clone();
        let from =
            after.as_ref().filter(|cursor| cursor.life == self.life).map_or(0, |cursor| cursor.revision);
        let (records, revision, has_more) = self.pins.borrow().changed_after(from);
        let cursor = KeyCursor { life: self.life.clone(), revision };
        Ok(KeyPage { registry, history: self.keys.own_history(name), after, records, cursor, has_more })
    }
}

/// The problem that callers get for a store error.
fn store_problem(error: Error) -> Problem {
    let reason = match error {
        Error::Full => Reason::Overloaded,
        Error::StorageFull => Reason::StorageFull,
        Error::Conflict { .. } | Error::Trimmed { .. } | Error::Corrupt { .. } | Error::Refused(_) => {
            Reason::Internal
        }
        Error::Unknown(_) | Error::Closed(_) => Reason::StoreUnavailable,
    };
    Problem::new(reason, error.to_string())
}
