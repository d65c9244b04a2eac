//! The actor that owns the directory: it takes a decision, commits it, and only then applies it.

#[cfg(test)]
mod churn_tests;
#[cfg(test)]
mod faulty_store;
mod messages;
mod registration_service;
mod rows;
mod signal_outbox;
#[cfg(test)]
pub(crate) mod tests;

pub use messages::{
    AdmitKey, ChangeKey, Deregister, Forget, GetAgent, GetRegistryState, LeaveReason, ListKeys,
    ReadKeyRecords, Recertify, RecordHeartbeat, RegistryState, ReportSuspicion, ResetKey, SweepLeases,
    WatchDirectory, WatchStart,
};
pub use registration_service::Clocks;
pub use rows::OWNER;
pub use signal_outbox::SignalPublisher;

use crate::{config::Config, directory::AgentDirectory, pinned_keys::PinnedKey};
use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, MessageResult,
    ResponseFuture, WrapFuture, dev::ToEnvelope,
};
use protocol::{
    identity::{KeyCertificate, PublicIdentity},
    ids::AgentId,
    log_throttle::LogThrottle,
    problem::{Problem, Reason},
};
use registration_service::RegistrationService;
use signal_outbox::SignalOutbox;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{Error, SharedStore};
use supervisor::{RestartBudget, RestartGuard, Supervisor};
use tokio::sync::{Mutex, Semaphore, broadcast};
use transport::key_ring::KeyRing;
use transport::operation::{Call, Caller, Operation, Service};

/// The actor that owns the directory.
pub struct RegistryActor {
    service: Rc<RegistrationService>,
    outbox: Option<SignalOutbox>,
    sweeps_on_timer: bool,
    /// Throttles log lines about expiries that could not be committed.
    sweep_failures: LogThrottle,
    life: RestartGuard,
}

/// The registry of this process, restarted after a panic. Cheap to clone.
#[derive(Clone)]
pub struct SupervisedRegistry(Arc<Supervisor<Addr<RegistryActor>>>);

impl SupervisedRegistry {
    /// Starts a [`RegistryActor`] on this thread and restarts it after a panic. Fails if the first start fails. `keys` has the
    /// registry's own key, with which it certifies those of others.
    pub fn start(
        config: Config,
        store: SharedStore,
        board: Arc<dyn SignalPublisher>,
        clocks: Clocks,
        keys: KeyRing,
    ) -> Result<Self, Problem> {
        let unavailable = Reason::RegistryUnavailable;
        let supervised =
            Supervisor::start("the registry", unavailable, RestartBudget::default(), move |life| {
                let (config, store, keys) = (config.clone(), store.clone(), keys.clone());
                let actor = RegistryActor::open(config, store, board.clone(), clocks.clone(), keys)?;
                Ok(RegistryActor { life, ..actor }.run())
            })?;
        Ok(Self(supervised))
    }

    /// The running actor; an error while it is down.
    pub(crate) fn actor(&self) -> Result<Addr<RegistryActor>, Problem> {
        self.0.get()
    }

    /// Sends `message` to the actor; fails with `registry_unavailable` if the actor is down.
    pub(crate) async fn ask<M>(&self, message: M) -> Result<M::Result, Problem>
    where
        M: Message<Result: Send> + Send + 'static,
        RegistryActor: Handler<M>,
        <RegistryActor as Actor>::Context: ToEnvelope<RegistryActor, M>,
    {
        let unavailable =
            |_| Problem::new(Reason::RegistryUnavailable, "the registry did not live to answer");
        self.actor()?.send(message).await.map_err(unavailable)
    }

    /// Pins the key of an agent that has proven the join secret, and certifies it. Fails with `key_mismatch` if another key is
    /// pinned.
    pub async fn admit_key(&self, identity: Arc<PublicIdentity>) -> Result<KeyCertificate, Problem> {
        self.ask(AdmitKey(identity)).await?
    }

    /// Gives up the key of `id`: the next process that registers under it pins its own.
    pub async fn reset_key(&self, id: AgentId) -> Result<(), Problem> {
        self.ask(ResetKey(id)).await?
    }

    /// Forgets an agent that is not there: it has left for good, and leaves the lists. Its name stays reserved for its key.
    pub async fn forget(&self, id: AgentId) -> Result<(), Problem> {
        self.ask(Forget(id)).await?
    }

    /// The keys of all ids.
    pub async fn pinned_keys(&self) -> Result<Vec<PinnedKey>, Problem> {
        self.ask(ListKeys).await
    }

    /// Certifies every key anew, after the registry's own key was replaced.
    pub async fn recertify(&self) -> Result<(), Problem> {
        self.ask(Recertify).await
    }

    /// The number of restarts after a panic.
    pub fn restarts(&self) -> u64 {
        self.0.restarts()
    }
}

impl From<Addr<RegistryActor>> for SupervisedRegistry {
    fn from(actor: Addr<RegistryActor>) -> Self {
        Self(Supervisor::unsupervised("the registry", Reason::RegistryUnavailable, actor))
    }
}

