//! The blackboard of one process: an actor that takes signals and claims, and a feed that everybody may follow.

use crate::{
    access, attendance, claims,
    claims::{Claim, Lease, Standing},
    feed::{self, Feed, Subscription},
    signals,
    store::{self, Revision, Shared},
    supervised::{Budget, Life, Supervised},
};
use actix::prelude::*;
use protocol::{
    ids::{AgentId, TaskId},
    log_throttle::LogThrottle,
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Selector, Signal, SignalRecord},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

pub mod config;
pub use config::{BoardConfig, Clock};

mod claiming;
mod messages;
mod publishing;
mod tidying;

use messages::{Change, Look, Publish, Show};

/// Some signals and where to read on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// Oldest first.
    pub signals: Vec<SignalRecord>,
    /// The cursor of the next page: everything up to it has been looked at.
    pub next: Revision,
}

/// What the board is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The highest revision that is durable.
    pub head: Revision,
    /// Which life of the store this is.
    pub generation: String,
    /// Readers that follow.
    pub subscribers: usize,
    /// Bytes of signals kept in memory for them.
    pub recent_bytes: usize,
    /// Claims that are held.
    pub held_claims: usize,
    /// How often the actor was started anew after a panic.
    pub restarts: u64,
    /// Requests that wait for the store.
    pub in_flight: usize,
    /// What has happened since the start.
    pub counts: Counts,
    /// The limits in force.
    pub limits: BoardConfig,
}

/// What has happened since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Signals written.
    pub published: u64,
    /// Signals that had been written before.
    pub repeated: u64,
    /// Signals refused.
    pub refused: u64,
    /// Claims won.
    pub claimed: u64,
    /// Claims lost to somebody else.
    pub lost: u64,
    /// Writes that named an epoch no longer in force.
    pub fenced: u64,
    /// Claims whose lease ran out.
    pub expired: u64,
}

/// The board of this process. Cheap to clone.
#[derive(Clone)]
pub struct Board {
    live: Arc<Supervised<Live>>,
    store: Shared,
    config: Arc<BoardConfig>,
}

/// The actor in one of its lives, and what its readers follow.
#[derive(Clone)]
struct Live {
    actor: Addr<BlackboardActor>,
    feed: Arc<Feed>,
}

impl Board {
    /// Opens the board over `store` (its keys begin with `board`) and starts its actor in the current arbiter.
    /// Every claim that is held starts its lease afresh. After a panic the same happens again, and readers are cut.
    pub fn start(store: Shared, config: BoardConfig, clock: Clock) -> Result<Self, Problem> {
        let config = Arc::new(config);
        let bounds = feed::Bounds {
            events: config.recent_events,
            bytes: config.recent_bytes,
            subscribers: config.max_subscribers,
        };
        let (its_store, its_config) = (store.clone(), config.clone());
        let mut former: Option<Weak<Feed>> = None;
        let away = Reason::BlackboardUnavailable;
        let live = Supervised::start("the blackboard", away, Budget::default(), move |life| {
            if let Some(feed) = former.take().and_then(|feed| feed.upgrade()) {
                feed.close();
            }
            let feed = Feed::start(its_store.clone(), bounds)?;
            former = Some(Arc::downgrade(&feed));
            let actor = BlackboardActor {
                store: its_store.clone(),
                config: its_config.clone(),
                leases: claiming::held(&its_store, clock.node(), its_config.grace())?,
                clock: clock.clone(),
                waiting: Vec::new(),
                in_flight: 0,
                counts: Counts::default(),
                feed: feed.clone(),
                unfreed: LogThrottle::default(),
                life,
            };
            Ok(Live { actor: actor.start(), feed })
        })?;
        Ok(Self { live, store, config })
    }

    /// The limits in force.
    pub fn config(&self) -> &Arc<BoardConfig> {
        &self.config
    }

    /// Puts `signal` on the board; its revision. The same signal again is answered with the first revision.
    pub async fn publish(&self, by: &Principal, signal: Signal) -> Result<Revision, Problem> {
        let gone = |gone: String| Problem::new(Reason::BlackboardUnavailable, format!("the board: {gone}"));
        let (done, stands) = tokio::sync::oneshot::channel();
        let publish = Publish { by: by.clone(), signal, done };
        self.live.get()?.actor.send(publish).await.map_err(|error| gone(error.to_string()))?;
        stands.await.map_err(|_| gone("it stopped before the signal was written".to_owned()))?
    }

    /// Up to `limit` signals after revision `after` (absent: from the oldest that is kept on), oldest first.
    pub async fn read(
        &self,
        selector: Selector,
        after: Option<Revision>,
        limit: usize,
    ) -> Result<Page, Problem> {
        signals::check(&selector)?;
        let (store, limit) = (self.store.clone(), limit.min(self.config.max_page));
        feed::blocking(move || tidying::history(&store, &selector, after, limit)).await
    }

    /// Follows the board after revision `after` (absent: from here on).
    pub(crate) fn subscribe(
        &self,
        selector: Selector,
        after: Option<Revision>,
    ) -> Result<Subscription, Problem> {
        Subscription::new(&self.live.get()?.feed, selector, after)
    }

