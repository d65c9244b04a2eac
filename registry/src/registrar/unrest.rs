//! Crowds, agents that come and go all the time, peers that miss each other, and a registry that panics.

use super::tests::Rig;
use super::*;
use crate::{
    client::Registry,
    directory::samples::card,
    entry::{Heartbeat, Presence, Query},
};
use blackboard::store::{Batch, Filter, Key, Lane, Record, Revision, Store, StoreFuture, StoreWatch};
use futures_util::future::join_all;
use protocol::ids::AgentId;
use std::sync::atomic::{AtomicUsize, Ordering};

fn agent(id: &str) -> AgentId {
    AgentId::parse(id).unwrap()
}

/// Counts commits, and panics at the next one when it is told to.
struct Counting {
    store: SharedStore,
    commits: Arc<AtomicUsize>,
    panics: Arc<AtomicUsize>,
}

impl blackboard::store::Snapshot for Counting {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.store.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.store.read(filter, after, limit)
    }

    fn head(&self) -> Revision {
        self.store.head()
    }
}

impl Store for Counting {
    fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
        let left = self.panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        assert!(left.is_err(), "on purpose");
        self.commits.fetch_add(1, Ordering::SeqCst);
        let committed = self.store.commit(lane, batch);
        Box::pin(async move {
            tokio::task::yield_now().await;
            committed.await
        })
    }

    fn generation(&self) -> String {
        self.store.generation()
    }

    fn watch(&self, filter: Filter, after: Revision) -> Result<StoreWatch, Error> {
        self.store.watch(filter, after)
    }

    fn trim(&self, filter: Filter, before: Revision) -> StoreFuture<u64> {
        self.store.trim(filter, before)
    }
}

fn counting() -> (SharedStore, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (commits, panics) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let store = blackboard::store::memory::new();
    (Arc::new(Counting { store, commits: commits.clone(), panics: panics.clone() }), commits, panics)
}

#[actix_web::test]
async fn a_thousand_who_register_at_once_cost_a_few_commits() {
    let (store, commits, _) = counting();
    let rig = Rig::over(store, Config { retry_ms: 60_000, retry_cap_ms: 60_000, ..Config::default() }, 0);
    rig.board.be_away();
    let before = commits.load(Ordering::SeqCst);
    let joins = (0..1_000).map(|at| {
        // Every tenth twice: a repeat is answered with the same life.
        let id = format!("a-{}", if at % 10 == 9 { at - 1 } else { at });
        let registry = rig.registry.clone();
        async move { (id.clone(), registry.register(card(&id, &["x"]), "1".into()).await) }
    });
    let mut lives = std::collections::BTreeMap::new();
    for (id, registered) in join_all(joins).await {
        let incarnation = registered.unwrap().incarnation;
        assert_eq!(*lives.entry(id).or_insert(incarnation), incarnation);
    }
    let commits = commits.load(Ordering::SeqCst) - before;
    assert!(commits <= 150, "{commits} commits");
    assert_eq!(rig.registry.find(&Query::default()).await.unwrap().len(), 900);
}

#[actix_web::test]
async fn a_full_registry_takes_as_many_of_a_crowd_as_fit() {
    let (store, ..) = counting();
    let rig = Rig::over(store, Config { max_agents: 10, ..Config::default() }, 0);
    let joins = (0..30).map(|at| {
        let registry = rig.registry.clone();
        async move { registry.register(card(&format!("a-{at}"), &[]), "1".into()).await }
    });
    let joined = join_all(joins).await;
    assert_eq!(joined.iter().filter(|outcome| outcome.is_ok()).count(), 10);
    assert!(
        joined.iter().filter_map(|outcome| outcome.as_ref().err()).all(|p| p.reason == Reason::Overloaded)
    );
}

