//! The writer's transaction: applies batches with prepared statements.

use super::super::{Batch, Error, Expectation, Key, ListEntry, Revision, Write, checksum, class::TopicClass};
use super::conditional_writes::ConditionalWrites;
use super::list_entries::{ListIndex, encode, has_text};
use super::schema::{self, StoreFile, TopicRow};
use super::trim::Trimmer;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Statement, params};
use std::collections::HashMap;

/// The outcome of a batch, or the failure of the transaction.
pub(super) type ApplyResult = rusqlite::Result<Result<Vec<Revision>, Error>>;

/// The writer's statements, and the changes of the open transaction.
pub(super) struct Transaction<'c> {
    connection: &'c Connection,
    lists: ListIndex<'c>,
    begin: Statement<'c>,
    commit: Statement<'c>,
    rollback: Statement<'c>,
    append: Statement<'c>,
    put: Statement<'c>,
    insert: Statement<'c>,
    update: Statement<'c>,
    find: Statement<'c>,
    relist: Statement<'c>,
    delete: Statement<'c>,
    state: Statement<'c>,
    log: Statement<'c>,
    topic: Statement<'c>,
    meta: Statement<'c>,
    generation: String,
    /// The last revision assigned.
    pub(super) revision: Revision,
    durable_revision: Revision,
    topics: HashMap<String, TopicRow>,
    new_topics: Vec<String>,
}