impl RegistryActor {
    /// Loads the registry from `store`. Every registered agent gets a full lease from now.
    pub fn open(
        config: Config,
        store: SharedStore,
        board: Arc<dyn SignalPublisher>,
        clocks: Clocks,
        keys: KeyRing,
    ) -> Result<Self, Error> {
        let rows::StoredRows { agents, pins, floor } = rows::load(&store)?;
        let pinned: BTreeSet<_> = pins.iter().map(|pin| &pin.id).collect();
        let unpinned = agents.iter().filter(|row| !pinned.contains(&row.card.agent_id)).count();
        if unpinned > 0 {
            tracing::warn!(
                "{unpinned} agents are registered by an earlier version, without a key: each is pinned when its process, updated, \
                 registers again"
            );
        }
        // A registry without data starts above every incarnation given before. Otherwise the board would see a known
        // signal id with other content, and an agent's old process could deregister its new one.
        let floor = floor.unwrap_or_else(|| u64::try_from((clocks.wall)().0).unwrap_or(0));
        let directory = AgentDirectory::new(config.clone(), agents, floor, (clocks.node)());
        let outbox = SignalOutbox::new(store.clone(), board, &config);
        let service = RegistrationService {
            directory: RefCell::new(directory),
            pins: RefCell::default(),
            keys,
            life: uuid::Uuid::new_v4().to_string(),
            pending: RefCell::default(),
            change_lock: Mutex::new(()),
            change_permits: Semaphore::new(config.max_waiting),
            sweep_is_queued: Cell::new(false),
            outbox_wake: outbox.wake.clone(),
            changes: broadcast::Sender::new(config.max_watch_lag.max(1)),
            config,
            clocks,
            store,
        };
        pins.into_iter().for_each(|pin| service.apply_pin(pin));
        Ok(Self {
            service: Rc::new(service),
            outbox: Some(outbox),
            sweeps_on_timer: true,
            sweep_failures: LogThrottle::default(),
            life: RestartGuard::unsupervised(),
        })
    }

    /// Disables the sweep timer; leases are checked on [`SweepLeases`] only.
    #[must_use]
    pub fn without_sweep_timer(mut self) -> Self {
        self.sweeps_on_timer = false;
        self
    }

    /// Starts the actor on this thread.
    pub fn run(self) -> Addr<Self> {
        self.start()
    }
}

impl Actor for RegistryActor {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        self.life.mark_stopped();
    }

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(self.service.config.max_waiting);
        match self.outbox.take() {
            Some(outbox) => {
                ctx.spawn(outbox.run().into_actor(self));
            }
            None => ctx.stop(),
        }
        if self.sweeps_on_timer {
            let interval = Duration::from_millis(self.service.config.sweep_ms.max(1));
            ctx.run_interval(interval, |actor, ctx| {
                let service = actor.service.clone();
                let sweep = async move { service.sweep().await };
                ctx.spawn(sweep.into_actor(actor).map(|outcome, actor, _| match outcome {
                    Ok(()) => {
                        if let Some(times) = actor.sweep_failures.worked() {
                            tracing::warn!(times, "expiries are recorded again");
                        }
                    }
                    Err(problem) => {
                        if let Some(times) = actor.sweep_failures.failed(Instant::now()) {
                            tracing::warn!(%problem, times, "an expiry could not be recorded; it is retried");
                        }
                    }
                }));
            });
        }
    }
}

impl<O: Operation> Handler<Call<O>> for RegistryActor
where
    RegistrationService: Service<O>,
{
    type Result = ResponseFuture<Result<O::Answer, Problem>>;
    fn handle(&mut self, Call { by, operation }: Call<O>, _: &mut Self::Context) -> Self::Result {
        let service = self.service.clone();
        Box::pin(async move { service.call(&by, operation).await })
    }
}

impl<O: Operation> Service<O> for SupervisedRegistry
where
    RegistryActor: Handler<Call<O>>,
{
    async fn call(&self, by: &Caller, operation: O) -> Result<O::Answer, Problem> {
        self.ask(Call { by: by.clone(), operation }).await?
    }
}

impl Handler<AdmitKey> for RegistryActor {
    type Result = ResponseFuture<Result<KeyCertificate, Problem>>;
    fn handle(&mut self, AdmitKey(identity): AdmitKey, _: &mut Self::Context) -> Self::Result {
        let service = self.service.clone();
        Box::pin(async move { service.admit_key(&identity).await })
    }
}

impl Handler<ResetKey> for RegistryActor {
    type Result = ResponseFuture<Result<(), Problem>>;
    fn handle(&mut self, ResetKey(id): ResetKey, _: &mut Self::Context) -> Self::Result {
        let service = self.service.clone();
        Box::pin(async move { service.reset_key(&id).await })
    }
}

impl Handler<Forget> for RegistryActor {
    type Result = ResponseFuture<Result<(), Problem>>;
    fn handle(&mut self, Forget(id): Forget, _: &mut Self::Context) -> Self::Result {
        let service = self.service.clone();
        Box::pin(async move { service.forget(&id).await })
    }
}

impl Handler<Recertify> for RegistryActor {
    type Result = ();
    fn handle(&mut self, _: Recertify, _: &mut Self::Context) {
        self.service.recertify();
    }
}

impl Handler<ListKeys> for RegistryActor {
    type Result = MessageResult<ListKeys>;
    fn handle(&mut self, _: ListKeys, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.service.pins.borrow().all().cloned().collect())
    }
}

impl Handler<WatchDirectory> for RegistryActor {
    type Result = Result<WatchStart, Problem>;
    fn handle(&mut self, _: WatchDirectory, _: &mut Self::Context) -> Self::Result {
        self.service.subscribe()
    }
}

impl Handler<SweepLeases> for RegistryActor {
    type Result = ResponseFuture<Result<(), Problem>>;
    fn handle(&mut self, _: SweepLeases, _: &mut Self::Context) -> Self::Result {
        let service = self.service.clone();
        Box::pin(async move { service.sweep().await })
    }
}

impl Handler<GetRegistryState> for RegistryActor {
    type Result = MessageResult<GetRegistryState>;
    fn handle(&mut self, _: GetRegistryState, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.service.state())
    }
}
