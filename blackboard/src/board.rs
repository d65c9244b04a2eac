//! The blackboard of one process: an actor that takes signals and claims, and a feed for subscribers.

use crate::{
    access, claims,
    claims::{ClaimState, ClaimView, Lease},
    feed::{self, Feed, FeedSubscription},
    registered_agents, signals,
};
use actix::prelude::*;
use protocol::{
    ids::AgentId,
    log_throttle::LogThrottle,
    principal::Principal,
    problem::{Problem, Reason},
    signal::{Cursor, Selector, Signal, SignalRecord},
    task::OpenTaskKey,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};
use store::{self, Revision, SharedStore};
use supervisor::{RestartBudget, RestartGuard, Supervisor};

pub mod config;
pub use config::{BoardClock, BoardConfig};

mod claim_commits;
mod history;
mod messages;
mod publish;
mod spaces;
pub use spaces::{
    BriefView, CurationOutcome, EndedRun, EntryEvent, EntryFollower, ImportOutcome, ImportedEntry,
    RefusedEntry, SpaceStore, WithdrawalOfAll, WithdrawalOutcome,
};

use messages::{ClaimChange, GetBoardSnapshot, GetClaim, PublishSignals};

/// A page of signals and the cursor of the next one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalPage {
    pub signals: Vec<SignalRecord>,
    /// The cursor of the next page: everything up to it has been read.
    pub next: Cursor,
}

/// The board's state and counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoardSnapshot {
    /// The highest revision that is durable.
    pub head: Revision,
    /// The generation of the store.
    pub generation: String,
    pub subscribers: usize,
    /// Bytes of signals kept in memory for subscribers.
    pub recent_bytes: usize,
    /// Claims that are held.
    pub held_claims: usize,
    /// Restarts of the actor after a panic.
    pub restarts: u64,
    /// Requests that wait for the store.
    pub in_flight: usize,
    /// Counters since the start.
    pub counts: BoardCounts,
    /// The limits in force.
    pub limits: BoardConfig,
}

/// Counters of the board since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoardCounts {
    pub published: u64,
    /// Publications of a signal that was already written.
    pub repeated: u64,
    pub refused: u64,
    pub claimed: u64,
    /// Claims refused because the task was already claimed.
    pub lost: u64,
    /// Writes refused because their epoch was not in force.
    pub fenced: u64,
    /// Claims whose lease ran out.
    pub expired: u64,
}

/// Where a board keeps what it has.
#[derive(Clone)]
pub struct BoardStores {
    pub signals: SharedStore,
    /// Spaces and entries. A store of their own keeps revisions of signals from telling how many entries are written that a
    /// reader may not see.
    pub spaces: SharedStore,
}

impl From<SharedStore> for BoardStores {
    /// One store for all.
    fn from(store: SharedStore) -> Self {
        Self { signals: store.clone(), spaces: store }
    }
}

/// The board of this process. Cheap to clone.
#[derive(Clone)]
pub struct Board {
    instance: Arc<Supervisor<BoardInstance>>,
    store: SharedStore,
    config: Arc<BoardConfig>,
    spaces: SpaceStore,
}

/// One run of the actor, with the feed of its subscribers.
#[derive(Clone)]
struct BoardInstance {
    actor: Addr<BlackboardActor>,
    feed: Arc<Feed>,
}

impl Board {
    /// Opens the board over `stores` (its keys begin with `board`) and starts its actor in the current arbiter.
    /// The lease of every held claim starts anew. A panic restarts the actor the same way and ends all subscriptions.
    pub fn start(
        stores: impl Into<BoardStores>,
        config: BoardConfig,
        clock: BoardClock,
    ) -> Result<Self, Problem> {
        let BoardStores { signals: store, spaces: entries } = stores.into();
        let config = Arc::new(config);
        let bounds = feed::FeedLimits {
            events: config.recent_events,
            bytes: config.recent_bytes,
            subscribers: config.max_subscribers,
        };
        let (actor_store, actor_config) = (store.clone(), config.clone());
        let spaces = SpaceStore::new(entries, config.clone(), clock.clone());
        let actor_spaces = spaces.clone();
        let mut previous: Option<Weak<Feed>> = None;
        let unavailable = Reason::BlackboardUnavailable;
        let instance = Supervisor::start(
            "the blackboard",
            unavailable,
            RestartBudget::default(),
            move |restart_guard| {
                if let Some(feed) = previous.take().and_then(|feed| feed.upgrade()) {
                    feed.close();
                }
                let feed = Feed::start(actor_store.clone(), bounds)?;
                previous = Some(Arc::downgrade(&feed));
                let actor = BlackboardActor {
                    store: actor_store.clone(),
                    spaces: actor_spaces.clone(),
                    config: actor_config.clone(),
                    leases: claim_commits::load_leases(&actor_store, clock.node(), actor_config.grace())?,
                    claiming: BTreeMap::new(),
                    clock: clock.clone(),
                    pending: Vec::new(),
                    in_flight: 0,
                    counts: BoardCounts::default(),
                    feed: feed.clone(),
                    expiry_failures: LogThrottle::default(),
                    restart_guard,
                };
                Ok(BoardInstance { actor: actor.start(), feed })
            },
        )?;
        Ok(Self { instance, store, config, spaces })
    }

