//! A store whose commits and reads a test intercepts.

use super::*;

/// Performs a commit in place of the store.
type CommitHook = dyn Fn(&SharedStore, Lane, Batch) -> StoreFuture<Vec<Revision>> + Send + Sync;

/// Sees the key or the prefix of a read before the store does, and may panic.
type ReadHook = dyn Fn(&Key) + Send + Sync;

/// Passes commits and reads to hooks, and everything else to the store.
pub(super) struct InterceptingStore {
    store: SharedStore,
    commit: Box<CommitHook>,
    read: Box<ReadHook>,
}

impl InterceptingStore {
    /// Wraps `store`; `hook` performs its commits.
    pub(super) fn new(
        store: SharedStore,
        hook: impl Fn(&SharedStore, Lane, Batch) -> StoreFuture<Vec<Revision>> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { store, commit: Box::new(hook), read: Box::new(|_| {}) })
    }

    /// Wraps `store`; `hook` sees its reads.
    pub(super) fn reading(store: SharedStore, hook: impl Fn(&Key) + Send + Sync + 'static) -> Arc<Self> {
        let commit = |store: &SharedStore, lane, batch| store.commit(lane, batch);
        Arc::new(Self { store, commit: Box::new(commit), read: Box::new(hook) })
    }
}

impl store::Snapshot for InterceptingStore {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        (self.read)(key);
        self.store.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        (self.read)(filter.key());
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

impl Store for InterceptingStore {
    fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
        (self.commit)(&self.store, lane, batch)
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
