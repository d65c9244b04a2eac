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
use blackboard::store::{Error, Lane, Shared};
use protocol::{
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    time::{NodeTime, WallTime},
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};
use tokio::sync::{Mutex, MutexGuard, Notify, Semaphore, broadcast};

/// The two clocks, as functions, so that tests can drive them.
#[derive(Clone)]
pub struct Clocks {
    /// Leases run on this one.
    pub node: Arc<dyn Fn() -> NodeTime + Send + Sync>,
    /// Signals are dated with this one.
    pub wall: Arc<dyn Fn() -> WallTime + Send + Sync>,
}

/// What the handlers share. Changes are decided and made durable one at a time; reads and heartbeats don't wait.
pub(super) struct Desk {
    pub(super) config: Config,
    pub(super) clocks: Clocks,
    pub(super) store: Shared,
    pub(super) directory: RefCell<Directory>,
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
        let turn = self.turn()?.await;
        let decided = self.directory.borrow().register(card, &instance);
        let Admitted { incarnation, change } = decided?;
        match change {
            Some(change) => self.settle(&turn, Lane::Admission, change).await?,
            None => self.beat_again(&id, incarnation)?,
        }
        let Config { lease_ms, heartbeat_ms, .. } = self.config;
        Ok(Registered { incarnation, lease_ms, heartbeat_ms })
    }

    /// A repeated registration shows that the agent lives, and says nothing of its load.
    fn beat_again(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        let now = self.now();
        let Some(entry) = self.directory.borrow().look(id, now) else { return Ok(()) };
        let Entry { running, accepting, .. } = entry;
        self.beat(id, Heartbeat { incarnation, running, accepting })
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
    async fn settle(&self, _turn: &MutexGuard<'_, ()>, lane: Lane, change: Change) -> Result<(), Problem> {
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
