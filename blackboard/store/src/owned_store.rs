//! A store handle that is bound to one owner's keys, so that owners can share a file (DESIGN §2).

use super::{
    Batch, Error, Filter, Key, Lane, ListQuery, ListedKey, Record, Revision, SharedBlobs, SharedStore,
    Snapshot, Store, StoreFuture, StoreWatch, Write,
};

/// A store of the keys whose first token is `owner`.
#[derive(Clone)]
pub struct OwnedStore {
    store: SharedStore,
    owner: String,
}

impl OwnedStore {
    /// The keys of `owner` in `store`.
    pub fn new(store: SharedStore, owner: impl Into<String>) -> Self {
        Self { store, owner: Key::new(&[owner.into()]).to_string() }
    }

    /// The owner, escaped as the first token of its keys.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    fn check_owner(&self, key: &Key) -> Result<(), Error> {
        if key.owner() == self.owner {
            Ok(())
        } else {
            Err(Error::Refused(format!("{key} does not belong to {}", self.owner)))
        }
    }
}

impl Snapshot for OwnedStore {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.check_owner(key)?;
        self.store.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.check_owner(filter.key())?;
        self.store.read(filter, after, limit)
    }

    fn keys(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<(Revision, Key)>, Error> {
        self.check_owner(filter.key())?;
        self.store.keys(filter, after, limit)
    }

    fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
        self.check_owner(&query.list)?;
        self.store.list(query, limit)
    }

    fn count(&self, query: &ListQuery) -> Result<u64, Error> {
        self.check_owner(&query.list)?;
        self.store.count(query)
    }

    fn head(&self) -> Revision {
        self.store.head()
    }
}

impl Store for OwnedStore {
    fn commit(&self, lane: Lane, batch: Batch) -> StoreFuture<Vec<Revision>> {
        let written = batch.writes.iter().map(|write| write.key());
        let lists = batch.writes.iter().flat_map(Write::entries).map(|entry| &entry.list);
        let expected = batch.expectations.iter().map(|expectation| expectation.key());
        match written.chain(lists).chain(expected).try_for_each(|key| self.check_owner(key)) {
            Ok(()) => self.store.commit(lane, batch),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
        }
    }

    fn generation(&self) -> String {
        self.store.generation()
    }

    fn watch(&self, filter: Filter, after: Revision) -> Result<StoreWatch, Error> {
        self.check_owner(filter.key())?;
        self.store.watch(filter, after)
    }

    fn trim(&self, filter: Filter, before: Revision) -> StoreFuture<u64> {
        match self.check_owner(filter.key()) {
            Ok(()) => self.store.trim(filter, before),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
        }
    }

    fn blobs(&self) -> SharedBlobs {
        self.store.blobs()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Expectation, memory};
    use super::*;

    #[tokio::test]
    async fn an_owner_can_use_only_its_own_keys() {
        let store = memory::new();
        let owned = OwnedStore::new(store.clone(), "builder-01");
        let own = Key::new(&["builder-01", "state", "x"]);
        let other = Key::new(&["builder-012", "state", "x"]);
        let put =
            |key: &Key| Batch { writes: vec![Write::Put(key.clone(), "1".into())], expectations: vec![] };
        assert!(owned.commit(Lane::Progress, put(&own)).await.is_ok());
        assert!(owned.latest(&own).unwrap().is_some());

        let refused =
            |outcome: Result<(), Error>| assert!(matches!(outcome, Err(Error::Refused(_))), "{outcome:?}");
        refused(owned.commit(Lane::Progress, put(&other)).await.map(drop));
        let mut with_foreign_expectation = put(&own);
        with_foreign_expectation.expectations.push(Expectation::Absent(other.clone()));
        refused(owned.commit(Lane::Progress, with_foreign_expectation).await.map(drop));
        refused(owned.latest(&other).map(drop));
        let below = Filter::Below(Key::new(&["builder-012"]));
        refused(owned.read(&below, 0, 10).map(drop));
        refused(owned.keys(&below, 0, 10).map(drop));
        refused(owned.watch(below.clone(), 0).map(drop));
        refused(owned.trim(below, 10).await.map(drop));
        assert!(store.latest(&other).unwrap().is_none());
        assert!(owned.read(&Filter::Below(Key::new(&["builder-01"])), 0, 10).is_ok());
    }
}
