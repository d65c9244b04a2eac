//! A store whose commits a test intercepts.

use super::*;

/// Performs a commit in place of the store.
type CommitHook = dyn Fn(&SharedStore, Lane, Batch) -> StoreFuture<Vec<Revision>> + Send + Sync;

/// Passes commits to a hook, and everything else to the store.
pub(super) struct InterceptingStore(pub(super) SharedStore, pub(super) Box<CommitHook>);

impl InterceptingStore {
    /// Wraps `store`; `hook` performs its commits.
    pub(super) fn new(
        store: SharedStore,
        hook: impl Fn(&SharedStore, Lane, Batch) -> StoreFuture<Vec<Revision>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self(store, Box::new(hook)))
    }
}

impl blackboard::store::Snapshot for InterceptingStore {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.0.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.0.read(filter, after, limit)
    }

    fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
        self.0.list(query, limit)
    }

    fn count(&self, query: &ListQuery) -> Result<u64, Error> {
        self.0.count(query)
    }

    fn head(&self) -> Revision {
        self.0.head()
    }
}

impl Store for InterceptingStore {
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
