//! The promises of watches.

use super::super::{Error, Filter, Revision, SharedStore, StoreWatch, Write};
use super::{append, batch, commit, key, values};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(20);

async fn next(watch: &mut StoreWatch) -> Vec<super::Record> {
    let page = tokio::time::timeout(TIMEOUT, watch.next()).await.expect("nothing came in time").unwrap();
    assert!(!page.is_empty());
    page
}

async fn revisions(watch: &mut StoreWatch, until: Revision) -> Vec<Revision> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| *last < until) {
        seen.extend(next(watch).await.iter().map(|record| record.revision));
    }
    seen
}

pub(crate) async fn early_and_late_watches_get_every_record_once_in_order(store: SharedStore) {
    let filter = Filter::Below(key("a.log"));
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..600 {
                let other = Write::Append(key("b.log.x"), "another's".into());
                let mine = Write::Append(key(&format!("a.log.{}", n % 3)), n.to_string().into());
                commit(&store, batch([other, mine])).await;
            }
        })
    };
    let expected: Vec<Revision> = (1..=600).map(|n| 2 * n).chain([1201]).collect();
    let mut watchers = Vec::new();
    for n in 0..12_u64 {
        let after = if n % 2 == 0 { 0 } else { store.head() };
        let mut watch = store.watch(filter.clone(), after).unwrap();
        watchers.push(tokio::spawn(async move { (after, revisions(&mut watch, 1201).await) }));
        next(&mut store.watch(Filter::Exactly(key("b.log.x")), 50 * n).unwrap()).await;
    }
    writer.await.unwrap();
    commit(&store, append("a.log.x", "last")).await;
    watchers.push(tokio::spawn({
        let mut late = store.watch(filter, 0).unwrap();
        async move { (0, revisions(&mut late, 1201).await) }
    }));
    for watcher in watchers {
        let (after, seen) = watcher.await.unwrap();
        assert_eq!(
            seen,
            expected.iter().copied().filter(|r| *r > after).collect::<Vec<_>>(),
            "after {after}"
        );
    }
}

pub(crate) async fn a_watch_that_is_far_behind_catches_up(store: SharedStore) {
    let mut slow = store.watch(Filter::One(key("a.log")), 0).unwrap();
    for round in 0..30 {
        let writes = (0..200).map(|n| Write::Append(key("a.log.x"), format!("{round}/{n}").into()));
        commit(&store, batch(writes.collect::<Vec<_>>())).await;
    }
    assert_eq!(revisions(&mut slow, 6000).await, (1..=6000).collect::<Vec<_>>());
    commit(&store, append("a.log.x", "last")).await;
    assert_eq!(values(&next(&mut slow).await), ["last"]);
}

pub(crate) async fn a_thousand_watches_of_one_filter_all_get_every_record(store: SharedStore) {
    let filter = Filter::Below(key("a.signal"));
    let watchers: Vec<_> = (0..1000)
        .map(|_| {
            let mut watch = store.watch(filter.clone(), 0).unwrap();
            tokio::spawn(async move { revisions(&mut watch, 20).await })
        })
        .collect();
    for n in 0..20 {
        commit(&store, append("a.signal.x", &n.to_string())).await;
    }
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), (1..=20).collect::<Vec<_>>());
    }
}

pub(crate) async fn a_watch_below_the_floor_is_refused(store: SharedStore) {
    for n in 0..10 {
        commit(&store, append(if n % 2 == 0 { "a.log.x" } else { "a.log.y" }, "")).await;
    }
    let mut at_floor = store.watch(Filter::Exactly(key("a.log.x")), 9).unwrap();
    assert_eq!(store.trim(Filter::Exactly(key("a.log.x")), 6).await.unwrap(), 3);
    for (filter, floor) in [
        (Filter::Exactly(key("a.log.x")), 5),
        (Filter::Exactly(key("a.log.y")), 0),
        (Filter::Below(key("a.log")), 5),
        (Filter::Below(key("a")), 5),
        (Filter::Below(key("b")), 0),
    ] {
        if floor > 0 {
            let below = store.watch(filter.clone(), floor - 1).map(drop);
            assert!(matches!(below, Err(Error::Trimmed { floor: f }) if f == floor), "{filter:?}: {below:?}");
        }
        assert!(store.watch(filter, floor).is_ok());
    }
    commit(&store, append("a.log.x", "on")).await;
    assert_eq!(values(&next(&mut at_floor).await), ["on"]);
}

pub(crate) async fn a_watch_ends_with_its_store(store: SharedStore) {
    let mut watch = store.watch(Filter::Below(key("a")), 0).unwrap();
    drop(store);
    let end = tokio::time::timeout(TIMEOUT, watch.next()).await.expect("it waits for ever");
    assert!(matches!(end, Err(Error::Closed(_))), "{end:?}");
}
