//! What happens when the store does not do as it is asked.

use super::tests::Rig;
use crate::{config::Config, directory::samples::card, entry::Query};
use blackboard::store::{
    Batch, Error, Filter, Key, Lane, Record, Revision, SharedStore, Store, StoreFuture, StoreWatch,
};
use protocol::{ids::AgentId, problem::Reason};
use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

const WELL: u8 = 0;
const FULL: u8 = 1;
const FORGETFUL: u8 = 2;
const SILENT: u8 = 3;

/// A store that is full, that writes and does not know it, or that does neither.
struct Ailing {
    store: SharedStore,
    ill: Arc<AtomicU8>,
}

impl blackboard::store::Snapshot for Ailing {
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

impl Store for Ailing {
    fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
        let unknown = || Err(Error::Unknown("the line went dead".into()));
        match self.ill.load(Ordering::SeqCst) {
            FULL => Box::pin(std::future::ready(Err(Error::Full))),
            SILENT => Box::pin(std::future::ready(unknown())),
            FORGETFUL => {
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
}

#[actix_web::test]
async fn what_was_not_recorded_did_not_happen_and_what_was_did() {
    let ill = Arc::new(AtomicU8::new(FULL));
    let store = Arc::new(Ailing { store: blackboard::store::memory::new(), ill: ill.clone() });
    let rig = Rig::over(store, Config { retry_ms: 1, retry_cap_ms: 1, ..Config::default() }, 0);
    let join = |instance: &str| rig.registry.register(card("a", &[]), instance.into());

    assert_eq!(join("1").await.unwrap_err().reason, Reason::Overloaded);
    ill.store(SILENT, Ordering::SeqCst);
    assert_eq!(join("1").await.unwrap_err().reason, Reason::StoreUnavailable);
    assert_eq!(rig.registry.find(&Query::default()).await, Ok(vec![]));

    ill.store(FORGETFUL, Ordering::SeqCst);
    assert_eq!(join("1").await.unwrap().incarnation, 1);
    ill.store(FULL, Ordering::SeqCst);
    let id = AgentId::parse("a").unwrap();
    assert_eq!(rig.registry.deregister(&id, 1).await.unwrap_err().reason, Reason::Overloaded);
    assert_eq!(join("2").await.unwrap_err().reason, Reason::Overloaded);
    assert_eq!(rig.registry.find(&Query::default()).await.unwrap().len(), 1);

    ill.store(WELL, Ordering::SeqCst);
    rig.registry.deregister(&id, 1).await.unwrap();
    let told = rig.told(2).await;
    assert_eq!(told, ["agent.joined:a:1", "agent.left:a:1"]);
}
