//! The tests of the promises of every backend; `conformance::suite!` runs them on the store that an expression opens.

mod costs;
mod model;
mod watch_promises;

use super::{Batch, Error, Expectation, Filter, Key, Lane, Record, Revision, SharedStore, Write};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) use costs::*;
pub(super) use model::{matches_the_model, operations};
pub(super) use watch_promises::*;

/// Makes a test of each promise, on the store that the expression opens.
macro_rules! suite {
    ($open:expr; $($promise:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $promise() {
            let (_guard, store) = $open;
            crate::conformance::$promise(store).await;
        })+
    };
    ($open:expr) => {
        crate::conformance::suite!(
            $open;
            a_row_that_is_replaced_is_always_read,
            a_failed_expectation_fails_only_its_own_batch,
            a_failed_last_expectation_undoes_the_whole_batch,
            of_racing_commits_exactly_one_wins,
            a_topic_has_one_class,
            a_bad_key_is_refused,
            pages_join_without_gaps,
            a_trim_deletes_log_records_and_leaves_a_floor,
            early_and_late_watches_get_every_record_once_in_order,
            a_watch_that_is_far_behind_catches_up,
            a_thousand_watches_of_one_filter_all_get_every_record,
            a_watch_below_the_floor_is_refused,
            a_watch_ends_with_its_store,
        );
        #[test]
        fn every_read_costs_what_it_returns() {
            crate::conformance::every_read_costs_what_it_returns(|| $open);
        }
        proptest::proptest! {
            #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]
            #[test]
            fn random_batches_match_the_model(
                batches in crate::conformance::operations(),
            ) {
                let (_guard, store) = $open;
                crate::conformance::matches_the_model(store, batches);
            }
        }
    };
}
pub(super) use suite;

/// A key of these dotted tokens.
pub(super) fn key(text: &str) -> Key {
    Key::stored(text)
}

/// A batch with no expectations.
pub(super) fn batch(writes: impl Into<Vec<Write>>) -> Batch {
    Batch { writes: writes.into(), expectations: Vec::new() }
}

/// A batch of one appended record.
pub(super) fn append(to: &str, value: &str) -> Batch {
    batch([Write::Append(key(to), value.to_owned().into())])
}

pub(super) async fn commit(store: &SharedStore, batch: Batch) -> Vec<Revision> {
    store.commit(Lane::Progress, batch).await.expect("a commit without conflicts")
}

pub(super) fn values(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8_lossy(&record.value).into_owned()).collect()
}

pub(super) async fn a_row_that_is_replaced_is_always_read(store: SharedStore) {
    let put = |value: u32| Batch {
        writes: vec![Write::Put(key("a.state.x"), value.to_string().into())],
        expectations: Vec::new(),
    };
    store.commit(Lane::Progress, put(0)).await.unwrap();
    let (reader, is_over) = (store.clone(), std::sync::Arc::new(AtomicBool::new(false)));
    let (begun, has_begun) = std::sync::mpsc::channel();
    let stop = is_over.clone();
    let reading = std::thread::spawn(move || {
        let (filter, mut reads) = (Filter::Below(key("a.state")), 0_u32);
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(reader.read(&filter, 0, 10).unwrap().len(), 1, "after {reads} reads");
            reads += 1;
            let _ = begun.send(());
        }
    });
    has_begun.recv().unwrap();
    for value in 1..1_000 {
        store.commit(Lane::Progress, put(value)).await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    reading.join().unwrap();
}

