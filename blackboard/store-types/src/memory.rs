//! The reference store as plain data, with synchronous commits. Backends are tested against it.

use crate::{
    Batch, Error, Filter, Key, ListEntry, ListPosition, ListQuery, ListedKey, MAX_READ, Record, Revision,
    Snapshot, Write,
    class::{self, TopicClass},
    list::words,
};
use std::collections::{BTreeMap, BTreeSet};

/// A store in memory. A clone is an independent copy.
#[derive(Debug, Clone, Default)]
pub struct MemoryState {
    revision: Revision,
    topics: BTreeMap<String, TopicRecords>,
    keys: BTreeMap<Key, BTreeSet<Revision>>,
    /// Per key, the highest revision that was trimmed.
    floors: BTreeMap<Key, Revision>,
    lists: BTreeMap<(Key, u8), BTreeMap<ListPosition, (Key, u64)>>,
    /// Per state key with a text, its words.
    texts: BTreeMap<Key, BTreeSet<String>>,
    /// Per listed state key, the number of its record and its entries.
    listed: BTreeMap<Key, (u64, Vec<ListEntry>)>,
}

#[derive(Debug, Clone)]
struct TopicRecords {
    class: TopicClass,
    records: BTreeMap<Revision, Record>,
    floor: Revision,
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
        self.keys.get(key).and_then(BTreeSet::last).copied().unwrap_or_default()
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
        let topic = self.topics.entry(write.key().topic().to_owned());
        let topic = topic.or_insert_with(|| TopicRecords { class, records: BTreeMap::new(), floor: 0 });
        if class == TopicClass::State
            && let Some(old) = self.keys.remove(write.key())
        {
            old.iter().for_each(|revision| drop(topic.records.remove(revision)));
        }
        let record =
            write.value().map(|value| Record { revision, key: write.key().clone(), value: value.clone() });
        if let Some(record) = &record {
            topic.records.insert(revision, record.clone());
            self.keys.entry(record.key.clone()).or_default().insert(revision);
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

    /// Replaces the list entries of `key`.
    fn enter(&mut self, key: Key, entries: Vec<ListEntry>) {
        let number = self.leave_lists(&key).unwrap_or(self.revision);
        for ListEntry { list, part, at, group } in &entries {
            let entries = self.lists.entry((list.clone(), *part)).or_default();
            entries.insert(ListPosition { at: *at, record: number }, (key.clone(), *group));
        }
        self.listed.insert(key, (number, entries));
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

    /// Removes the list entries of `key`; returns the number of its record.
    fn leave_lists(&mut self, key: &Key) -> Option<u64> {
        let (number, entries) = self.listed.remove(key)?;
        for ListEntry { list, part, at, .. } in entries {
            if let Some(entries) = self.lists.get_mut(&(list, part)) {
                entries.remove(&ListPosition { at, record: number });
            }
        }
        Some(number)
    }

    /// Deletes log records of `filter` below `before`. Returns their number.
    pub fn trim(&mut self, filter: &Filter, before: Revision) -> u64 {
        let mut trimmed = 0;
        for (name, topic) in &mut self.topics {
            if topic.class == TopicClass::State || !class::may_admit_topic(filter, name) {
                continue;
            }
            let old: Vec<(Revision, Key)> = match filter {
                Filter::Exactly(key) => {
                    let revisions = self.keys.get(key).into_iter().flat_map(|all| all.range(..before));
                    revisions.map(|revision| (*revision, key.clone())).collect()
                }
                Filter::One(_) | Filter::Below(_) => topic
                    .records
                    .range(..before)
                    .filter(|(_, record)| filter.admits(&record.key))
                    .map(|(revision, record)| (*revision, record.key.clone()))
                    .collect(),
            };
            trimmed += old.len() as u64;
            for (revision, key) in old {
                topic.records.remove(&revision);
                topic.floor = topic.floor.max(revision);
                let has_records = self.keys.get_mut(&key).is_some_and(|revisions| {
                    revisions.remove(&revision);
                    !revisions.is_empty()
                });
                if has_records {
                    self.floors.insert(key, revision);
                } else {
                    self.keys.remove(&key);
                    self.floors.remove(&key);
                }
            }
        }
        trimmed
    }

    /// The lowest cursor of `filter` that misses no trimmed record.
    pub fn floor(&self, filter: &Filter) -> Revision {
        if let Filter::Exactly(key) = filter
            && self.keys.contains_key(key)
        {
            return self.floors.get(key).copied().unwrap_or_default();
        }
        let touched = self.topics.iter().filter(|(name, _)| class::may_admit_topic(filter, name));
        touched.map(|(_, topic)| topic.floor).max().unwrap_or_default()
    }

    /// As [`Snapshot::read`], without an error.
    pub fn page(&self, filter: &Filter, after: Revision, limit: usize) -> Vec<Record> {
        let above = after.saturating_add(1)..;
        if let Filter::Exactly(key) = filter {
            let Some(topic) = self.topics.get(key.topic()) else { return Vec::new() };
            let revisions =
                self.keys.get(key).into_iter().flat_map(|revisions| revisions.range(above.clone()));
            return revisions
                .filter_map(|revision| topic.records.get(revision))
                .take(limit)
                .cloned()
                .collect();
        }
        let mut found = Vec::new();
        for (_, topic) in self.topics.iter().filter(|(name, _)| class::may_admit_topic(filter, name)) {
            let admitted =
                topic.records.range(above.clone()).filter(|(_, record)| filter.admits(&record.key));
            found.extend(admitted.take(limit).map(|(_, record)| record.clone()));
        }
        found.sort_by_key(|record| record.revision);
        found.truncate(limit);
        found
    }
}

impl Snapshot for MemoryState {
    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        let topic = self.topics.get(key.topic());
        Ok(topic.and_then(|topic| topic.records.get(&self.latest_revision(key))).cloned())
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        Ok(self.page(filter, after, limit.min(MAX_READ)))
    }

    fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
        let (above, below) = query.bounds();
        let mut found = Vec::new();
        for part in &query.parts {
            let entries = self.lists.get(&(query.list.clone(), *part)).into_iter().flatten();
            let entries = entries.filter(|(at, _)| above < **at && **at < below);
            let entries = entries.filter(|(at, (_, group))| query.admits(at.at, *group));
            let entries = entries.filter(|(_, (key, _))| self.has_text(key, query));
            found.extend(entries.map(|(at, (key, _))| (*at, key.clone())));
        }
        let page = query.first(found, limit.min(MAX_READ)).into_iter();
        Ok(page.map(|(position, key)| ListedKey { position, key }).collect())
    }

    fn count(&self, query: &ListQuery) -> Result<u64, Error> {
        let parts =
            query.parts.iter().filter_map(|part| self.lists.get(&(query.list.clone(), *part))).flatten();
        let admitted = parts.filter(|(at, (_, group))| query.admits(at.at, *group));
        Ok(admitted.filter(|(_, (key, _))| self.has_text(key, query)).count() as u64)
    }

    fn head(&self) -> Revision {
        self.revision
    }
}
