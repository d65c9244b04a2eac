//! A damaged newest signal: the feed is restarted, with growing pauses.

use super::*;
use crate::feed::{Feed, FeedLimits};
use std::{future::Future, pin::Pin, time::Instant};
use tokio::sync::mpsc;

/// A store whose watches find a damaged record at once.
struct DamagedStore {
    store: SharedStore,
    watches: mpsc::UnboundedSender<Instant>,
}

struct DamagedRecord;

impl store::RecordSource for DamagedRecord {
    fn next(
        &mut self,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<store::Record>, store::Error>> + Send + '_>> {
        let damaged = store::Error::Corrupt { revision: 1, key: "board.signal.x".to_owned() };
        Box::pin(std::future::ready(Err(damaged)))
    }
}

impl store::Snapshot for DamagedStore {
    fn latest(&self, key: &store::Key) -> Result<Option<store::Record>, store::Error> {
        self.store.latest(key)
    }

    fn read(
        &self,
        filter: &store::Filter,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<store::Record>, store::Error> {
        self.store.read(filter, after, limit)
    }

    fn list(&self, query: &store::ListQuery, limit: usize) -> Result<Vec<store::ListedKey>, store::Error> {
        self.store.list(query, limit)
    }

    fn count(&self, query: &store::ListQuery) -> Result<u64, store::Error> {
        self.store.count(query)
    }

    fn head(&self) -> Revision {
        self.store.head()
    }
}

impl store::Store for DamagedStore {
    fn commit(&self, lane: store::Lane, batch: store::Batch) -> store::StoreFuture<Vec<Revision>> {
        self.store.commit(lane, batch)
    }

    fn generation(&self) -> String {
        self.store.generation()
    }

    fn watch(&self, _: store::Filter, _: Revision) -> Result<store::StoreWatch, store::Error> {
        self.watches.send(Instant::now()).unwrap();
        Ok(store::StoreWatch::new(DamagedRecord))
    }

    fn trim(&self, filter: store::Filter, before: Revision) -> store::StoreFuture<u64> {
        self.store.trim(filter, before)
    }

    fn blobs(&self) -> store::SharedBlobs {
        self.store.blobs()
    }
}

#[actix::test]
async fn the_feed_restarts_with_growing_pauses_on_a_damaged_head() {
    let (watches, mut began) = mpsc::unbounded_channel();
    let store: SharedStore = Arc::new(DamagedStore { store: memory::new(), watches });
    let limits = FeedLimits { events: 10, bytes: 1_000, subscribers: 10 };
    let _feed = Feed::start(store, limits).unwrap();
    let mut at = Vec::new();
    within("five restarts", async {
        while at.len() < 6 {
            at.push(began.recv().await.unwrap());
        }
    })
    .await;
    let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (pause, least) in pauses.iter().zip([0, 20, 40, 80, 160]) {
        assert!(*pause >= Duration::from_millis(least), "{pauses:?}");
    }
}
