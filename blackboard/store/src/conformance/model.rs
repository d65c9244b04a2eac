//! Random operations on a store and on a model, which keeps its records in a vector.

use super::super::{
    Batch, Error, Expectation, Filter, Key, Lane, ListEntry, ListOrder, ListQuery, Record, Revision,
    SharedStore, Write,
};
use super::key;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// One operation on a store.
#[derive(Debug, Clone)]
pub(crate) enum StoreOperation {
    /// Several batches, queued together.
    Commit(Vec<Batch>),
    Trim(Filter, Revision),
}

/// The expected content of a store.
#[derive(Default)]
struct StoreModel {
    head: Revision,
    records: Vec<Record>,
    topics: BTreeSet<String>,
    listed: BTreeMap<Key, Vec<ListEntry>>,
    texts: BTreeMap<Key, String>,
}

impl StoreModel {
    fn latest_revision(&self, key: &Key) -> Revision {
        self.records.iter().rev().find(|record| record.key == *key).map_or(0, |record| record.revision)
    }

    fn commit(&mut self, batch: &Batch) -> Result<Vec<Revision>, (Key, Revision)> {
        for expectation in &batch.expectations {
            let (key, holds): (_, &dyn Fn(Revision) -> bool) = match expectation {
                Expectation::Absent(key) => (key, &|actual| actual == 0),
                Expectation::At(key, revision) => (key, &|actual| actual == *revision),
            };
            if !holds(self.latest_revision(key)) {
                return Err((key.clone(), self.latest_revision(key)));
            }
        }
        for write in &batch.writes {
            self.head += 1;
            self.topics.insert(write.key().topic().to_owned());
            if !matches!(write, Write::Append(..) | Write::Trim(..)) {
                self.records.retain(|record| record.key != *write.key());
            }
            match write {
                Write::Append(..) | Write::Put(..) => {}
                Write::PutListed(key, _, entries) => drop(self.listed.insert(key.clone(), entries.clone())),
                Write::PutIndexed(key, _, entries, text) => {
                    self.listed.insert(key.clone(), entries.clone());
                    self.texts.insert(key.clone(), text.clone());
                }
                Write::Delete(key) => {
                    self.texts.remove(key);
                    drop(self.listed.remove(key));
                }
                Write::Trim(key, before) => drop(self.trim(&Filter::Exactly(key.clone()), *before)),
            }
            if let Some(value) = write.value() {
                let (revision, key) = (self.head, write.key().clone());
                self.records.push(Record { revision, key, value: value.clone() });
            }
        }
        Ok((1..=batch.writes.len() as u64).map(|n| self.head - batch.writes.len() as u64 + n).collect())
    }

    fn trim(&mut self, filter: &Filter, before: Revision) -> u64 {
        let before_trim = self.records.len();
        let is_trimmed =
            |r: &Record| r.key.topic().ends_with(".log") && r.revision < before && filter.admits(&r.key);
        self.records.retain(|record| !is_trimmed(record));
        (before_trim - self.records.len()) as u64
    }
}

fn keys(topics: &'static [&'static str]) -> impl Strategy<Value = Key> {
    (proptest::sample::select(topics), 0..4).prop_map(|(topic, n)| match n {
        3 => key(&format!("{topic}.0.deep")),
        n => key(&format!("{topic}.{n}")),
    })
}

fn filters() -> impl Strategy<Value = Filter> {
    let prefixes =
        proptest::sample::select(vec!["a", "b", "a.log", "a.state", "b.log", "a.log.0", "a.state.0"]);
    prop_oneof![
        keys(&["a.log", "b.log", "a.state"]).prop_map(Filter::Exactly),
        prefixes.clone().prop_map(|prefix| Filter::One(key(prefix))),
        prefixes.prop_map(|prefix| Filter::Below(key(prefix))),
    ]
}

fn entries() -> impl Strategy<Value = Vec<ListEntry>> {
    let entry = (0..2_u8, 0..4_i64, 0..3_u64);
    proptest::collection::btree_map(0..2_u8, entry, 0..3).prop_map(|entries| {
        let list = |n| key(&format!("a.list.{n}"));
        let entries = entries.into_iter();
        entries.map(|(n, (part, at, group))| ListEntry { list: list(n), part, at, group }).collect()
    })
}

fn batches() -> impl Strategy<Value = Batch> {
    let value = || "[a-z]{0,40}".prop_map(bytes::Bytes::from);
    let write = prop_oneof![
        3 => (keys(&["a.log", "b.log"]), value()).prop_map(|(key, value)| Write::Append(key, value)),
        3 => (keys(&["a.state", "a.rows", "b.state"]), value()).prop_map(|(key, value)| Write::Put(key, value)),
        3 => (keys(&["a.state", "a.rows", "b.state"]), value(), entries())
            .prop_map(|(key, value, entries)| Write::PutListed(key, value, entries)),
        2 => (keys(&["a.state", "a.rows", "b.state"]), value(), entries(), "(Alpha|beta2|\u{e9}t\u{e9}|x-alphabet|[ .,\"*]){0,4}")
            .prop_map(|(key, value, entries, text)| Write::PutIndexed(key, value, entries, text)),
        1 => keys(&["a.state", "a.rows", "b.state"]).prop_map(Write::Delete),
        1 => (keys(&["a.log", "b.log"]), 0..60_u64).prop_map(|(key, before)| Write::Trim(key, before)),
    ];
    let any = || keys(&["a.log", "b.log", "a.state", "a.rows", "b.state"]);
    let expectation = prop_oneof![
        any().prop_map(Expectation::Absent),
        (any(), 0..40_u64).prop_map(|(key, revision)| Expectation::At(key, revision)),
    ];
    (proptest::collection::vec(write, 0..5), proptest::collection::vec(expectation, 0..2))
        .prop_map(|(writes, expectations)| Batch { writes, expectations })
}

