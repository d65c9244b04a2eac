//! Many registrations at once, flapping agents, suspicion reports, and a registry that panics.

use super::tests::Rig;
use super::*;
use crate::{
    client::Registry,
    directory::test_cards::card,
    entry::{AgentQuery, Heartbeat, Presence},
};
use futures_util::future::join_all;
use protocol::ids::AgentId;
use std::sync::atomic::{AtomicUsize, Ordering};
use store::{
    Batch, Filter, Key, Lane, ListQuery, ListedKey, Record, Revision, Store, StoreFuture, StoreWatch,
};

fn agent(id: &str) -> AgentId {
    AgentId::parse(id).unwrap()
}

/// A store that counts commits and panics on as many of the next ones as `panics` says.
struct CountingStore {
    store: SharedStore,
    commits: Arc<AtomicUsize>,
    panics: Arc<AtomicUsize>,
}

impl store::Snapshot for CountingStore {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.store.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.store.read(filter, after, limit)
    }

    fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
        self.store.list(query, limit)
    }

    fn count(&self, query: &ListQuery) -> Result<u64, Error> {
        self.store.count(query)
    }

    fn head(&self) -> Revision {
        self.store.head()
    }
}

impl Store for CountingStore {
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

    fn blobs(&self) -> store::SharedBlobs {
        self.store.blobs()
    }
}

fn counting_store() -> (SharedStore, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (commits, panics) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let store = store::memory::new();
    (Arc::new(CountingStore { store, commits: commits.clone(), panics: panics.clone() }), commits, panics)
}

#[actix_web::test]
async fn a_thousand_concurrent_registrations_take_few_commits() {
    let (store, commits, _) = counting_store();
    let rig = Rig::over(store, Config { retry_ms: 60_000, retry_cap_ms: 60_000, ..Config::default() }, 0);
    rig.board.be_away();
    let before = commits.load(Ordering::SeqCst);
    let joins = (0..1_000).map(|at| {
        // Every tenth id registers twice; the repeat gets the same incarnation.
        let id = format!("a-{}", if at % 10 == 9 { at - 1 } else { at });
        let registry = rig.registry.clone();
        async move { (id.clone(), registry.register(card(&id, &["x"]), "1".into()).await) }
    });
    let mut incarnations = std::collections::BTreeMap::new();
    for (id, registered) in join_all(joins).await {
        let incarnation = registered.unwrap().incarnation;
        assert_eq!(*incarnations.entry(id).or_insert(incarnation), incarnation);
    }
    let commits = commits.load(Ordering::SeqCst) - before;
    assert!(commits <= 150, "{commits} commits");
    assert_eq!(rig.registry.find(&AgentQuery::default()).await.unwrap().len(), 900);
}

