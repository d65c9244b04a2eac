//! Decides, makes durable, shows: the three steps of every change, one change at a time.

use super::{
    messages::{Following, State},
    rows,
};
use crate::{
    application::{Application, may_speak_for},
    config::Config,
    directory::{Admitted, Change, Departure, Directory},
    entry::{Entry, Heartbeat, Query, Registered},
};
use blackboard::store::{Error, Lane, SharedStore};
use protocol::{
    card::Card,
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    time::{NodeTime, WallTime},
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};
use tokio::sync::{
    Mutex, MutexGuard, Notify, Semaphore, broadcast,
    oneshot::{self, error::TryRecvError},
};

/// The two clocks, as functions, so that tests can drive them.
#[derive(Clone)]
pub struct Clocks {
    /// Leases run on this one.
    pub node: Arc<dyn Fn() -> NodeTime + Send + Sync>,
    /// Signals are dated with this one.
    pub wall: Arc<dyn Fn() -> WallTime + Send + Sync>,
}

/// Most registrations in one commit.
const AT_ONCE: usize = 256;

/// Who waits to be registered.
pub(super) struct Newcomer {
    card: Arc<Card>,
    instance: String,
    answer: oneshot::Sender<Result<Registered, Problem>>,
}

impl Newcomer {
    fn answer(self, outcome: Result<Registered, Problem>) {
        // Who has gone in the meantime is registered all the same, and asks again.
        let _ = self.answer.send(outcome);
    }
}

/// What the handlers share. Changes are decided and made durable one at a time; reads and heartbeats don't wait.
pub(super) struct Desk {
    pub(super) config: Config,
    pub(super) clocks: Clocks,
    pub(super) store: SharedStore,
    pub(super) directory: RefCell<Directory>,
    pub(super) newcomers: RefCell<VecDeque<Newcomer>>,
    pub(super) changing: Mutex<()>,
    pub(super) waiting: Semaphore,
    pub(super) sweeping: Cell<bool>,
    pub(super) signals: Rc<Notify>,
    pub(super) news: broadcast::Sender<Arc<Entry>>,
}

impl Desk {
    pub(super) fn now(&self) -> NodeTime {
        (self.clocks.node)()
    }

    pub(super) async fn register(
        &self,
        by: Principal,
        application: Application,
    ) -> Result<Registered, Problem> {
        application.check()?;
        let Application { card, instance } = application;
        let id = card.agent_id.clone();
        let taken = self.directory.borrow().look(&id, self.now()).is_some();
        may_speak_for(&by, &id, taken)?;
        let turn = self.turn()?;
        let (answer, mut told) = oneshot::channel();
        self.newcomers.borrow_mut().push_back(Newcomer { card, instance, answer });
        let turn = turn.await;
        let mut answered = told.try_recv();
        if answered == Err(TryRecvError::Empty) {
            self.admit_all(&turn).await;
            answered = told.try_recv();
        }
        answered.unwrap_or_else(|_| {
            Err(Problem::new(Reason::Internal, "the registration came to nothing; it may be tried again"))
        })
    }

    /// Decides on all who wait by now and makes it durable at once, so that a thousand who come together cost a few
    /// commits. Who hangs on a decision that is not in force yet waits for the next time.
    async fn admit_all(&self, turn: &MutexGuard<'_, ()>) {
        let (mut admitted, mut known) = (Vec::new(), Vec::new());
        let mut all = Change::default();
        {
            let (mut newcomers, directory) = (self.newcomers.borrow_mut(), self.directory.borrow());
            let mut ids = BTreeSet::new();
            while let Some(next) = newcomers.pop_front() {
                let is_one_too_many = ids.len() >= AT_ONCE || ids.len() >= directory.room().max(1);
                if is_one_too_many || !ids.insert(next.card.agent_id.clone()) {
                    newcomers.push_front(next);
                    break;
                }
                match directory.register(next.card.clone(), &next.instance) {
                    Err(refused) => next.answer(Err(refused.into())),
                    Ok(Admitted { incarnation, change: None }) => known.push((next, incarnation)),
                    Ok(Admitted { incarnation, change: Some(change) }) => {
                        all.floor = all.floor.max(change.floor);
                        all.written.extend(change.written);
                        all.forgotten.extend(change.forgotten);
                        all.notices.extend(change.notices);
                        admitted.push((next, incarnation));
                    }
                }
            }
        }
        let Config { lease_ms, heartbeat_ms, .. } = self.config;
        let registered = |incarnation| Registered { incarnation, lease_ms, heartbeat_ms };
        for (newcomer, incarnation) in known {
            let beaten = self.beat_again(&newcomer.card.agent_id, incarnation);
            newcomer.answer(beaten.map(|()| registered(incarnation)));
        }
        if admitted.is_empty() {
            return;
        }
        let settled = self.settle(turn, Lane::Admission, all).await;
        for (newcomer, incarnation) in admitted {
            newcomer.answer(settled.clone().map(|()| registered(incarnation)));
        }
    }