pub(super) async fn a_failed_expectation_fails_only_its_own_batch(store: SharedStore) {
    let put = |value: &str, expectation| Batch {
        writes: vec![
            Write::Append(key("a.log.x"), value.to_owned().into()),
            Write::Put(key("a.state.x"), value.to_owned().into()),
        ],
        expectations: vec![expectation],
    };
    let absent = Expectation::Absent(key("a.state.x"));
    let outcomes = futures_util::future::join_all([
        store.commit(Lane::Progress, put("1", absent.clone())),
        store.commit(Lane::Progress, put("2", absent.clone())),
        store.commit(Lane::Progress, append("a.log.y", "3")),
        store.commit(Lane::Progress, put("4", Expectation::At(key("a.state.x"), 2))),
        store.commit(Lane::Progress, put("5", Expectation::At(key("a.log.x"), 1))),
    ])
    .await;
    assert_eq!(outcomes[0].as_ref().unwrap(), &[1, 2]);
    assert!(matches!(&outcomes[1], Err(Error::Conflict { actual: 2, key }) if key.as_str() == "a.state.x"));
    assert_eq!(outcomes[2].as_ref().unwrap(), &[3]);
    assert_eq!(outcomes[3].as_ref().unwrap(), &[4, 5]);
    assert!(matches!(&outcomes[4], Err(Error::Conflict { actual: 4, .. })));
    assert_eq!(store.head(), 5);
    let all = store.read(&Filter::Below(key("a")), 0, 10).unwrap();
    assert_eq!(values(&all), ["1", "3", "4", "4"]);
    assert_eq!(store.latest(&key("a.state.x")).unwrap().unwrap().revision, 5);
    assert_eq!(store.latest(&key("a.log.x")).unwrap().unwrap().revision, 4);
}

pub(super) async fn a_failed_last_expectation_undoes_the_whole_batch(store: SharedStore) {
    commit(
        &store,
        batch([Write::Put(key("a.state.x"), "1".into()), Write::Put(key("a.dedup.x"), "1".into())]),
    )
    .await;
    let step = |at, dedup: &str| Batch {
        writes: vec![
            Write::Put(key("a.state.x"), "2".into()),
            Write::Append(key("a.log.x"), "2".into()),
            Write::Put(key(dedup), "2".into()),
        ],
        expectations: vec![Expectation::At(key("a.state.x"), at), Expectation::Absent(key(dedup))],
    };
    for (at, dedup, against) in [(1, "a.dedup.x", "a.dedup.x"), (9, "a.dedup.y", "a.state.x")] {
        let outcome = store.commit(Lane::Progress, step(at, dedup)).await;
        assert!(
            matches!(&outcome, Err(Error::Conflict { key, .. }) if key.as_str() == against),
            "{outcome:?}"
        );
        assert_eq!(values(&store.read(&Filter::Below(key("a")), 0, 10).unwrap()), ["1", "1"]);
    }
    assert_eq!(commit(&store, step(1, "a.dedup.y")).await, [3, 4, 5]);
    assert_eq!(store.latest(&key("a.dedup.y")).unwrap().unwrap().revision, 5);
}

pub(super) async fn of_racing_commits_exactly_one_wins(store: SharedStore) {
    let contested = key("a.claim.x");
    let mut at = 0;
    for round in 0..20 {
        let expectation = match at {
            0 => Expectation::Absent(contested.clone()),
            at => Expectation::At(contested.clone(), at),
        };
        let racers: Vec<_> = (0..16)
            .map(|racer| {
                let writes = vec![Write::Put(contested.clone(), format!("{round}/{racer}").into())];
                let batch = Batch { writes, expectations: vec![expectation.clone()] };
                let lane = if racer % 2 == 0 { Lane::Progress } else { Lane::Admission };
                let store = store.clone();
                tokio::spawn(async move { store.commit(lane, batch).await })
            })
            .collect();
        let mut won = Vec::new();
        for (racer, outcome) in racers.into_iter().enumerate() {
            match outcome.await.unwrap() {
                Ok(revisions) => won.push((racer, revisions[0])),
                Err(error) => assert!(matches!(error, Error::Conflict { .. }), "{error}"),
            }
        }
        let [(racer, revision)] = won[..] else { panic!("round {round}: {won:?} won") };
        let latest = store.latest(&contested).unwrap().unwrap();
        assert_eq!((latest.revision, values(&[latest])), (revision, vec![format!("{round}/{racer}")]));
        at = revision;
    }
}

pub(super) async fn a_topic_has_one_class(store: SharedStore) {
    commit(&store, append("a.log.x", "1")).await;
    commit(&store, batch([Write::Put(key("a.state.x"), "1".into()), Write::Delete(key("a.state.x"))])).await;
    let both = vec![Write::Append(key("a.new.x"), "".into()), Write::Put(key("a.new.y"), "".into())];
    for writes in [
        vec![Write::Put(key("a.log.y"), "2".into())],
        vec![Write::Delete(key("a.log.x"))],
        vec![Write::Append(key("a.state.x"), "2".into())],
        both,
    ] {
        let outcome = store.commit(Lane::Admission, batch(writes)).await;
        assert!(matches!(outcome, Err(Error::Refused(_))), "{outcome:?}");
    }
    assert_eq!(commit(&store, append("a.new.x", "3")).await, [4]);
}

