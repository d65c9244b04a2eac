//! The reference store as plain data, with synchronous commits. Backends are tested against it.

use crate::{
    Batch, Error, Filter, Key, ListEntry, ListOrder, ListPosition, ListQuery, ListedKey, MAX_READ, Record,
    Revision, Snapshot, Write,
    class::{self, TopicClass},
    list::words,
};
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Bound::{Excluded, Unbounded},
};

thread_local! {
    static VISITED: Cell<u64> = const { Cell::new(0) };
}

/// How many records, entries and words the reads of this thread have visited so far: what they cost.
pub fn visited() -> u64 {
    VISITED.get()
}

/// Counts what is taken of `all`.
fn counted<T>(all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    all.inspect(|_| VISITED.set(VISITED.get() + 1))
}

/// A store in memory. A clone is an independent copy.
///
/// A record stands under every filter that admits it: a read visits what it returns. A search for a text reads the list.
#[derive(Debug, Clone, Default)]
pub struct MemoryState {
    revision: Revision,
    topics: BTreeMap<String, TopicState>,
    records: BTreeMap<Revision, Record>,
    by_filter: HashMap<Filter, BTreeSet<Revision>>,
    /// Per log key with records, the highest revision that was trimmed.
    floors: BTreeMap<Key, Revision>,
    lists: BTreeMap<(Key, u8), ListPart>,
    /// The words of each state key with a text.
    texts: BTreeMap<Key, BTreeSet<String>>,
    /// Per listed state key, the number of its record and its entries.
    listed: BTreeMap<Key, (u64, Vec<ListEntry>)>,
}

#[derive(Debug, Clone, Copy)]
struct TopicState {
    class: TopicClass,
    floor: Revision,
}

type ListRows = BTreeMap<ListPosition, Key>;

/// The entries of a part of a list: all, and those of each group.
#[derive(Debug, Clone, Default)]
struct ListPart {
    all: ListRows,
    by_group: HashMap<u64, ListRows>,
}

impl ListPart {
    fn rows(&self, group: Option<u64>) -> Option<&ListRows> {
        group.map_or(Some(&self.all), |group| self.by_group.get(&group))
    }

    fn remove(&mut self, at: ListPosition, group: u64) {
        self.all.remove(&at);
        if let Some(rows) = self.by_group.get_mut(&group) {
            rows.remove(&at);
            if rows.is_empty() {
                self.by_group.remove(&group);
            }
        }
    }
}

/// Every filter that admits `key`.
fn filters_of(key: &Key) -> impl Iterator<Item = Filter> + use<'_> {
    let text = key.as_str();
    let below = text.match_indices('.').map(|(at, _)| Filter::Below(Key::stored(&text[..at])));
    let one = text.rsplit_once('.').map(|(parent, _)| Filter::One(Key::stored(parent)));
    below.chain(one).chain([Filter::Exactly(key.clone())])
}

impl MemoryState {
    /// Writes all of `batch` or nothing. Returns the revision of each write and, unless it is a deletion, its record.
    pub fn commit(&mut self, batch: Batch) -> Result<Vec<(Revision, Option<Record>)>, Error> {
        self.check(&batch)?;
        Ok(batch.writes.into_iter().map(|write| self.write(write)).collect())
    }

