//! The promises of every store, and those that only a file can break.

mod crash;
mod damage;
mod failing_device;
mod format;
mod lost_commits;
mod measurements;

use super::super::conformance::{append, batch, commit, key, suite, values};
use super::super::{Expectation, Write};
use super::*;

/// A store in a temporary directory, which is removed when the first part is dropped.
fn open() -> (tempfile::TempDir, SharedStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = super::open(dir.path(), StoreOptions::default()).unwrap();
    (dir, store)
}

fn reopen(dir: &tempfile::TempDir) -> SharedStore {
    super::open(dir.path(), StoreOptions::default()).unwrap()
}

suite!(open());

#[tokio::test]
async fn a_reopened_store_keeps_its_records_generation_and_revisions() {
    let (dir, store) = open();
    for n in 0..10 {
        commit(&store, append("a.log.x", &n.to_string())).await;
    }
    let put = Write::Put(key("a.state.x"), "1".into());
    commit(&store, batch([put, Write::Delete(key("a.state.x"))])).await;
    assert_eq!(store.trim(Filter::Below(key("a.log")), Revision::MAX).await.unwrap(), 10);
    let generation = store.generation();
    drop(store);

    let store = reopen(&dir);
    assert_eq!((store.head(), store.generation()), (12, generation));
    assert!(store.read(&Filter::Below(key("a")), 0, 10).unwrap().is_empty());
    let stale = store.watch(Filter::Below(key("a.log")), 9).map(drop);
    assert!(matches!(stale, Err(Error::Trimmed { floor: 10 })), "{stale:?}");
    let wrong = store.commit(Lane::Progress, append("a.state.x", "")).await;
    assert!(matches!(wrong, Err(Error::Refused(_))), "{wrong:?}");
    let absent = Expectation::Absent(key("a.log.x"));
    let again = Batch { expectations: vec![absent], ..append("a.log.x", "again") };
    assert_eq!(commit(&store, again).await, [13]);
    drop(store);
    assert_eq!(values(&reopen(&dir).read(&Filter::Below(key("a")), 0, 10).unwrap()), ["again"]);
}

#[tokio::test]
async fn batches_queued_at_drop_are_written() {
    let (dir, store) = open();
    let queued: Vec<_> =
        (0..100).map(|n| store.commit(Lane::Progress, append("a.log.x", &n.to_string()))).collect();
    drop(store);
    for (n, commit) in queued.into_iter().enumerate() {
        assert_eq!(commit.await.unwrap(), [n as Revision + 1]);
    }
    assert_eq!(reopen(&dir).head(), 100);
}

#[tokio::test]
async fn a_full_lane_refuses_and_accepted_batches_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let store =
        super::open(dir.path(), StoreOptions { progress: 20, admission: 10, ..StoreOptions::default() })
            .unwrap();
    let blocker = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut queued = Vec::new();
    for lane in [Lane::Admission, Lane::Progress] {
        loop {
            let mut commit = store.commit(lane, append("a.log.x", "1"));
            match futures_util::FutureExt::now_or_never(&mut commit) {
                None => queued.push(commit),
                Some(Err(Error::Full)) => break,
                Some(outcome) => panic!("{outcome:?}"),
            }
        }
    }
    blocker.execute_batch("COMMIT").unwrap();
    let written = futures_util::future::try_join_all(queued).await.unwrap();
    assert!(written.len() >= 30 && store.head() == written.len() as Revision);
}
