//! A store with a test between it and whoever commits.

use super::*;

/// What is done with a commit instead of committing it.
type Instead = dyn Fn(&SharedStore, Lane, Batch) -> StoreFuture<Vec<Revision>> + Send + Sync;

/// Does with commits what it is told, and with all else what the store does.
pub(super) struct Between(pub(super) SharedStore, pub(super) Box<Instead>);

impl Between {
    /// `store`, with `instead` before it.
    pub(super) fn new(
        store: SharedStore,
        instead: impl Fn(&SharedStore, Lane, Batch) -> StoreFuture<Vec<Revision>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self(store, Box::new(instead)))
    }
}

impl blackboard::store::Snapshot for Between {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.0.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.0.read(filter, after, limit)
    }

    fn head(&self) -> Revision {
        self.0.head()
    }
}

impl Store for Between {
    fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
        (self.1)(&self.0, lane, batch)
    }

    fn generation(&self) -> String {
        self.0.generation()
    }

    fn watch(&self, filter: Filter, after: Revision) -> Result<StoreWatch, Error> {
        self.0.watch(filter, after)
    }

    fn trim(&self, filter: Filter, before: Revision) -> StoreFuture<u64> {
        self.0.trim(filter, before)
    }
}