impl<'c> Transaction<'c> {
    pub(super) fn new(
        StoreFile { connection: on, revision, generation, topics }: &'c StoreFile,
    ) -> rusqlite::Result<Self> {
        let revision = *revision;
        Ok(Self {
            connection: on,
            generation: generation.clone(),
            lists: ListIndex::new(on)?,
            begin: on.prepare("BEGIN IMMEDIATE")?,
            commit: on.prepare("COMMIT")?,
            rollback: on.prepare("ROLLBACK")?,
            append: on.prepare("INSERT INTO log (rev, topic, key, value, crc) VALUES (?, ?, ?, ?, ?)")?,
            put: on.prepare(
                "INSERT INTO state (key, rev, value, crc) VALUES (?, ?, ?, ?)
                 ON CONFLICT DO UPDATE SET rev = excluded.rev, value = excluded.value, crc = excluded.crc",
            )?,
            insert: on.prepare(
                "INSERT INTO state (key, rev, value, crc, entries) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            )?,
            update: on.prepare("UPDATE state SET rev = ?, value = ?, crc = ? WHERE key = ? AND rev = ?")?,
            find: on.prepare("SELECT id, entries FROM state WHERE key = ?")?,
            relist: on.prepare("UPDATE state SET rev = ?, value = ?, crc = ?, entries = ? WHERE id = ?")?,
            delete: on.prepare("DELETE FROM state WHERE key = ? RETURNING id, entries")?,
            state: on.prepare("SELECT rev FROM state WHERE key = ?")?,
            log: on.prepare("SELECT rev FROM log WHERE key = ? ORDER BY rev DESC LIMIT 1")?,
            topic: on.prepare("INSERT INTO topics (id, name, class, floor, crc) VALUES (?, ?, ?, 0, ?)")?,
            meta: on.prepare("UPDATE meta SET revision = ?, crc = ?")?,
            revision,
            durable_revision: revision,
            topics: topics.iter().map(|(name, topic)| (name.clone(), *topic)).collect(),
            new_topics: Vec::new(),
        })
    }

    pub(super) fn begin(&mut self) -> rusqlite::Result<()> {
        self.begin.execute([]).map(drop)
    }

    /// Commits; returns the new topics.
    pub(super) fn commit(&mut self) -> rusqlite::Result<Vec<(String, TopicRow)>> {
        if self.revision != self.durable_revision {
            let crc = schema::meta_crc(self.revision, &self.generation);
            self.meta.execute(params![self.revision, crc])?;
        }
        self.commit.execute([])?;
        self.durable_revision = self.revision;
        let new_topics = std::mem::take(&mut self.new_topics);
        Ok(new_topics
            .into_iter()
            .filter_map(|name| self.topics.get(&name).map(|topic| (name.clone(), *topic)))
            .collect())
    }

    /// Undoes everything since `begin`.
    pub(super) fn rollback(&mut self) {
        // After some errors SQLite has rolled back already; this then fails without effect.
        drop(self.rollback.execute([]));
        self.revision = self.durable_revision;
        for name in self.new_topics.drain(..) {
            self.topics.remove(&name);
        }
    }

    /// Checks and writes `batch`. Every check runs before the first write, or is the condition of a write that can be
    /// undone exactly.
    pub(super) fn apply(&mut self, batch: &Batch, trimmer: &mut Trimmer<'_>) -> ApplyResult {
        for write in &batch.writes {
            let class = TopicClass::of(write);
            if self.topics.get(write.key().topic()).is_some_and(|topic| topic.class != class) {
                return Ok(Err(class.refusal(write.key())));
            }
        }
        let conditional = ConditionalWrites::of(batch, &self.topics);
        for (at, expectation) in batch.expectations.iter().enumerate() {
            if !conditional.covers_expectation(at)
                && let Err(conflict) = expectation.check(self.latest_revision(expectation.key())?)
            {
                return Ok(Err(conflict));
            }
        }
        if let Some(conflicting) = self.apply_conditional(batch, &conditional)? {
            let actual = self.latest_revision(conflicting.key())?;
            return Ok(conflicting.check(actual).map(|()| Vec::new()));
        }
        let first = self.revision + 1;
        for (write, revision) in batch.writes.iter().zip(first..) {
            if !conditional.covers_write(revision - first) {
                self.write(write, revision, trimmer)?;
            }
            self.revision = revision;
        }
        Ok(Ok((first..=self.revision).collect()))
    }

    /// Performs the conditional writes. If an expectation does not hold, undoes them and returns it.
    fn apply_conditional<'b>(
        &mut self,
        batch: &'b Batch,
        writes: &ConditionalWrites,
    ) -> rusqlite::Result<Option<&'b Expectation>> {
        for (done, (expectation, write)) in writes.0.iter().enumerate() {
            let (Some(expectation), Some(write_of_pair)) =
                (batch.expectations.get(*expectation), batch.writes.get(*write))
            else {
                continue;
            };
            let (Write::Put(key, value) | Write::PutListed(key, value, _)) = write_of_pair else { continue };
            let revision = self.revision + 1 + *write as Revision;
            let has_changed = match expectation {
                Expectation::Absent(_) => {
                    self.insert(key, revision, value, encode(key, write_of_pair.entries(), false).as_deref())?
                }
                Expectation::At(_, at) => {
                    let (text, crc) = (key.as_str(), checksum::crc_of(key.as_str(), revision, value));
                    self.update.execute(params![revision, &value[..], crc, text, at])? > 0
                }
            };
            if !has_changed {
                for (_, inserted) in writes.0.iter().take(done) {
                    if let Some(write) = batch.writes.get(*inserted) {
                        self.delete(write.key())?;
                    }
                }
                return Ok(Some(expectation));
            }
        }
        Ok(None)
    }

    fn latest_revision(&mut self, key: &Key) -> rusqlite::Result<Revision> {
        let Some(topic) = self.topics.get(key.topic()) else { return Ok(0) };
        let statement = match topic.class {
            TopicClass::Log => &mut self.log,
            TopicClass::State => &mut self.state,
        };
        Ok(statement.query_row([key.as_str()], |row| row.get(0)).optional()?.unwrap_or_default())
    }

    fn write(
        &mut self,
        write: &Write,
        revision: Revision,
        trimmer: &mut Trimmer<'_>,
    ) -> rusqlite::Result<()> {
        let topic = self.topic(write.key(), TopicClass::of(write))?;
        match write {
            Write::Append(key, value) => {
                let (key, crc) = (key.as_str(), checksum::crc_of(key.as_str(), revision, value));
                self.append.execute(params![revision, topic.id, key, &value[..], crc])?;
            }
            Write::Put(key, value) => {
                let (key, crc) = (key.as_str(), checksum::crc_of(key.as_str(), revision, value));
                self.put.execute(params![key, revision, &value[..], crc])?;
            }
            Write::PutListed(key, value, entries) => {
                self.put_listed(key, revision, value, entries, None)?;
            }
            Write::PutIndexed(key, value, entries, text) => {
                self.put_listed(key, revision, value, entries, Some(text))?;
            }
            Write::Delete(key) => self.delete(key)?,
            Write::Trim(key, before) => trimmer.trim_key(key, topic, *before)?,
        }
        Ok(())
    }

    /// Inserts a state record and its encoded list entries; returns false if the key has a record.
    fn insert(
        &mut self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
        entries: Option<&[u8]>,
    ) -> rusqlite::Result<bool> {
        let (text, crc) = (key.as_str(), checksum::crc_of(key.as_str(), revision, value));
        let is_inserted = self.insert.execute(params![text, revision, &value[..], crc, entries])? > 0;
        if is_inserted {
            self.lists.enter(entries.unwrap_or_default(), self.connection.last_insert_rowid())?;
        }
        Ok(is_inserted)
    }

    fn put_listed(
        &mut self,
        key: &Key,
        revision: Revision,
        value: &Bytes,
        entries: &[ListEntry],
        text: Option<&str>,
    ) -> rusqlite::Result<()> {
        let encoded = encode(key, entries, text.is_some());
        if self.insert(key, revision, value, encoded.as_deref())? {
            let id = self.connection.last_insert_rowid();
            return text.map_or(Ok(()), |text| self.lists.set_text(text, id));
        }
        let (id, old): (i64, Option<Vec<u8>>) =
            self.find.query_row([key.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let keeps_text = old.as_deref().is_some_and(has_text) && text.is_none();
        let encoded = if keeps_text { encode(key, entries, true) } else { encoded };
        let crc = checksum::crc_of(key.as_str(), revision, value);
        self.relist.execute(params![revision, &value[..], crc, encoded, id])?;
        if old != encoded {
            self.lists.leave(old.as_deref().unwrap_or_default(), id)?;
            self.lists.enter(encoded.as_deref().unwrap_or_default(), id)?;
        }
        text.map_or(Ok(()), |text| self.lists.set_text(text, id))
    }

    /// Deletes a state record, its list entries and its text.
    fn delete(&mut self, key: &Key) -> rusqlite::Result<()> {
        let deleted: Option<(i64, Option<Vec<u8>>)> =
            self.delete.query_row([key.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match deleted {
            Some((id, Some(entries))) => {
                if has_text(&entries) {
                    self.lists.remove_text(id)?;
                }
                self.lists.leave(&entries, id)
            }
            Some((_, None)) | None => Ok(()),
        }
    }

    fn topic(&mut self, key: &Key, class: TopicClass) -> rusqlite::Result<TopicRow> {
        let name = key.topic();
        if let Some(topic) = self.topics.get(name) {
            return Ok(*topic);
        }
        let id = self.topics.values().map(|topic| topic.id).max().unwrap_or_default() + 1;
        let topic = TopicRow { id, class, floor: 0 };
        self.topic.execute(params![id, name, topic.class_number(), topic.crc(name)])?;
        self.topics.insert(name.to_owned(), topic);
        self.new_topics.push(name.to_owned());
        Ok(topic)
    }
}
