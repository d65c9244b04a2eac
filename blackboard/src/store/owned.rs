//! A store handle bound to its owner: nobody writes in another's store, not even in the same file (DESIGN §2).

use super::{Batch, Error, Filter, Key, Lane, Pending, Record, Revision, Shared, Snapshot, Store, Watch};

/// A store that takes and shows only keys whose first token is `owner`.
#[derive(Clone)]
pub struct Owned {
    store: Shared,
    owner: String,
}

impl Owned {
    /// The part of `store` that belongs to `owner`.
    pub fn new(store: Shared, owner: impl Into<String>) -> Self {
        Self { store, owner: Key::new(&[owner.into()]).to_string() }
    }

    /// Whose part this is, as the first token of its keys stands.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    fn admit(&self, key: &Key) -> Result<(), Error> {
        if key.owner() == self.owner {
            Ok(())
        } else {
            Err(Error::Refused(format!("{key} does not belong to {}", self.owner)))
        }
    }
}

impl Snapshot for Owned {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        self.admit(key)?;
        self.store.latest(key)
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.admit(filter.key())?;
        self.store.read(filter, after, limit)
    }

    fn keys(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<(Revision, Key)>, Error> {
        self.admit(filter.key())?;
        self.store.keys(filter, after, limit)
    }

    fn head(&self) -> Revision {
        self.store.head()
    }
}

impl Store for Owned {
    fn commit(&self, lane: Lane, batch: Batch) -> Pending<Vec<Revision>> {
        let written = batch.writes.iter().map(|write| write.key());
        let expected = batch.expectations.iter().map(|expectation| expectation.key());
        match written.chain(expected).try_for_each(|key| self.admit(key)) {
            Ok(()) => self.store.commit(lane, batch),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
        }
    }

    fn generation(&self) -> String {
        self.store.generation()
    }

    fn watch(&self, filter: Filter, after: Revision) -> Result<Watch, Error> {
        self.admit(filter.key())?;
        self.store.watch(filter, after)
    }

    fn trim(&self, filter: Filter, before: Revision) -> Pending<u64> {
        match self.admit(filter.key()) {
            Ok(()) => self.store.trim(filter, before),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Expectation, Write, memory};
    use super::*;

    #[tokio::test]
    async fn an_owner_reaches_its_own_keys_and_no_others() {
        let store = memory::new();
        let mine = Owned::new(store.clone(), "builder-01");
        let own = Key::new(&["builder-01", "state", "x"]);
        let other = Key::new(&["builder-012", "state", "x"]);
        let put =
            |key: &Key| Batch { writes: vec![Write::Put(key.clone(), "1".into())], expectations: vec![] };
        assert!(mine.commit(Lane::Progress, put(&own)).await.is_ok());
        assert!(mine.latest(&own).unwrap().is_some());

        let refused =
            |outcome: Result<(), Error>| assert!(matches!(outcome, Err(Error::Refused(_))), "{outcome:?}");
        refused(mine.commit(Lane::Progress, put(&other)).await.map(drop));
        let mut peeking = put(&own);
        peeking.expectations.push(Expectation::Absent(other.clone()));
        refused(mine.commit(Lane::Progress, peeking).await.map(drop));
        refused(mine.latest(&other).map(drop));
        let below = Filter::Below(Key::new(&["builder-012"]));
        refused(mine.read(&below, 0, 10).map(drop));
        refused(mine.keys(&below, 0, 10).map(drop));
        refused(mine.watch(below.clone(), 0).map(drop));
        refused(mine.trim(below, 10).await.map(drop));
        assert!(store.latest(&other).unwrap().is_none());
        assert!(mine.read(&Filter::Below(Key::new(&["builder-01"])), 0, 10).is_ok());
    }
}
