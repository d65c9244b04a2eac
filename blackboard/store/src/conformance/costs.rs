//! What reads cost, in steps of the backend: as much in a store with many other records as in one with few. Searches for a text are
//! not among them ([`ListQuery::text`]).

use super::super::{
    Batch, Filter, Lane, ListEntry, ListOrder, ListPosition, ListQuery, Revision, SharedStore, Write,
    embedded,
};
use super::key;
use std::collections::BTreeMap;
use tokio::runtime::{Builder, Runtime};

/// The records of the reader, in each of two topics and a list.
const OWN: u64 = 20;
/// Sizes of a store: records of others in each topic and list.
const FEW: u64 = 300;
const MANY: u64 = 6_000;
/// The groups of the list: all, those of others, the reader's.
const OTHERS: u64 = 7;
const OWN_GROUP: u64 = 8;

/// The steps that this thread has taken for reads.
fn steps() -> u64 {
    store_types::memory::visited() + embedded::steps::counted()
}

/// A store in which the reader's records lie evenly between `others`. Returns the revision of the newest record but ten.
fn fill(runtime: &Runtime, store: &SharedStore, others: u64) -> Revision {
    let every = others / OWN;
    let writes = (0..others).flat_map(|n| {
        let entry = |group| ListEntry { list: key("a.list"), part: 0, at: n.cast_signed(), group };
        let row = |of: &str, n: u64, group| {
            Write::PutListed(key(&format!("a.state.{of}.{n}")), n.to_string().into(), vec![entry(group)])
        };
        let append = |of: &str| Write::Append(key(&format!("a.log.{of}.x")), n.to_string().into());
        let own = (n % every == 0).then(|| [append("own"), row("own", n, OWN_GROUP)]);
        let theirs = [append(&format!("all.other{}", n % 50)), row("other", n, OTHERS)];
        own.into_iter().flatten().chain(theirs)
    });
    let writes: Vec<Write> = writes.collect();
    for some in writes.chunks(500) {
        let batch = Batch { writes: some.to_vec(), expectations: Vec::new() };
        runtime.block_on(store.commit(Lane::Progress, batch)).unwrap();
    }
    store.head() - 10
}

/// The steps of each read of a store with so many records of others.
fn costs(runtime: &Runtime, store: &SharedStore, others: u64) -> BTreeMap<&'static str, u64> {
    let almost_all = fill(runtime, store, others);
    let own =
        [Filter::Below(key("a.log.own")), Filter::One(key("a.log.own")), Filter::Exactly(key("a.log.own.x"))];
    let list = ListQuery::oldest(key("a.list"));
    let end = others.cast_signed();
    let newest = ListQuery { order: ListOrder::NewestFirst, ..list.clone() };
    let middle = ListPosition { at: end / 2, record: Revision::MAX / 2 };
    let of_group = ListQuery { group: Some(OWN_GROUP), ..list.clone() };
    let last = ListQuery { from: Some(end - 10), ..list.clone() };
    let mut costs = BTreeMap::new();
    let mut read = |what, expected: u64, read: &dyn Fn() -> usize| {
        let before = steps();
        let found = read();
        costs.insert(what, steps() - before);
        assert_eq!(found as u64, expected, "{what}");
    };
    let count = |query: &ListQuery| usize::try_from(store.count(query).unwrap()).unwrap();
    let page = |query: &ListQuery| store.list(query, 5).unwrap().len();
    read("the latest of a log", 1, &|| store.latest(&key("a.log.own.x")).unwrap().into_iter().count());
    read("the latest of a state", 1, &|| store.latest(&key("a.state.own.0")).unwrap().into_iter().count());
    read("a log key", OWN, &|| store.read(&own[2], 0, 100).unwrap().len());
    read("a page of a log key", 5, &|| store.read(&own[2], 0, 5).unwrap().len());
    read("the keys of a log", OWN, &|| store.keys(&own[0], 0, 100).unwrap().len());
    read("one below a log", OWN, &|| store.read(&own[1], 0, 100).unwrap().len());
    read("all below a log", OWN, &|| store.read(&own[0], 0, 100).unwrap().len());
    read("a page of a whole log", 5, &|| store.read(&Filter::Below(key("a.log")), 0, 5).unwrap().len());
    let tail = |prefix: &str| store.read(&Filter::Below(key(prefix)), almost_all, 100).unwrap().len();
    read("the end of a whole log", 5, &|| tail("a.log"));
    read("the end of many keys below a log", 5, &|| tail("a.log.all"));
    read("one below a state", OWN, &|| store.read(&Filter::One(key("a.state.own")), 0, 100).unwrap().len());
    read("all below a state", OWN, &|| store.read(&Filter::Below(key("a.state.own")), 0, 100).unwrap().len());
    read("the oldest of a list", 5, &|| page(&list));
    read("the newest of a list", 5, &|| page(&newest));
    read("the middle of a list", 5, &|| page(&ListQuery { after: Some(middle), ..list.clone() }));
    read("the middle of a list, backwards", 5, &|| {
        page(&ListQuery { after: Some(middle), ..newest.clone() })
    });
    read("the end of a list", 5, &|| page(&last));
    read("a group of a list", 5, &|| page(&of_group));
    read("the newest of a group", 5, &|| {
        page(&ListQuery { order: ListOrder::NewestFirst, ..of_group.clone() })
    });
    read("the number at the end of a list", 10, &|| count(&last));
    read("the number of a group", OWN, &|| count(&of_group));
    for (what, filter, after, expected) in [
        ("a watch of a log key", &own[2], 0, OWN),
        ("a watch below a log", &own[0], 0, OWN),
        ("a watch of the end of a log", &Filter::Below(key("a.log")), almost_all, 5),
    ] {
        let (before, found, after) = runtime.block_on(async {
            // Pages are read in the runtime's only thread for blocking work.
            let before = tokio::task::spawn_blocking(steps).await.unwrap();
            let mut watch = store.watch(filter.clone(), after).unwrap();
            let mut found = 0;
            while found < expected {
                found += watch.next().await.unwrap().len() as u64;
            }
            (before, found, tokio::task::spawn_blocking(steps).await.unwrap())
        });
        assert_eq!(found, expected, "{what}");
        costs.insert(what, after - before);
    }
    costs
}

pub(crate) fn every_read_costs_what_it_returns<G>(open: impl Fn() -> (G, SharedStore)) {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    let [few, many] = [FEW, MANY].map(|others| {
        let (_guard, store) = open();
        costs(&runtime, &store, others)
    });
    let dear: Vec<_> = few
        .iter()
        .filter(|(what, few)| **few == 0 || many[*what] > **few * 3 / 2 + 20)
        .map(|(what, few)| format!("{what}: {few} steps, with {MANY} others {}", many[what]))
        .collect();
    assert!(dear.is_empty(), "{}", dear.join("\n"));
}