pub(super) async fn a_bad_key_is_refused(store: SharedStore) {
    for bad in ["", "a", ".", "a.", ".a", "a..b", &"a.".repeat(1200)] {
        let outcome = store.commit(Lane::Progress, append(bad, "1")).await;
        assert!(matches!(outcome, Err(Error::Refused(_))), "{bad}: {outcome:?}");
        assert!(store.latest(&key(bad)).unwrap().is_none());
        for filter in [Filter::Exactly(key(bad)), Filter::One(key(bad)), Filter::Below(key(bad))] {
            assert!(store.read(&filter, 0, 1).unwrap().is_empty());
        }
    }
    assert_eq!(store.head(), 0);
}

pub(super) async fn pages_join_without_gaps(store: SharedStore) {
    let writes = (0..250).flat_map(|n| {
        let put = Write::Put(key(&format!("a.state.{}", n % 90)), n.to_string().into());
        [Write::Append(key(&format!("a.log.{}.deep", n % 7)), n.to_string().into()), put]
    });
    commit(&store, batch(writes.collect::<Vec<_>>())).await;
    commit(&store, append("ab.log.0", "another's")).await;
    for (filter, expected) in [
        (Filter::Below(key("a")), 250 + 90),
        (Filter::Below(key("a.log")), 250),
        (Filter::One(key("a.log")), 0),
        (Filter::One(key("a.log.3")), 36),
        (Filter::Below(key("a.log.3")), 36),
        (Filter::One(key("a.state")), 90),
        (Filter::Exactly(key("a.state.7")), 1),
        (Filter::Exactly(key("a.log.3.deep")), 36),
        (Filter::Below(key("b")), 0),
    ] {
        let whole = store.read(&filter, 0, 1000).unwrap();
        assert_eq!(whole.len(), expected, "{filter:?}");
        assert!(whole.is_sorted_by_key(|record| record.revision));
        let keys: Vec<_> = whole.iter().map(|record| (record.revision, record.key.clone())).collect();
        assert_eq!(store.keys(&filter, 0, 1000).unwrap(), keys, "{filter:?}");
        assert_eq!(store.keys(&filter, 100, 5).unwrap().len(), store.read(&filter, 100, 5).unwrap().len());
        let (mut joined, mut after) = (Vec::new(), 0);
        loop {
            let page = store.read(&filter, after, 7).unwrap();
            let Some(last) = page.last() else { break };
            after = last.revision;
            joined.extend(page);
        }
        assert_eq!(joined, whole, "{filter:?}");
        assert!(store.read(&filter, Revision::MAX, 7).unwrap().is_empty());
    }
}

pub(super) async fn a_trim_deletes_log_records_and_leaves_a_floor(store: SharedStore) {
    for n in 1..=1200 {
        let log = if n % 3 == 0 { "a.log.x" } else { "a.log.y" };
        let put = Write::Put(key("a.state.x"), "".into());
        commit(&store, batch([Write::Append(key(log), n.to_string().into()), put])).await;
    }
    assert_eq!(store.trim(Filter::Exactly(key("a.log.x")), 301).await.unwrap(), 50);
    assert_eq!(store.trim(Filter::Exactly(key("a.log.x")), 301).await.unwrap(), 0);
    assert_eq!(store.read(&Filter::Below(key("a.log")), 0, 1).unwrap()[0].revision, 1);
    assert_eq!(store.trim(Filter::Below(key("a")), 2401).await.unwrap(), 1200 - 50);
    assert_eq!(store.trim(Filter::Below(key("b")), Revision::MAX).await.unwrap(), 0);
    assert!(store.read(&Filter::Below(key("a.log")), 0, 1).unwrap().is_empty());
    assert!(store.latest(&key("a.state.x")).unwrap().is_some(), "a trim may_admit_topic no state");
    assert_eq!(commit(&store, append("a.log.x", "on")).await, [2401]);
}
