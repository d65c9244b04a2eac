//! Whether a store takes writes: it is tried, now and then, with a record that belongs to nobody else. The record goes again
//! at once: one that stayed would hold the room that it is to find, and the next would fit in its place on a full device.

use super::{Batch, Error, Key, Lane, Shared, Write};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::Instant};

/// How much is written: the pages that the commits of a message and of what it sets off change. A message as large as the
/// limit may need more, and is refused by itself.
const PROBE_BYTES: usize = 64 << 10;
/// How long a success is taken for the truth.
const GOOD_FOR: Duration = Duration::from_secs(5);
/// How long a failure is.
const BAD_FOR: Duration = Duration::from_millis(500);

/// Tries whether a store takes writes. Cheap to clone; all clones share what they have seen.
#[derive(Clone)]
pub struct Probe {
    store: Shared,
    seen: Arc<Mutex<Option<Seen>>>,
}

/// What came of a try, and when it was.
type Seen = (Instant, Result<(), Error>);

impl Probe {
    /// For `store`, which must not be bound to an owner.
    pub fn new(store: Shared) -> Self {
        Self { store, seen: Arc::default() }
    }

    /// Whether the store takes writes: as tried at this moment, or seconds ago. However many ask, one at a time tries.
    pub async fn look(&self) -> Result<(), Error> {
        let mut seen = self.seen.lock().await;
        if let Some((at, outcome)) = &*seen {
            let fresh = if outcome.is_ok() { GOOD_FOR } else { BAD_FOR };
            if at.elapsed() < fresh {
                return outcome.clone();
            }
        }
        // No agent's id begins like this, so that no agent's records are in the way.
        let key = Key::new(&["_probe", "write"]);
        let outcome = match self.commit(Write::Put(key.clone(), Bytes::from_static(&[0; PROBE_BYTES]))).await
        {
            Ok(()) => self.commit(Write::Delete(key)).await,
            failed => failed,
        };
        *seen = Some((Instant::now(), outcome.clone()));
        outcome
    }

    async fn commit(&self, write: Write) -> Result<(), Error> {
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        self.store.commit(Lane::Progress, batch).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        embedded::{Options, open},
        memory,
    };
    use super::*;

    #[tokio::test]
    async fn a_store_that_takes_writes_is_tried_once_for_all_who_ask() {
        let store = memory::new();
        let probe = Probe::new(store.clone());
        let asked = futures_util::future::join_all((0..100).map(|_| probe.look())).await;
        assert!(asked.iter().all(Result::is_ok));
        assert_eq!(store.head(), 2, "written and taken away");
    }

    #[tokio::test]
    async fn a_device_that_takes_less_than_a_commit_is_told_until_there_is_room_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), Options { pages: Some(64), ..Options::default() }).unwrap();
        let probe = Probe::new(store.clone());
        assert!(probe.look().await.is_ok(), "there is room");
        let fill = |size: usize| {
            let write = Write::Append(Key::new(&["a", "log", "x"]), "x".repeat(size).into());
            store.commit(Lane::Progress, Batch { writes: vec![write], expectations: Vec::new() })
        };
        while fill(20_000).await.is_ok() {}
        assert!(fill(4_000).await.is_ok(), "a little still fits");
        // What was seen a moment ago is not taken for the truth by somebody new.
        let probe = Probe::new(store.clone());
        assert!(matches!(probe.look().await, Err(Error::StorageFull)));
        for size in [2_000, 50] {
            while fill(size).await.is_ok() {}
        }
        let log = super::super::Filter::Below(Key::new(&["a", "log"]));
        store.trim(log, super::super::Revision::MAX).await.unwrap();
        let begun = Instant::now();
        while probe.look().await.is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it stays red with room again");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
