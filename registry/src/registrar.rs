//! The actor that keeps the directory: it asks the table, makes the answer durable, and only then shows it.

#[cfg(test)]
mod ailing;
mod desk;
mod messages;
mod outbox;
mod rows;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod unrest;

pub use desk::Clocks;
pub use messages::{
    Beat, Deregister, Find, Follow, Following, Look, Observe, Register, State, Suspect, Sweep,
};
pub use outbox::Publish;
pub use rows::OWNER;

use crate::{
    application::may_speak_for,
    config::Config,
    directory::{Departure, Directory},
    entry::{Entry, Registered},
};
use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, MessageResult, ResponseFuture,
    WrapFuture,
};
use blackboard::{
    store::{Error, SharedStore},
    supervisor::{RestartBudget, RestartGuard, Supervisor},
};
use desk::Desk;
use outbox::Outbox;
use protocol::{
    log_throttle::LogThrottle,
    problem::{Problem, Reason},
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, Semaphore, broadcast};

/// Who keeps the directory.
pub struct RegistryActor {
    desk: Rc<Desk>,
    outbox: Option<Outbox>,
    on_timer: bool,
    /// Whether expiries can be recorded.
    unrecorded: LogThrottle,
    life: RestartGuard,
}

/// The registry of this process, started anew when it has panicked. Cheap to clone.
#[derive(Clone)]
pub struct Keeper(Arc<Supervisor<Addr<RegistryActor>>>);

impl Keeper {
    /// Starts [`RegistryActor::open`]'s registry on this thread, and again after a panic.
    pub fn start(
        config: Config,
        store: SharedStore,
        board: Arc<dyn Publish>,
        clocks: Clocks,
    ) -> Result<Self, Problem> {
        let away = Reason::RegistryUnavailable;
        let keeper = Supervisor::start("the registry", away, RestartBudget::default(), move |life| {
            let actor = RegistryActor::open(config.clone(), store.clone(), board.clone(), clocks.clone())?;
            Ok(RegistryActor { life, ..actor }.run())
        })?;
        Ok(Self(keeper))
    }

    /// The actor, or why there is none.
    pub(crate) fn actor(&self) -> Result<Addr<RegistryActor>, Problem> {
        self.0.get()
    }

    /// How often it was started anew after a panic.
    pub fn restarts(&self) -> u64 {
        self.0.restarts()
    }
}

impl From<Addr<RegistryActor>> for Keeper {
    fn from(actor: Addr<RegistryActor>) -> Self {
        Self(Supervisor::unsupervised("the registry", Reason::RegistryUnavailable, actor))
    }
}

impl RegistryActor {
    /// The registry as `store` has it. Everybody who was registered gets a full lease from this moment.
    pub fn open(
        config: Config,
        store: SharedStore,
        board: Arc<dyn Publish>,
        clocks: Clocks,
    ) -> Result<Self, Error> {
        let (rows, floor) = rows::load(&store)?;
        // A registry that has lost its data, or never had any, doesn't give a life twice: to those who remember it, the
        // board among them, that would be a repeat with other content, and its old process could end the new one.
        let floor = floor.unwrap_or_else(|| u64::try_from((clocks.wall)().0).unwrap_or(0));
        let directory = Directory::new(config.clone(), rows, floor, (clocks.node)());
        let outbox = Outbox::new(store.clone(), board, &config);
        let desk = Desk {
            directory: RefCell::new(directory),
            newcomers: RefCell::default(),
            changing: Mutex::new(()),
            waiting: Semaphore::new(config.max_waiting),
            sweeping: Cell::new(false),
            signals: outbox.more.clone(),
            news: broadcast::Sender::new(config.max_watch_lag.max(1)),
            config,
            clocks,
            store,
        };
        Ok(Self {
            desk: Rc::new(desk),
            outbox: Some(outbox),
            on_timer: true,
            unrecorded: LogThrottle::default(),
            life: RestartGuard::unsupervised(),
        })
    }