#[actix_web::test]
async fn concurrent_registrations_fill_the_registry_up_to_its_limit() {
    let (store, ..) = counting_store();
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
async fn a_flapping_agent_is_signalled_a_few_times_and_again_once_it_settles() {
    let config = Config { flap_limit: 4, retry_ms: 1, retry_cap_ms: 1, ..Config::default() };
    let rig = Rig::over(store::memory::new(), config, 0);
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
    let restless =
        |ids: Vec<String>| ids.into_iter().filter(|id| id.contains(":restless:")).collect::<Vec<_>>();
    assert_eq!(restless(rig.signals(5).await).len(), 4, "two joins and two exits");
    let live = rig.live().await;
    assert!(live.contains(&"restless Alive".to_owned()), "a search shows the current state: {live:?}");
    for _ in 0..35 {
        rig.beat("restless", last).await.unwrap();
        rig.beat("steady", steady).await.unwrap();
        rig.pass(1).await;
    }
    let signals = restless(rig.signals(6).await);
    assert_eq!(signals.len(), 5, "{signals:?}");
    assert_eq!(signals[4], format!("agent.joined:restless:{last}"), "the final state is signalled once");
}

#[actix_web::test]
async fn two_suspicion_reports_shorten_the_lease_and_one_does_not() {
    let rig = Rig::new();
    // Somebody listens there, and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut incarnations = std::collections::BTreeMap::new();
    for id in ["a", "b", "c", "missed"] {
        incarnations.insert(id, rig.join(id, "1").await.unwrap());
    }
    rig.pass(18).await; // The grace after the start is over.
    for (id, incarnation) in &mut incarnations {
        *incarnation = rig.join_at(id, "2", &endpoint).await.unwrap();
    }
    let beat_others = async || {
        for id in ["a", "b", "c"] {
            rig.beat(id, incarnations[id]).await.unwrap();
        }
    };
    let state = async || rig.registry.get(&agent("missed")).await.unwrap().state;
    let report = async |by: &str| {
        rig.registry.report_suspicion(&agent(by), &agent("missed"), incarnations["missed"]).await
    };
    for _ in 0..3 {
        report("a").await.unwrap();
    }
    beat_others().await;
    rig.pass(8).await;
    assert_ne!(state().await, Presence::Dead, "one report never expires an agent");

    rig.beat("missed", incarnations["missed"]).await.unwrap();
    report("a").await.unwrap();
    report("b").await.unwrap();
    rig.pass(1).await;
    rig.beat("missed", incarnations["missed"]).await.unwrap();
    beat_others().await;
    rig.pass(8).await;
    assert_ne!(state().await, Presence::Dead, "its own heartbeat refutes all reports");

    rig.beat("missed", incarnations["missed"]).await.unwrap();
    beat_others().await;
    report("a").await.unwrap();
    report("b").await.unwrap();
    rig.pass(5).await;
    assert_ne!(state().await, Presence::Dead, "a heartbeat in flight still counts");
    rig.pass(2).await;
    assert_eq!(state().await, Presence::Dead, "long before its lease is over");

    let stranger =
        rig.registry.report_suspicion(&agent("stranger"), &agent("a"), incarnations["a"]).await.unwrap_err();
    assert_eq!(stranger.reason, Reason::AgentNotFound, "{stranger:?}");
    let stale =
        rig.registry.report_suspicion(&agent("b"), &agent("a"), incarnations["a"] - 1).await.unwrap_err();
    assert_eq!(stale.reason, Reason::StaleIncarnation, "{stale:?}");
}

#[actix_web::test]
async fn an_agent_whose_endpoint_refuses_the_registry_twice_is_away_and_its_heartbeat_refutes_that() {
    let rig = Rig::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    rig.pass(18).await; // The grace after the start is over.
    rig.join("a", "1").await.unwrap();
    let incarnation = rig.join_at("gone", "1", &endpoint).await.unwrap();
    let state = async || rig.registry.get(&agent("gone")).await.unwrap().state;
    let report =
        async || rig.registry.report_suspicion(&agent("a"), &agent("gone"), incarnation).await.unwrap();
    report().await;
    rig.pass(1).await;
    assert_eq!(state().await, Presence::Alive, "one may be a restart");
    rig.beat("gone", incarnation).await.unwrap();
    rig.pass(2).await;
    assert_eq!(state().await, Presence::Alive, "it was heard of meanwhile");
    report().await;
    rig.pass(2).await;
    assert_eq!(state().await, Presence::Dead);
}

#[actix_web::test]
async fn a_registry_that_panics_restarts_and_keeps_its_agents() {
    let (store, _, panics) = counting_store();
    let now = std::time::Instant::now();
    let clocks = Clocks {
        node: Arc::new(move || protocol::time::NodeTime(u64::try_from(now.elapsed().as_millis()).unwrap())),
        wall: Arc::new(|| protocol::time::WallTime(0)),
    };
    let config =
        Config { lease_ms: 100, heartbeat_ms: 20, sweep_ms: 5, max_expiry_percent: 100, ..Config::default() };
    let board = Arc::new(Arc::new(super::tests::FakeBoard::default()));
    let supervised = SupervisedRegistry::start(config, store, board, clocks, super::tests::keys()).unwrap();
    let registry = Registry::local(supervised.clone());
    registry.register(card("a", &[]), "1".into()).await.unwrap();
    // Without heartbeats the agent expires; the commit of that sweep panics.
    panics.store(1, Ordering::SeqCst);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while supervised.restarts() == 0 {
        assert!(tokio::time::Instant::now() < deadline, "the registry did not restart");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let beat = Heartbeat::new(1, 0, true);
    registry.heartbeat(&agent("a"), beat).await.unwrap();
    assert_eq!(registry.find(&AgentQuery::default()).await.unwrap().len(), 1, "with a full lease");
}
