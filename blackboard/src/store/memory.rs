//! The reference backend: everything in memory, gone with the process.

use super::class::{self, Class};
use super::follow::{self, Page, Pages};
use super::tail::Tail;
use super::{Batch, Error, Filter, Key, Lane, Pending, Record, Revision, Shared, Store, Watch, Write};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A new, empty store.
pub fn new() -> Shared {
    let tail = Arc::new(Tail::new(0));
    Arc::new(Memory { tail, kept: Arc::default(), generation: uuid::Uuid::now_v7().simple().to_string() })
}

struct Memory {
    tail: Arc<Tail>,
    kept: Arc<Shelf>,
    generation: String,
}

#[derive(Default)]
struct Shelf(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    revision: Revision,
    topics: BTreeMap<String, Topic>,
    keys: Keys,
    /// Of a key or a topic: the highest revision that was trimmed from it.
    floors: HashMap<Key, Revision>,
}

/// What is known of each key, in many small tables: one that grows moves all it holds, and whoever commits then would
/// wait for that.
struct Keys {
    tables: Box<[Table]>,
    which: RandomState,
}

type Table = HashMap<Key, Revisions, RandomState>;

/// A million keys move four thousand at a time, in a fraction of a millisecond.
const TABLES: usize = 256;

impl Default for Keys {
    fn default() -> Self {
        Self { tables: (0..TABLES).map(|_| Table::default()).collect(), which: RandomState::default() }
    }
}

impl Keys {
    fn index(&self, key: &Key) -> usize {
        (self.which.hash_one(key) % TABLES as u64) as usize
    }

    fn of(&mut self, key: &Key) -> &mut Table {
        let index = self.index(key);
        &mut self.tables[index]
    }

    fn get(&self, key: &Key) -> Option<&Revisions> {
        self.tables[self.index(key)].get(key)
    }
}

/// Where a key's records stand: most keys have one.
enum Revisions {
    One(Revision),
    Many(BTreeSet<Revision>),
}

impl Revisions {
    fn last(&self) -> Option<Revision> {
        match self {
            Self::One(revision) => Some(*revision),
            Self::Many(revisions) => revisions.last().copied(),
        }
    }

    fn add(&mut self, revision: Revision) {
        match self {
            Self::One(first) => *self = Self::Many([*first, revision].into()),
            Self::Many(revisions) => drop(revisions.insert(revision)),
        }
    }

    /// Whether any are left.
    fn remove(&mut self, revision: Revision) -> bool {
        match self {
            Self::One(only) => *only != revision,
            Self::Many(revisions) => {
                revisions.remove(&revision);
                !revisions.is_empty()
            }
        }
    }