    /// Its spaces and their entries.
    pub fn spaces(&self) -> &SpaceStore {
        &self.spaces
    }

    pub(crate) fn store(&self) -> &SharedStore {
        &self.store
    }

    /// The limits in force.
    pub fn config(&self) -> &Arc<BoardConfig> {
        &self.config
    }

    /// Publishes `signal` and returns its revision. A repeat returns the first revision.
    pub async fn publish(&self, by: &Principal, signal: Signal) -> Result<Revision, Problem> {
        let unanswered = || Err(Problem::new(Reason::BlackboardUnavailable, "the board did not answer"));
        self.publish_all(by, vec![signal]).await?.pop().unwrap_or_else(unanswered)
    }

    /// Publishes `signals` in order, if possible in one commit. Returns the revisions; the last is the problem of a signal that
    /// was refused, and those behind it are not published.
    pub async fn publish_all(
        &self,
        by: &Principal,
        signals: Vec<Signal>,
    ) -> Result<Vec<Result<Revision, Problem>>, Problem> {
        let unavailable =
            |why: String| Problem::new(Reason::BlackboardUnavailable, format!("the board: {why}"));
        let (done, outcomes) = tokio::sync::oneshot::channel();
        let publish = PublishSignals { by: by.clone(), signals, done };
        self.instance.get()?.actor.send(publish).await.map_err(|error| unavailable(error.to_string()))?;
        outcomes.await.map_err(|_| unavailable("it stopped before the signals were written".to_owned()))
    }