pub(crate) fn operations() -> impl Strategy<Value = Vec<StoreOperation>> {
    let operation = prop_oneof![
        4 => proptest::collection::vec(batches(), 1..6).prop_map(StoreOperation::Commit),
        1 => (filters(), 0..60_u64).prop_map(|(filter, before)| StoreOperation::Trim(filter, before)),
    ];
    proptest::collection::vec(operation, 1..14)
}

pub(crate) fn matches_the_model(store: SharedStore, operations: Vec<StoreOperation>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut model = StoreModel::default();
    for operation in operations {
        match operation {
            StoreOperation::Commit(batches) => {
                let queued: Vec<_> =
                    batches.iter().map(|b| store.commit(Lane::Progress, b.clone())).collect();
                let outcomes = runtime.block_on(futures_util::future::join_all(queued));
                for (batch, outcome) in batches.iter().zip(outcomes) {
                    match (model.commit(batch), outcome) {
                        (Ok(expected), Ok(revisions)) => assert_eq!(expected, revisions),
                        (Err((key, actual)), Err(Error::Conflict { key: k, actual: a })) => {
                            assert_eq!((key, actual), (k, a));
                        }
                        (expected, outcome) => panic!("{batch:?}: {outcome:?}, not {expected:?}"),
                    }
                }
            }
            StoreOperation::Trim(filter, before) => {
                let trimmed = runtime.block_on(store.trim(filter.clone(), before)).unwrap();
                assert_eq!(trimmed, model.trim(&filter, before), "{filter:?} before {before}");
            }
        }
    }
    assert_agrees(&store, &model);
    assert_lists_agree(&store, &model);
}

fn assert_agrees(store: &SharedStore, model: &StoreModel) {
    assert_eq!(store.head(), model.head);
    let prefixes = ["a", "b", "a.log", "a.state", "a.rows", "a.log.0", "a.state.0"];
    let prefixed = prefixes.iter().flat_map(|p| [Filter::One(key(p)), Filter::Below(key(p))]);
    let exactly = model.records.iter().map(|record| Filter::Exactly(record.key.clone()));
    for filter in prefixed.chain(exactly) {
        for (after, limit) in [(0, 1000), (0, 3), (model.head / 2, 5)] {
            let expected = model.records.iter().filter(|r| r.revision > after && filter.admits(&r.key));
            let expected: Vec<Record> = expected.take(limit).cloned().collect();
            assert_eq!(store.read(&filter, after, limit).unwrap(), expected, "{filter:?} after {after}");
        }
    }
    for record in &model.records {
        let latest = store.latest(&record.key).unwrap().map(|latest| latest.revision);
        assert_eq!(latest, Some(model.latest_revision(&record.key)));
    }
}

/// Every list has its records, in order, from both ends, on pages that join.
fn assert_lists_agree(store: &SharedStore, model: &StoreModel) {
    for (list, parts, group, from) in [
        ("a.list.0", vec![0, 1], None, None),
        ("a.list.0", vec![1], Some(1), None),
        ("a.list.1", vec![0], None, Some(2)),
        ("a.list.1", vec![1, 0], Some(0), Some(1)),
        ("a.list.2", vec![0], None, None),
    ] {
        for text in
            [None, Some("alpha"), Some("BETA2 alp"), Some("\u{c9}t\u{e9}"), Some("nothing"), Some(" *\"")]
        {
            let text = text.map(str::to_owned);
            let parts = parts.clone();
            let oldest =
                ListQuery { parts, group, from, text, until: Some(2), ..ListQuery::oldest(key(list)) };
            let mut expected: Vec<(i64, Key)> = Vec::new();
            for (of, entries) in &model.listed {
                if !has_text(model.texts.get(of), oldest.text.as_deref()) {
                    continue;
                }
                let entries = entries.iter().filter(|entry| entry.list == oldest.list);
                let entries = entries.filter(|entry| oldest.parts.contains(&entry.part));
                let entries = entries.filter(|entry| oldest.admits(entry.at, entry.group));
                expected.extend(entries.map(|entry| (entry.at, of.clone())));
            }
            expected.sort();
            for order in [ListOrder::OldestFirst, ListOrder::NewestFirst] {
                let mut query = ListQuery { order, ..oldest.clone() };
                assert_eq!(store.count(&query).unwrap(), expected.len() as u64, "{query:?}");
                let whole = store.list(&query, 1000).unwrap();
                assert!(whole.is_sorted_by(|one, other| match order {
                    ListOrder::OldestFirst => one.position <= other.position,
                    ListOrder::NewestFirst => one.position >= other.position,
                }));
                let mut found: Vec<_> =
                    whole.iter().map(|listed| (listed.position.at, listed.key.clone())).collect();
                found.sort();
                assert_eq!(found, expected, "{query:?}");
                let mut joined = Vec::new();
                while let [page @ .., last] = &store.list(&query, 2).unwrap()[..] {
                    joined.extend(page.iter().chain([last]).cloned());
                    query.after = Some(last.position);
                }
                assert_eq!(joined, whole, "{query:?}");
            }
        }
    }
}

/// Whether each word of `wanted` begins a word of `text`; letters and digits make words.
fn has_text(text: Option<&String>, wanted: Option<&str>) -> bool {
    let words = |text: &str| -> Vec<String> {
        let text = text.to_lowercase();
        let is_part = |c: char| c.is_alphanumeric();
        text.split(|c| !is_part(c)).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let Some(wanted) = wanted.map(words) else { return true };
    let text = text.map(|text| words(text)).unwrap_or_default();
    !wanted.is_empty() && wanted.iter().all(|wanted| text.iter().any(|word| word.starts_with(wanted)))
}