    fn above(&self, after: Revision) -> impl Iterator<Item = Revision> + '_ {
        let (one, many) = match self {
            Self::One(revision) => (Some(*revision).filter(|revision| *revision > after), None),
            Self::Many(revisions) => (None, Some(revisions.range(after.saturating_add(1)..).copied())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

struct Topic {
    class: Class,
    records: BTreeMap<Revision, Record>,
    floor: Revision,
}

impl Shelf {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn actual(&self, key: &Key) -> Revision {
        self.keys.get(key).and_then(Revisions::last).unwrap_or_default()
    }

    fn latest(&self, key: &Key) -> Option<&Record> {
        self.topics.get(key.topic())?.records.get(&self.actual(key))
    }

    fn check(&self, batch: &Batch) -> Result<(), Error> {
        class::check(batch)?;
        for write in &batch.writes {
            let class = Class::of(write);
            if self.topics.get(write.key().topic()).is_some_and(|topic| topic.class != class) {
                return Err(class.refusal(write.key()));
            }
        }
        batch.expectations.iter().try_for_each(|expected| expected.check(self.actual(expected.key())))
    }

    fn write(&mut self, write: Write) -> (Revision, Option<Record>) {
        self.revision += 1;
        let revision = self.revision;
        let class = Class::of(&write);
        let (key, value) = match write {
            Write::Append(key, value) | Write::Put(key, value) => (key, Some(value)),
            Write::Delete(key) => (key, None),
        };
        if !self.topics.contains_key(key.topic()) {
            let topic = Topic { class, records: BTreeMap::new(), floor: 0 };
            self.topics.insert(key.topic().to_owned(), topic);
        }
        let record = value.map(|value| Record { revision, key: key.clone(), value });
        let Some(topic) = self.topics.get_mut(key.topic()) else { return (revision, record) };
        let known = self.keys.of(&key);
        let before = match (class, &record) {
            (Class::State, Some(_)) => known.insert(key, Revisions::One(revision)),
            (Class::State, None) => known.remove(&key),
            (Class::Log, _) => {
                let one = || Revisions::One(revision);
                known.entry(key).and_modify(|known| known.add(revision)).or_insert_with(one);
                None
            }
        };
        if let Some(old) = before.as_ref().and_then(Revisions::last) {
            topic.records.remove(&old);
        }
        if let Some(record) = &record {
            topic.records.insert(revision, record.clone());
        }
        (revision, record)
    }

    fn trim(&mut self, filter: &Filter, before: Revision) -> u64 {
        let mut trimmed = 0;
        for (name, topic) in &mut self.topics {
            if topic.class == Class::State || !class::touches(filter, name) {
                continue;
            }
            let old: Vec<(Revision, Key)> = topic
                .records
                .range(..before)
                .filter(|(_, record)| filter.admits(&record.key))
                .map(|(revision, record)| (*revision, record.key.clone()))
                .collect();
            trimmed += old.len() as u64;
            for (revision, key) in old {
                topic.records.remove(&revision);
                topic.floor = topic.floor.max(revision);
                let known = self.keys.of(&key);
                let left = known.get_mut(&key).is_some_and(|revisions| revisions.remove(revision));
                if left {
                    self.floors.insert(key, revision);
                } else {
                    known.remove(&key);
                    self.floors.remove(&key);
                }
            }
        }
        trimmed
    }

    fn floor(&self, filter: &Filter) -> Revision {
        if let Filter::Exactly(key) = filter
            && self.keys.get(key).is_some()
        {
            return self.floors.get(key).copied().unwrap_or_default();
        }
        let touched = self.topics.iter().filter(|(name, _)| class::touches(filter, name));
        touched.map(|(_, topic)| topic.floor).max().unwrap_or_default()
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Vec<Record> {
        let above = after.saturating_add(1)..;
        if let Filter::Exactly(key) = filter {
            let Some(topic) = self.topics.get(key.topic()) else { return Vec::new() };
            let revisions = self.keys.get(key).into_iter().flat_map(|revisions| revisions.above(after));
            return revisions
                .filter_map(|revision| topic.records.get(&revision))
                .take(limit)
                .cloned()
                .collect();
        }
        let mut found = Vec::new();
        for (_, topic) in self.topics.iter().filter(|(name, _)| class::touches(filter, name)) {
            let admitted =
                topic.records.range(above.clone()).filter(|(_, record)| filter.admits(&record.key));
            found.extend(admitted.take(limit).map(|(_, record)| record.clone()));
        }
        found.sort_by_key(|record| record.revision);
        found.truncate(limit);
        found
    }
}

impl Pages for Shelf {
    fn page(&self, filter: &Filter, after: Revision, limit: usize, _bytes: usize) -> Result<Page, Error> {
        let records = self.kept().read(filter, after, limit);
        let next = records.get(limit.max(1) - 1).map(|last| last.revision);
        Ok(Page { records, next })
    }

    fn reaches(&self, filter: &Filter, after: Revision) -> Result<(), Error> {
        let floor = self.kept().floor(filter);
        if after < floor { Err(Error::Trimmed { floor }) } else { Ok(()) }
    }
}

impl Store for Memory {
    fn commit(&self, _lane: Lane, batch: Batch) -> Pending<Vec<Revision>> {
        let mut kept = self.kept.kept();
        let outcome = kept.check(&batch).map(|()| {
            let written: Vec<_> = batch.writes.into_iter().map(|write| kept.write(write)).collect();
            let revisions = written.iter().map(|(revision, _)| *revision).collect();
            let records = written.iter().filter_map(|(_, record)| record.as_ref());
            self.tail
                .publish(kept.revision, records.map(|record| (record.revision, &record.key, &record.value)));
            revisions
        });
        Box::pin(std::future::ready(outcome))
    }

    fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        Ok(self.kept.kept().latest(key).cloned())
    }

    fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        Ok(self.kept.kept().read(filter, after, limit.min(super::MOST_READ)))
    }

    fn head(&self) -> Revision {
        self.tail.head()
    }

    fn generation(&self) -> String {
        self.generation.clone()
    }

    fn watch(&self, filter: Filter, after: Revision) -> Result<Watch, Error> {
        follow::watch(self.kept.clone(), self.tail.clone(), filter, after)
    }

    fn trim(&self, filter: Filter, before: Revision) -> Pending<u64> {
        Box::pin(std::future::ready(Ok(self.kept.kept().trim(&filter, before))))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.tail.close("it was closed");
    }
}

#[cfg(test)]
mod tests {
    super::super::conformance::suite!(((), super::new()));
}