    /// The same, looking at leases only when it is told to.
    #[must_use]
    pub fn sweeping_on_request(mut self) -> Self {
        self.on_timer = false;
        self
    }

    /// Starts it on this thread.
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
        ctx.set_mailbox_capacity(self.desk.config.max_waiting);
        match self.outbox.take() {
            Some(outbox) => {
                ctx.spawn(outbox.run().into_actor(self));
            }
            None => ctx.stop(),
        }
        if self.on_timer {
            let every = Duration::from_millis(self.desk.config.sweep_ms.max(1));
            ctx.run_interval(every, |actor, ctx| {
                let desk = actor.desk.clone();
                let sweep = async move { desk.sweep().await };
                ctx.spawn(sweep.into_actor(actor).map(|outcome, actor, _| match outcome {
                    Ok(()) => {
                        if let Some(times) = actor.unrecorded.worked() {
                            tracing::warn!(times, "expiries are recorded again");
                        }
                    }
                    Err(problem) => {
                        if let Some(times) = actor.unrecorded.failed(Instant::now()) {
                            tracing::warn!(%problem, times, "an expiry could not be recorded, it is tried again");
                        }
                    }
                }));
            });
        }
    }
}

impl Handler<Register> for RegistryActor {
    type Result = ResponseFuture<Result<Registered, Problem>>;
    fn handle(&mut self, Register { by, application }: Register, _: &mut Self::Context) -> Self::Result {
        let desk = self.desk.clone();
        Box::pin(async move { desk.register(by, application).await })
    }
}

impl Handler<Beat> for RegistryActor {
    type Result = Result<(), Problem>;
    fn handle(&mut self, Beat { by, id, heartbeat }: Beat, _: &mut Self::Context) -> Self::Result {
        may_speak_for(&by, &id, true)?;
        self.desk.beat(&id, heartbeat)
    }
}

impl Handler<Suspect> for RegistryActor {
    type Result = Result<(), Problem>;
    fn handle(&mut self, Suspect { by, id, incarnation }: Suspect, _: &mut Self::Context) -> Self::Result {
        self.desk.suspect(&by, &id, incarnation)
    }
}

impl Handler<Deregister> for RegistryActor {
    type Result = ResponseFuture<Result<(), Problem>>;
    fn handle(&mut self, message: Deregister, _: &mut Self::Context) -> Self::Result {
        let Deregister { by, id, incarnation, is_drained } = message;
        let why = if is_drained { Departure::Drained } else { Departure::Deregistered };
        let desk = self.desk.clone();
        Box::pin(async move {
            may_speak_for(&by, &id, true)?;
            desk.deregister(id, incarnation, why).await
        })
    }
}

impl Handler<Find> for RegistryActor {
    type Result = MessageResult<Find>;
    fn handle(&mut self, Find(query): Find, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.desk.directory.borrow().find(&query, self.desk.now()))
    }
}

impl Handler<Look> for RegistryActor {
    type Result = Option<Entry>;
    fn handle(&mut self, Look(id): Look, _: &mut Self::Context) -> Self::Result {
        self.desk.directory.borrow().look(&id, self.desk.now())
    }
}

impl Handler<Follow> for RegistryActor {
    type Result = Result<Following, Problem>;
    fn handle(&mut self, _: Follow, _: &mut Self::Context) -> Self::Result {
        self.desk.follow()
    }
}

impl Handler<Sweep> for RegistryActor {
    type Result = ResponseFuture<Result<(), Problem>>;
    fn handle(&mut self, _: Sweep, _: &mut Self::Context) -> Self::Result {
        let desk = self.desk.clone();
        Box::pin(async move { desk.sweep().await })
    }
}

impl Handler<Observe> for RegistryActor {
    type Result = MessageResult<Observe>;
    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.desk.state())
    }
}
