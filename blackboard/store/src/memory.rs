//! The reference backend, in memory only.

use super::blobs::BlobMemory;
use super::follower::{self, LogPage, PageSource};
use super::tail::LogTail;
use super::{
    Batch, Error, Filter, Key, Lane, ListQuery, ListedKey, Record, Revision, SharedBlobs, SharedStore,
    Snapshot, Store, StoreFuture, StoreWatch,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store_types::MemoryState;

/// A new, empty store.
pub fn new() -> SharedStore {
    let tail = Arc::new(LogTail::new(0));
    let generation = uuid::Uuid::now_v7().simple().to_string();
    Arc::new(MemoryStore { blobs: Arc::new(BlobMemory::default()), tail, state: Arc::default(), generation })
}

struct MemoryStore {
    blobs: SharedBlobs,
    tail: Arc<LogTail>,
    state: Arc<LockedState>,
    generation: String,
}

#[derive(Default)]
struct LockedState(Mutex<MemoryState>);

impl LockedState {
    fn lock(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageSource for LockedState {
    fn page(&self, filter: &Filter, after: Revision, limit: usize, _bytes: usize) -> Result<LogPage, Error> {
        let records = self.lock().page(filter, after, limit);
        let next = records.get(limit.max(1) - 1).map(|last| last.revision);
        Ok(LogPage { records, next })
    }

    fn check_cursor(&self, filter: &Filter, after: Revision) -> Result<(), Error> {
        let floor = self.lock().floor(filter);
        if after < floor { Err(Error::Trimmed { floor }) } else { Ok(()) }
    }
}

impl Snapshot for MemoryStore {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.state.lock().latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.state.lock().read(filter, after, limit)
    }

    fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
        self.state.lock().list(query, limit)
    }

    fn count(&self, query: &ListQuery) -> Result<u64, Error> {
        self.state.lock().count(query)
    }

    fn head(&self) -> Revision {
        self.tail.head()
    }
}

impl Store for MemoryStore {
    fn commit(&self, _lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
        let mut state = self.state.lock();
        let outcome = state.commit(batch).map(|written| {
            let records = written.iter().filter_map(|(_, record)| record.as_ref());
            let records = records.map(|record| (record.revision, &record.key, &record.value));
            self.tail.publish(state.revision(), records);
            written.iter().map(|(revision, _)| *revision).collect()
        });
        Box::pin(std::future::ready(outcome))
    }

    fn generation(&self) -> String {
        self.generation.clone()
    }

    fn watch(&self, filter: Filter, after: Revision) -> Result<StoreWatch, Error> {
        follower::watch(self.state.clone(), self.tail.clone(), filter, after)
    }

    fn trim(&self, filter: Filter, before: Revision) -> StoreFuture<u64> {
        Box::pin(std::future::ready(Ok(self.state.lock().trim(&filter, before))))
    }

    fn blobs(&self) -> SharedBlobs {
        self.blobs.clone()
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.tail.close("it was closed");
    }
}

#[cfg(test)]
mod tests {
    super::super::conformance::suite!(((), super::new()));
}
