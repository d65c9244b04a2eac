//! Registrations and departures over a store whose commits fail.

use super::tests::Rig;
use crate::{config::Config, directory::test_cards::card, entry::AgentQuery};
use protocol::{ids::AgentId, problem::Reason};
use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};
use store::{
    Batch, Error, Filter, Key, Lane, ListQuery, ListedKey, Record, Revision, SharedStore, Store, StoreFuture,
    StoreWatch,
};

const HEALTHY: u8 = 0;
const FULL: u8 = 1;
const WRITTEN_UNKNOWN: u8 = 2;
const LOST_UNKNOWN: u8 = 3;

/// A store whose commits are refused as full, or end in `Unknown` with or without being written.
struct FaultyStore {
    store: SharedStore,
    fault: Arc<AtomicU8>,
}

impl store::Snapshot for FaultyStore {
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

impl Store for FaultyStore {
    fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
        let unknown = || Err(Error::Unknown("the line went dead".into()));
        match self.fault.load(Ordering::SeqCst) {
            FULL => Box::pin(std::future::ready(Err(Error::Full))),
            LOST_UNKNOWN => Box::pin(std::future::ready(unknown())),
            WRITTEN_UNKNOWN => {
                let written = self.store.commit(lane, batch);
                Box::pin(async move { written.await.and_then(|_| unknown()) })
            }
            _ => self.store.commit(lane, batch),
        }
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

#[actix_web::test]
async fn a_failed_commit_changes_nothing_and_an_unknown_one_is_read_back() {
    let fault = Arc::new(AtomicU8::new(FULL));
    let store = Arc::new(FaultyStore { store: store::memory::new(), fault: fault.clone() });
    let rig = Rig::over(store, Config { retry_ms: 1, retry_cap_ms: 1, ..Config::default() }, 0);
    let join = |instance: &str| rig.registry.register(card("a", &[]), instance.into());

    assert_eq!(join("1").await.unwrap_err().reason, Reason::Overloaded);
    fault.store(LOST_UNKNOWN, Ordering::SeqCst);
    assert_eq!(join("1").await.unwrap_err().reason, Reason::StoreUnavailable);
    assert_eq!(rig.registry.find(&AgentQuery::default()).await, Ok(vec![]));

    fault.store(WRITTEN_UNKNOWN, Ordering::SeqCst);
    assert_eq!(join("1").await.unwrap().incarnation, 1);
    fault.store(FULL, Ordering::SeqCst);
    let id = AgentId::parse("a").unwrap();
    assert_eq!(rig.registry.deregister(&id, 1).await.unwrap_err().reason, Reason::Overloaded);
    assert_eq!(join("2").await.unwrap_err().reason, Reason::Overloaded);
    assert_eq!(rig.registry.find(&AgentQuery::default()).await.unwrap().len(), 1);

    fault.store(HEALTHY, Ordering::SeqCst);
    rig.registry.deregister(&id, 1).await.unwrap();
    let signals = rig.signals(2).await;
    assert_eq!(signals, ["agent.joined:a:1", "agent.left:a:1"]);
}

#[actix_web::test]
async fn the_last_state_of_a_flapping_agent_is_signalled_though_the_first_commit_fails() {
    let fault = Arc::new(AtomicU8::new(HEALTHY));
    let store = Arc::new(FaultyStore { store: store::memory::new(), fault: fault.clone() });
    let config = Config { flap_limit: 2, retry_ms: 1, retry_cap_ms: 1, ..Config::default() };
    let calm = config.flap_calm_ms / 1_000 + 1;
    let rig = Rig::over(store, config, 0);
    let mut last = 0;
    for round in 0..4 {
        last = rig.join("restless", &format!("i-{round}")).await.unwrap();
    }
    rig.signals(2).await;
    fault.store(FULL, Ordering::SeqCst);
    let mut last_sweep = Ok(());
    for _ in 0..=calm {
        rig.beat("restless", last).await.unwrap();
        last_sweep = rig.pass_one().await;
    }
    assert_eq!(last_sweep.unwrap_err().reason, Reason::Overloaded);
    fault.store(HEALTHY, Ordering::SeqCst);
    rig.beat("restless", last).await.unwrap();
    rig.pass(1).await;
    let signals = rig.signals(3).await;
    assert_eq!(signals.last(), Some(&format!("agent.joined:restless:{last}")), "{signals:?}");
}