    /// The highest revision so far.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    fn latest_revision(&self, key: &Key) -> Revision {
        let revisions = self.by_filter.get(&Filter::Exactly(key.clone()));
        revisions.and_then(BTreeSet::last).copied().unwrap_or_default()
    }

    fn check(&self, batch: &Batch) -> Result<(), Error> {
        class::check(batch)?;
        for write in &batch.writes {
            let class = TopicClass::of(write);
            if self.topics.get(write.key().topic()).is_some_and(|topic| topic.class != class) {
                return Err(class.refusal(write.key()));
            }
        }
        batch
            .expectations
            .iter()
            .try_for_each(|expected| expected.check(self.latest_revision(expected.key())))
    }

    fn write(&mut self, write: Write) -> (Revision, Option<Record>) {
        self.revision += 1;
        let (revision, class) = (self.revision, TopicClass::of(&write));
        if !self.topics.contains_key(write.key().topic()) {
            self.topics.insert(write.key().topic().to_owned(), TopicState { class, floor: 0 });
        }
        if class == TopicClass::State {
            self.remove(self.latest_revision(write.key()));
        }
        let record =
            write.value().map(|value| Record { revision, key: write.key().clone(), value: value.clone() });
        if let Some(record) = &record {
            for filter in filters_of(&record.key) {
                self.by_filter.entry(filter).or_default().insert(revision);
            }
            self.records.insert(revision, record.clone());
        }
        match write {
            Write::Append(..) | Write::Put(..) => {}
            Write::PutListed(key, _, entries) => self.enter(key, entries),
            Write::PutIndexed(key, _, entries, text) => {
                self.texts.insert(key.clone(), words(&text).collect());
                self.enter(key, entries);
            }
            Write::Delete(key) => {
                self.texts.remove(&key);
                self.leave_lists(&key);
            }
            Write::Trim(key, before) => drop(self.trim(&Filter::Exactly(key), before)),
        }
        (revision, record)
    }

    /// Removes the record of this revision, if there is one.
    fn remove(&mut self, revision: Revision) -> Option<Record> {
        let record = self.records.remove(&revision)?;
        for filter in filters_of(&record.key) {
            if let Some(revisions) = self.by_filter.get_mut(&filter) {
                revisions.remove(&revision);
                if revisions.is_empty() {
                    self.by_filter.remove(&filter);
                }
            }
        }
        Some(record)
    }

    /// Replaces the list entries of `key`.
    fn enter(&mut self, key: Key, entries: Vec<ListEntry>) {
        let number = self.leave_lists(&key).unwrap_or(self.revision);
        for ListEntry { list, part, at, group } in &entries {
            let at = ListPosition { at: *at, record: number };
            let part = self.lists.entry((list.clone(), *part)).or_default();
            part.all.insert(at, key.clone());
            part.by_group.entry(*group).or_default().insert(at, key.clone());
        }
        self.listed.insert(key, (number, entries));
    }

    /// Removes the list entries of `key`; returns the number of its record.
    fn leave_lists(&mut self, key: &Key) -> Option<u64> {
        let (number, entries) = self.listed.remove(key)?;
        for ListEntry { list, part, at, group } in entries {
            if let Some(part) = self.lists.get_mut(&(list, part)) {
                part.remove(ListPosition { at, record: number }, group);
            }
        }
        Some(number)
    }

    /// Whether the text of `key` has what `query` wants.
    fn has_text(&self, key: &Key, query: &ListQuery) -> bool {
        let Some(wanted) = &query.text else { return true };
        let begins = |words: &BTreeSet<String>, wanted: &String| {
            words.range(wanted.clone()..).next().is_some_and(|word| word.starts_with(wanted))
        };
        let mut wanted = words(wanted).peekable();
        let text = self.texts.get(key).filter(|_| wanted.peek().is_some());
        text.is_some_and(|text| wanted.all(|wanted| begins(text, &wanted)))
    }

    /// Deletes log records of `filter` below `before`. Returns their number.
    pub fn trim(&mut self, filter: &Filter, before: Revision) -> u64 {
        let of_filter = self.by_filter.get(filter).into_iter().flat_map(|all| all.range(..before));
        let of_filter = of_filter.filter_map(|revision| self.records.get(revision));
        let is_log = |record: &&Record| {
            self.topics.get(record.key.topic()).is_some_and(|topic| topic.class == TopicClass::Log)
        };
        let old: Vec<Revision> = of_filter.filter(is_log).map(|record| record.revision).collect();
        for record in old.iter().filter_map(|revision| self.remove(*revision)).collect::<Vec<_>>() {
            if let Some(topic) = self.topics.get_mut(record.key.topic()) {
                topic.floor = topic.floor.max(record.revision);
            }
            match self.latest_revision(&record.key) {
                0 => drop(self.floors.remove(&record.key)),
                _ => drop(self.floors.insert(record.key, record.revision)),
            }
        }
        old.len() as u64
    }

    /// The lowest cursor of `filter` that misses no trimmed record.
    pub fn floor(&self, filter: &Filter) -> Revision {
        if let Filter::Exactly(key) = filter
            && self.by_filter.contains_key(filter)
        {
            return self.floors.get(key).copied().unwrap_or_default();
        }
        let touched = self.topics.iter().filter(|(name, _)| class::may_admit_topic(filter, name));
        touched.map(|(_, topic)| topic.floor).max().unwrap_or_default()
    }

    /// As [`Snapshot::read`], without an error.
    pub fn page(&self, filter: &Filter, after: Revision, limit: usize) -> Vec<Record> {
        let revisions = self.by_filter.get(filter).into_iter();
        let revisions = revisions.flat_map(|all| all.range((Excluded(after), Unbounded)));
        let records = revisions.filter_map(|revision| self.records.get(revision));
        counted(records.take(limit)).cloned().collect()
    }

    /// The entries of `query` in `part` between two positions, in the order of reading.
    fn rows(
        &self,
        query: &ListQuery,
        part: u8,
        (above, below): (ListPosition, ListPosition),
    ) -> impl Iterator<Item = (ListPosition, Key)> {
        let rows = self.lists.get(&(query.list.clone(), part)).and_then(|part| part.rows(query.group));
        let rows = rows.filter(|_| above < below);
        let mut rows = rows.map(|rows| rows.range((Excluded(above), Excluded(below))));
        let is_newest_first = query.order == ListOrder::NewestFirst;
        let rows = counted(std::iter::from_fn(move || match is_newest_first {
            true => rows.as_mut()?.next_back(),
            false => rows.as_mut()?.next(),
        }));
        rows.filter(|(_, key)| self.has_text(key, query)).map(|(position, key)| (*position, key.clone()))
    }
}

impl Snapshot for MemoryState {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        Ok(counted(self.records.get(&self.latest_revision(key)).into_iter()).next().cloned())
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        Ok(self.page(filter, after, limit.min(MAX_READ)))
    }

    fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
        let (limit, bounds) = (limit.min(MAX_READ), query.bounds());
        let found = query.parts.iter().flat_map(|part| self.rows(query, *part, bounds).take(limit));
        let page = query.first(found.collect(), limit).into_iter();
        Ok(page.map(|(position, key)| ListedKey { position, key }).collect())
    }

    fn count(&self, query: &ListQuery) -> Result<u64, Error> {
        let bounds = ListQuery { after: None, ..query.clone() }.bounds();
        Ok(query.parts.iter().map(|part| self.rows(query, *part, bounds).count() as u64).sum())
    }

    fn head(&self) -> Revision {
        self.revision
    }
}