#[actix_web::test]
async fn who_comes_and_goes_all_the_time_is_told_of_a_few_times_and_then_as_it_settles() {
    let config = Config { flap_limit: 4, retry_ms: 1, retry_cap_ms: 1, ..Config::default() };
    let rig = Rig::over(blackboard::store::memory::new(), config, 0);
    let steady = rig.join("steady", "1").await.unwrap();
    let mut last = 0;
    for round in 0..20 {
        last = rig.join("restless", &format!("i-{round}")).await.unwrap();
        if round < 19 {
            rig.registry.deregister(&agent("restless"), last).await.unwrap();
        }
        rig.beat("steady", steady).await.unwrap();
        rig.pass(1).await;
    }
    let of_it = |ids: Vec<String>| ids.into_iter().filter(|id| id.contains(":restless:")).collect::<Vec<_>>();
    assert_eq!(of_it(rig.told(5).await).len(), 4, "two comings and two goings");
    let live = rig.live().await;
    assert!(live.contains(&"restless Alive".to_owned()), "who asks sees it as it is: {live:?}");
    for _ in 0..35 {
        rig.beat("restless", last).await.unwrap();
        rig.beat("steady", steady).await.unwrap();
        rig.pass(1).await;
    }
    let told = of_it(rig.told(6).await);
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(told[4], format!("agent.joined:restless:{last}"), "how it is in the end is told once");
}

#[actix_web::test]
async fn two_who_miss_an_agent_shorten_the_wait_for_it_and_one_does_not() {
    let rig = Rig::new();
    let mut lives = std::collections::BTreeMap::new();
    for id in ["a", "b", "c", "missed"] {
        lives.insert(id, rig.join(id, "1").await.unwrap());
    }
    rig.pass(18).await; // The grace after the start is over.
    for (id, life) in &mut lives {
        *life = rig.join(id, "2").await.unwrap();
    }
    let others = async || {
        for id in ["a", "b", "c"] {
            rig.beat(id, lives[id]).await.unwrap();
        }
    };
    let state = async || rig.registry.look(&agent("missed")).await.unwrap().unwrap().state;
    let missed = async |by: &str| rig.registry.suspect(&agent(by), &agent("missed"), lives["missed"]).await;
    for _ in 0..3 {
        missed("a").await.unwrap();
    }
    others().await;
    rig.pass(8).await;
    assert_ne!(state().await, Presence::Dead, "one reporter never kills");

    rig.beat("missed", lives["missed"]).await.unwrap();
    missed("a").await.unwrap();
    missed("b").await.unwrap();
    rig.pass(1).await;
    rig.beat("missed", lives["missed"]).await.unwrap();
    others().await;
    rig.pass(8).await;
    assert_ne!(state().await, Presence::Dead, "a word of its own refutes all");

    rig.beat("missed", lives["missed"]).await.unwrap();
    others().await;
    missed("a").await.unwrap();
    missed("b").await.unwrap();
    rig.pass(5).await;
    assert_ne!(state().await, Presence::Dead, "a heartbeat on its way is waited for");
    rig.pass(2).await;
    assert_eq!(state().await, Presence::Dead, "long before its lease is over");

    let stranger = rig.registry.suspect(&agent("stranger"), &agent("a"), lives["a"]).await.unwrap_err();
    assert_eq!(stranger.reason, Reason::AgentNotFound, "{stranger:?}");
    let stale = rig.registry.suspect(&agent("b"), &agent("a"), lives["a"] - 1).await.unwrap_err();
    assert_eq!(stale.reason, Reason::StaleIncarnation, "{stale:?}");
}

#[actix_web::test]
async fn a_registry_that_panics_is_started_anew_and_everybody_is_still_there() {
    let (store, _, panics) = counting();
    let now = std::time::Instant::now();
    let clocks = Clocks {
        node: Arc::new(move || protocol::time::NodeTime(u64::try_from(now.elapsed().as_millis()).unwrap())),
        wall: Arc::new(|| protocol::time::WallTime(0)),
    };
    let config =
        Config { lease_ms: 100, heartbeat_ms: 20, sweep_ms: 5, max_expiry_percent: 100, ..Config::default() };
    let board = Arc::new(Arc::new(super::tests::Board::default()));
    let keeper = Keeper::start(config, store, board, clocks).unwrap();
    let registry = Registry::local(keeper.clone());
    registry.register(card("a", &[]), "1".into()).await.unwrap();
    // Nobody beats: the sweep that gives it up is what panics.
    panics.store(1, Ordering::SeqCst);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while keeper.restarts() == 0 {
        assert!(tokio::time::Instant::now() < deadline, "it did not come back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let beat = Heartbeat { incarnation: 1, running: 0, accepting: true };
    registry.heartbeat(&agent("a"), beat).await.unwrap();
    assert_eq!(registry.find(&Query::default()).await.unwrap().len(), 1, "with a whole lease");
}