    /// Up to `limit` signals after `after` that `by` may see, oldest first. Without `after`, from the oldest signal that is
    /// kept.
    pub async fn read(
        &self,
        by: &Principal,
        selector: Selector,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<SignalPage, Problem> {
        signals::check_selector(&selector)?;
        let (store, by, limit) = (self.store.clone(), by.clone(), limit.min(self.config.max_page));
        feed::run_blocking(move || history::read_page(&store, &by, &selector, (after, None), limit)).await
    }

    /// Up to `limit` signals after the first of these revisions and up to the second that are kept and that `by` may see, oldest first.
    pub async fn read_range(
        &self,
        by: &Principal,
        selector: Selector,
        (after, until): (Option<Cursor>, Revision),
        limit: usize,
    ) -> Result<SignalPage, Problem> {
        signals::check_selector(&selector)?;
        let (store, by, limit) = (self.store.clone(), by.clone(), limit.min(self.config.max_page));
        let range = (after, Some(until));
        feed::run_blocking(move || history::read_page(&store, &by, &selector, range, limit)).await
    }

    /// Subscribes `by` to the signals that it may see after `after`, or after the head if it is absent.
    pub(crate) fn subscribe(
        &self,
        by: &Principal,
        selector: Selector,
        after: Option<Cursor>,
    ) -> Result<FeedSubscription, Problem> {
        FeedSubscription::new(&self.instance.get()?.feed, by.clone(), selector, after)
    }

    /// Ends every subscription, so that a draining server does not wait for its readers. Writes are still taken.
    pub fn close(&self) {
        if let Ok(instance) = self.instance.get() {
            instance.feed.close();
        }
    }

    /// Claims an open task for `holder`.
    pub async fn claim(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        holder: &AgentId,
        lease: Duration,
    ) -> Result<ClaimView, Problem> {
        self.change(by, task, ClaimChange::Take { holder: holder.clone(), lease }).await
    }

    /// Restarts the lease of the claim of `epoch`.
    pub async fn renew(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        epoch: Revision,
    ) -> Result<ClaimView, Problem> {
        self.change(by, task, ClaimChange::Renew { epoch }).await
    }

    /// Releases the claim of `epoch`.
    pub async fn release(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        epoch: Revision,
    ) -> Result<ClaimView, Problem> {
        self.change(by, task, ClaimChange::End { epoch, state: ClaimState::Released }).await
    }

    /// Ends the claim of `epoch` as completed.
    pub async fn complete(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        epoch: Revision,
    ) -> Result<ClaimView, Problem> {
        self.change(by, task, ClaimChange::End { epoch, state: ClaimState::Completed }).await
    }

    /// Ends the claim of `epoch` as failed.
    pub async fn fail(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        epoch: Revision,
    ) -> Result<ClaimView, Problem> {
        self.change(by, task, ClaimChange::End { epoch, state: ClaimState::Failed }).await
    }

    /// The claim on `task`, if `by` may see it.
    pub async fn claim_of(&self, by: &Principal, task: &OpenTaskKey) -> Result<ClaimView, Problem> {
        self.ask(GetClaim(by.clone(), task.clone())).await
    }

    /// The board's state and counters.
    pub async fn snapshot(&self) -> Result<BoardSnapshot, Problem> {
        let restarts = self.instance.restarts();
        self.ask(GetBoardSnapshot).await.map(|snapshot| BoardSnapshot { restarts, ..snapshot })
    }

    async fn change(
        &self,
        by: &Principal,
        task: &OpenTaskKey,
        change: ClaimChange,
    ) -> Result<ClaimView, Problem> {
        self.ask(messages::ChangeClaim { by: by.clone(), task: task.clone(), change }).await
    }

    async fn ask<M, T>(&self, message: M) -> Result<T, Problem>
    where
        M: Message<Result = Result<T, Problem>> + Send + 'static,
        T: Send + 'static,
        BlackboardActor: Handler<M>,
    {
        match self.instance.get()?.actor.send(message).await {
            Ok(answer) => answer,
            Err(error) => Err(Problem::new(Reason::BlackboardUnavailable, format!("the board: {error}"))),
        }
    }
}

/// The actor that writes signals and claims, in the order in which they arrive.
pub struct BlackboardActor {
    store: SharedStore,
    spaces: SpaceStore,
    config: Arc<BoardConfig>,
    clock: BoardClock,
    leases: BTreeMap<OpenTaskKey, ActiveLease>,
    /// Claims of each principal that are being written.
    claiming: BTreeMap<Principal, usize>,
    /// Signals that wait for the next commit.
    pending: Vec<publish::PendingSignals>,
    in_flight: usize,
    counts: BoardCounts,
    feed: Arc<Feed>,
    /// Limits the log lines about expired claims that could not be freed.
    expiry_failures: LogThrottle,
    restart_guard: RestartGuard,
}

/// The lease of a held claim.
#[derive(Debug, Clone)]
pub(crate) struct ActiveLease {
    /// The principal that claimed it.
    by: Principal,
    lease: Lease,
    /// Whether its end is being written; it cannot be renewed then.
    is_ending: bool,
}

impl Actor for BlackboardActor {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        self.restart_guard.mark_stopped();
    }

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(self.config.sweep(), |actor, ctx| {
            // The interval alone would keep the actor and the store alive.
            if ctx.connected() { actor.expire(ctx) } else { ctx.stop() }
        });
        ctx.run_interval(self.config.tidy(), |actor, ctx| {
            let (store, wall) = (actor.store.clone(), actor.clock.wall());
            let spaces = actor.spaces.clone();
            let (keep, bytes) = (actor.config.keep(), actor.config.keep_bytes);
            let cleanup = async move {
                history::remove_expired(store.clone(), wall, keep).await?;
                history::trim_to_size(store.clone(), bytes).await?;
                spaces.remove_old().await
            };
            let cleanup = cleanup.into_actor(actor);
            ctx.spawn(cleanup.map(|outcome, _, _| {
                if let Err(problem) = outcome {
                    tracing::warn!(%problem, "the board could not be tidied");
                }
            }));
        });
    }
}

impl BlackboardActor {
    fn lease(&self, task: &OpenTaskKey) -> Option<Lease> {
        self.leases.get(task).map(|holding| holding.lease)
    }

    /// Counts one more request that waits for the store; refuses it at the limit.
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