    /// Ends every subscription, so that a server that drains need not wait for its readers. What is written goes on.
    pub fn close(&self) {
        if let Ok(live) = self.live.get() {
            live.feed.close();
        }
    }

    /// Takes an open task for `holder`.
    pub async fn claim(
        &self,
        by: &Principal,
        task: &TaskId,
        holder: &AgentId,
        lease: Duration,
    ) -> Result<Claim, Problem> {
        self.change(by, task, Change::Take { holder: holder.clone(), lease }).await
    }

    /// Starts the lease of the claim of `epoch` afresh.
    pub async fn renew(&self, by: &Principal, task: &TaskId, epoch: Revision) -> Result<Claim, Problem> {
        self.change(by, task, Change::Renew { epoch }).await
    }

    /// Gives the claim of `epoch` back.
    pub async fn release(&self, by: &Principal, task: &TaskId, epoch: Revision) -> Result<Claim, Problem> {
        self.change(by, task, Change::End { epoch, standing: Standing::Released }).await
    }

    /// Ends the claim of `epoch` for good.
    pub async fn complete(&self, by: &Principal, task: &TaskId, epoch: Revision) -> Result<Claim, Problem> {
        self.change(by, task, Change::End { epoch, standing: Standing::Completed }).await
    }

    /// Ends the claim of `epoch` for good: the task will not be done.
    pub async fn fail(&self, by: &Principal, task: &TaskId, epoch: Revision) -> Result<Claim, Problem> {
        self.change(by, task, Change::End { epoch, standing: Standing::Failed }).await
    }

    /// How the claim on `task` stands.
    pub async fn look(&self, task: &TaskId) -> Result<Claim, Problem> {
        self.ask(Look(task.clone())).await
    }

    /// What the board is doing.
    pub async fn snapshot(&self) -> Result<Snapshot, Problem> {
        let restarts = self.live.restarts();
        self.ask(Show).await.map(|snapshot| Snapshot { restarts, ..snapshot })
    }

    async fn change(&self, by: &Principal, task: &TaskId, change: Change) -> Result<Claim, Problem> {
        self.ask(messages::ChangeClaim { by: by.clone(), task: task.clone(), change }).await
    }

    async fn ask<M, T>(&self, message: M) -> Result<T, Problem>
    where
        M: Message<Result = Result<T, Problem>> + Send + 'static,
        T: Send + 'static,
        BlackboardActor: Handler<M>,
    {
        match self.live.get()?.actor.send(message).await {
            Ok(answer) => answer,
            Err(gone) => Err(Problem::new(Reason::BlackboardUnavailable, format!("the board: {gone}"))),
        }
    }
}

/// Takes signals and claims, one at a time in the store's order.
pub struct BlackboardActor {
    store: Shared,
    config: Arc<BoardConfig>,
    clock: Clock,
    leases: BTreeMap<TaskId, Holding>,
    /// Signals that are about to be written.
    waiting: Vec<publishing::Waiting>,
    in_flight: usize,
    counts: Counts,
    feed: Arc<Feed>,
    /// Whether claims that ran out can be freed.
    unfreed: LogThrottle,
    life: Life,
}

/// A held claim's lease, and for whom it runs.
#[derive(Debug, Clone)]
pub(crate) struct Holding {
    lease: Lease,
    /// Its end is being written; it can't be renewed any more.
    is_ending: bool,
}

impl Actor for BlackboardActor {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        self.life.over();
    }

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.config.sweep(), |actor, ctx| {
            // An interval alone would keep the actor, and with it the store, for ever.
            if ctx.connected() { actor.expire(ctx) } else { ctx.stop() }
        });
        ctx.run_interval(self.config.tidy(), |actor, ctx| {
            let (store, wall) = (actor.store.clone(), actor.clock.wall());
            let (keep, bytes) = (actor.config.keep(), actor.config.keep_bytes);
            let tidied = async move {
                tidying::tidy(store.clone(), wall, keep).await?;
                tidying::shrink(store, bytes).await
            };
            let tidied = tidied.into_actor(actor);
            ctx.spawn(tidied.map(|outcome, _, _| {
                if let Err(problem) = outcome {
                    tracing::warn!(%problem, "the board could not be tidied");
                }
            }));
        });
    }
}

impl BlackboardActor {
    fn lease(&self, task: &TaskId) -> Option<Lease> {
        self.leases.get(task).map(|holding| holding.lease)
    }

    /// One more request that waits for the store, if there is room for it.
    fn admit(&mut self) -> Result<(), Problem> {
        if self.in_flight >= self.config.max_in_flight {
            let message = format!("{} requests wait for the board's store", self.in_flight);
            return Err(Problem::new(Reason::Overloaded, message).with("limit", self.config.max_in_flight));
        }
        self.in_flight += 1;
        Ok(())
    }

    fn count_refusal(&mut self, problem: &Problem) {
        if problem.reason == Reason::AlreadyClaimed {
            self.counts.lost += 1;
        } else if problem.reason == Reason::Fenced {
            self.counts.fenced += 1;
        }
    }
}

#[cfg(test)]
mod tests;
