//! Trims log records in small steps between groups, and records the floors.

use super::super::{Error, Filter, Key, Revision, class::TopicClass};
use super::schema::{self, TopicRow, Topics};
use rusqlite::{Connection, Statement, params};
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::oneshot;

/// The most records that one step reads.
const STEP: i64 = 500;

/// A trim in progress.
pub(super) struct TrimJob {
    filter: Filter,
    before: i64,
    done: oneshot::Sender<Result<u64, Error>>,
    /// Records deleted so far.
    pub(super) trimmed: u64,
    /// Topics still to be trimmed; `None` before the first step.
    left: Option<VecDeque<(String, TopicRow)>>,
    after: i64,
}

impl TrimJob {
    pub(super) fn new(filter: Filter, before: Revision, done: oneshot::Sender<Result<u64, Error>>) -> Self {
        let before = i64::try_from(before).unwrap_or(i64::MAX);
        Self { filter, before, done, trimmed: 0, left: None, after: 0 }
    }

    pub(super) fn end(self, outcome: Result<u64, Error>) {
        // The caller may have dropped the receiver.
        drop(self.done.send(outcome));
    }
}

/// The statements of trims.
pub(super) struct Trimmer<'c> {
    topics: &'c Topics,
    of_topic: Statement<'c>,
    of_key: Statement<'c>,
    delete: Statement<'c>,
    last_of_key: Statement<'c>,
    delete_of_key: Statement<'c>,
    left: Statement<'c>,
    raise_topic: Statement<'c>,
    raise_key: Statement<'c>,
    forget_key: Statement<'c>,
}

impl<'c> Trimmer<'c> {
    pub(super) fn new(on: &'c Connection, topics: &'c Topics) -> rusqlite::Result<Self> {
        Ok(Self {
            topics,
            of_topic: on.prepare(
                "SELECT rev, key FROM log WHERE topic = ?1 AND rev > ?2 AND rev < ?3 ORDER BY rev LIMIT ?4",
            )?,
            of_key: on.prepare(
                "SELECT rev, key FROM log WHERE key = ?1 AND rev > ?2 AND rev < ?3 ORDER BY rev LIMIT ?4",
            )?,
            delete: on.prepare("DELETE FROM log WHERE rev = ?")?,
            last_of_key: on.prepare("SELECT max(rev) FROM log WHERE key = ? AND rev < ?")?,
            delete_of_key: on.prepare("DELETE FROM log WHERE key = ? AND rev < ?")?,
            left: on.prepare("SELECT 1 FROM log WHERE key = ? LIMIT 1")?,
            raise_topic: on.prepare("UPDATE topics SET floor = ?, crc = ? WHERE id = ?")?,
            raise_key: on.prepare("REPLACE INTO floors (key, floor, crc) VALUES (?, ?, ?)")?,
            forget_key: on.prepare("DELETE FROM floors WHERE key = ?")?,
        })
    }

    /// Deletes some records within the open transaction. Returns true when the trim is complete.
    ///
    /// The topic's floor is raised in `topics` before the deletion is visible, so that every follower notices it.
    pub(super) fn step(&mut self, trim: &mut TrimJob) -> rusqlite::Result<bool> {
        let topics = self.topics;
        let of_log = || {
            topics.of(&trim.filter).into_iter().filter(|(_, topic)| topic.class == TopicClass::Log).collect()
        };
        let left = trim.left.get_or_insert_with(of_log);
        let Some((name, topic)) = left.front() else { return Ok(true) };
        let mut last = None;
        let mut read = 0;
        let mut keys: BTreeMap<Key, i64> = BTreeMap::new();
        {
            let mut rows = match &trim.filter {
                Filter::Exactly(key) => {
                    self.of_key.query(params![key.as_str(), trim.after, trim.before, STEP])?
                }
                Filter::One(_) | Filter::Below(_) => {
                    self.of_topic.query(params![topic.id, trim.after, trim.before, STEP])?
                }
            };
            while let Some(row) = rows.next()? {
                read += 1;
                trim.after = row.get(0)?;
                let key = Key::stored(row.get_ref(1)?.as_str()?);
                if trim.filter.admits(&key) {
                    self.delete.execute([trim.after])?;
                    trim.trimmed += 1;
                    last = Some(trim.after);
                    keys.insert(key, trim.after);
                }
            }
        }
        for (key, floor) in keys {
            self.raise_key_floor(&key, floor)?;
        }
        if let Some(floor) = last {
            raise_topic(&mut self.raise_topic, topics, (name, *topic), floor)?;
        }
        if read < STEP {
            left.pop_front();
            trim.after = 0;
        }
        Ok(left.is_empty())
    }

    /// Deletes the records of `key` below `before` within the open transaction; raises the floors as [`Self::step`] does.
    pub(super) fn trim_key(&mut self, key: &Key, topic: TopicRow, before: Revision) -> rusqlite::Result<()> {
        let (text, before) = (key.as_str(), i64::try_from(before).unwrap_or(i64::MAX));
        let last: Option<i64> = self.last_of_key.query_row(params![text, before], |row| row.get(0))?;
        let Some(floor) = last else { return Ok(()) };
        self.delete_of_key.execute(params![text, before])?;
        self.raise_key_floor(key, floor)?;
        raise_topic(&mut self.raise_topic, self.topics, (key.topic(), topic), floor)
    }

    fn raise_key_floor(&mut self, key: &Key, floor: i64) -> rusqlite::Result<()> {
        if self.left.exists([key.as_str()])? {
            self.raise_key.execute(params![
                key.as_str(),
                floor,
                schema::floor_crc(key.as_str(), floor.unsigned_abs())
            ])?;
        } else {
            self.forget_key.execute([key.as_str()])?;
        }
        Ok(())
    }
}

/// Raises the floor of a topic in the file and in `topics`, where one that was added within the open transaction is not yet; a
/// lower floor changes nothing.
fn raise_topic(
    update: &mut Statement<'_>,
    topics: &Topics,
    (name, topic): (&str, TopicRow),
    floor: i64,
) -> rusqlite::Result<()> {
    let topic = topics.get(name).unwrap_or(topic);
    let raised = TopicRow { floor: topic.floor.max(floor.unsigned_abs()), ..topic };
    update.execute(params![raised.floor, raised.crc(name), raised.id])?;
    topics.raise(name, raised.floor);
    Ok(())
}