    /// A repeated registration shows that the agent lives, and says nothing of its load.
    fn beat_again(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        let now = self.now();
        let Some(entry) = self.directory.borrow().look(id, now) else { return Ok(()) };
        let Entry { running, accepting, .. } = entry;
        self.beat(id, Heartbeat { incarnation, running, accepting })
    }

    /// One agent could not reach another.
    pub(super) fn suspect(&self, by: &Principal, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        let Principal::Agent(reporter) = by else {
            return Err(Problem::new(
                Reason::Forbidden,
                "agents report whom they cannot reach; a user may only read",
            ));
        };
        Ok(self.directory.borrow_mut().suspect(reporter, id, incarnation, self.now())?)
    }

    pub(super) fn beat(&self, id: &AgentId, heartbeat: Heartbeat) -> Result<(), Problem> {
        let changed = self.directory.borrow_mut().heartbeat(id, heartbeat, self.now())?;
        if changed {
            self.tell([id]);
        }
        Ok(())
    }

    pub(super) async fn deregister(
        &self,
        id: AgentId,
        incarnation: u64,
        why: Departure,
    ) -> Result<(), Problem> {
        let turn = self.turn()?.await;
        let decided = self.directory.borrow().deregister(&id, incarnation, why, self.now());
        match decided? {
            Some(change) => self.settle(&turn, Lane::Progress, change).await,
            None => Ok(()),
        }
    }

    pub(super) async fn sweep(&self) -> Result<(), Problem> {
        if self.sweeping.replace(true) {
            return Ok(());
        }
        let turn = self.changing.lock().await;
        self.sweeping.set(false);
        let swept = self.directory.borrow_mut().sweep(self.now());
        self.tell(&swept.suspected);
        match swept.change {
            Some(change) => self.settle(&turn, Lane::Progress, change).await,
            None => Ok(()),
        }
    }

    /// The right to decide, in order of arrival; refused when too many wait for it.
    fn turn(&self) -> Result<impl Future<Output = MutexGuard<'_, ()>>, Problem> {
        let place = self.waiting.try_acquire().map_err(|_| {
            let message = format!("{} changes wait for the registry's store", self.config.max_waiting);
            Problem::new(Reason::Overloaded, message)
        })?;
        Ok(async move {
            let turn = self.changing.lock().await;
            drop(place);
            turn
        })
    }

    /// Makes a decision durable, puts it in force, and tells of it. Discarded if it cannot be made durable.
    async fn settle(
        &self,
        _turn: &MutexGuard<'_, ()>,
        lane: Lane,
        mut change: Change,
    ) -> Result<(), Problem> {
        self.directory.borrow_mut().damp(&mut change, self.now());
        rows::commit(&self.store, lane, &change, (self.clocks.wall)()).await.map_err(problem)?;
        let signalled = !change.notices.is_empty();
        let changed = self.directory.borrow_mut().apply(change, self.now());
        self.tell(&changed);
        if signalled {
            self.signals.notify_one();
        }
        Ok(())
    }

    fn tell<'a>(&self, ids: impl IntoIterator<Item = &'a AgentId>) {
        if self.news.receiver_count() == 0 {
            return;
        }
        let (directory, now) = (self.directory.borrow(), self.now());
        for entry in ids.into_iter().filter_map(|id| directory.look(id, now)) {
            // Nobody watching any more is no error.
            let _ = self.news.send(Arc::new(entry));
        }
    }

    pub(super) fn follow(&self) -> Result<Following, Problem> {
        let most = self.config.max_watchers;
        if self.news.receiver_count() >= most {
            return Err(Problem::new(Reason::Overloaded, format!("the registry takes {most} watchers")));
        }
        let everybody = Query { include_dead: true, ..Query::default() };
        Ok((self.directory.borrow().find(&everybody, self.now()), self.news.subscribe()))
    }

    pub(super) fn state(&self) -> State {
        State {
            config: self.config.clone(),
            agents: self.directory.borrow().figures(),
            watchers: self.news.receiver_count(),
            signals_waiting: rows::count_waiting(&self.store),
        }
    }
}

/// What a caller is told of a store that did not do as it was asked.
fn problem(error: Error) -> Problem {
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
