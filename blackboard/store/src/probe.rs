//! Tests whether a store takes writes, by writing a record under a key of its own. The record is deleted at once: a record
//! that stayed would be replaced in place by the next probe, which then succeeds on a full device.

use super::{Batch, Error, Key, Lane, SharedStore, Write, embedded::StoreGauge};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::Instant};

/// The size of the record: about the pages that the commits of one message change. A message of the largest size may need
/// more and fails by itself.
const PROBE_BYTES: usize = 64 << 10;
/// How long a success is cached.
const SUCCESS_TTL: Duration = Duration::from_secs(5);
/// How long a failure is cached.
const FAILURE_TTL: Duration = Duration::from_millis(500);

/// Tests whether a store takes writes. Cheap to clone; clones share the last result.
#[derive(Clone)]
pub struct WriteProbe {
    store: SharedStore,
    gauge: Option<StoreGauge>,
    last_result: Arc<Mutex<Option<ProbeResult>>>,
}

/// The time and the outcome of a test write, and how many transactions the device had not taken.
type ProbeResult = (Instant, Result<(), Error>, u64);

impl WriteProbe {
    /// A probe of `store`, which must not be bound to an owner. With its gauge, a success counts only until the device takes
    /// no write.
    pub fn new(store: SharedStore, gauge: Option<StoreGauge>) -> Self {
        Self { store, gauge, last_result: Arc::default() }
    }

    /// Whether the store takes writes, now or seconds ago. One caller at a time writes; the others wait for its result.
    pub async fn check(&self) -> Result<(), Error> {
        let mut last_result = self.last_result.lock().await;
        let refused = self.gauge.as_ref().map_or(0, StoreGauge::refused);
        if let Some((at, outcome, refused_before)) = &*last_result {
            let ttl = if outcome.is_ok() { SUCCESS_TTL } else { FAILURE_TTL };
            if at.elapsed() < ttl && refused == *refused_before {
                return outcome.clone();
            }
        }
        // No agent id begins with `_`.
        let key = Key::new(&["_probe", "write"]);
        let outcome = match self.commit(Write::Put(key.clone(), Bytes::from_static(&[0; PROBE_BYTES]))).await
        {
            Ok(()) => self.commit(Write::Delete(key)).await,
            failed => failed,
        };
        *last_result = Some((Instant::now(), outcome.clone(), refused));
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
        embedded::{StoreOptions, open_with_gauge},
        memory,
    };
    use super::*;

    #[tokio::test]
    async fn concurrent_checks_share_one_test_write() {
        let store = memory::new();
        let probe = WriteProbe::new(store.clone(), None);
        let results = futures_util::future::join_all((0..100).map(|_| probe.check())).await;
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(store.head(), 2, "written and deleted");
    }

    #[tokio::test]
    async fn a_nearly_full_device_fails_the_check_until_there_is_room_again() {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { pages: Some(128), ..StoreOptions::default() };
        let (store, gauge) = open_with_gauge(dir.path(), options).unwrap();
        let probe = WriteProbe::new(store.clone(), Some(gauge));
        assert!(probe.check().await.is_ok(), "there is room");
        let fill = |size: usize| {
            let write = Write::Append(Key::new(&["a", "log", "x"]), "x".repeat(size).into());
            store.commit(Lane::Progress, Batch { writes: vec![write], expectations: Vec::new() })
        };
        while fill(20_000).await.is_ok() {}
        assert!(fill(4_000).await.is_ok(), "a little still fits");
        assert!(matches!(probe.check().await, Err(Error::StorageFull)), "the success before is not repeated");
        for size in [2_000, 50] {
            while fill(size).await.is_ok() {}
        }
        let log = super::super::Filter::Below(Key::new(&["a", "log"]));
        store.trim(log, super::super::Revision::MAX).await.unwrap();
        let started = Instant::now();
        while probe.check().await.is_err() {
            assert!(started.elapsed() < Duration::from_secs(30), "the check still fails with room again");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
