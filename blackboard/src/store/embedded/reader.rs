//! Reading: a few connections, none of which holds a snapshot longer than a page.

use super::super::follow::{Page, Pages};
use super::super::{Error, Filter, Key, Record, Revision, checksum, class::Class};
use super::ahead::{self, Ahead};
use super::presence::Presence;
use super::schema::{self, Topic, Topics};
use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, Rows, ToSql, params};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The most rows that one page looks at for each row that is asked for.
const EFFORT: usize = 16;

const LATEST_STATE: &str = "SELECT key, rev, value, crc FROM state WHERE key = ?";
const LATEST_LOG: &str = "SELECT key, rev, value, crc FROM log WHERE key = ? ORDER BY rev DESC LIMIT 1";
const LOG_OF_KEY: &str = "SELECT key, rev, value, crc FROM log WHERE key = ? AND rev > ? ORDER BY rev";
const LOG_OF_TOPIC: &str = "SELECT key, rev, value, crc FROM log WHERE topic = ? AND rev > ? ORDER BY rev";
const STATE_OF_KEY: &str = "SELECT key, rev, value, crc FROM state WHERE key = ? AND rev > ?";
const STATE_BELOW: &str =
    "SELECT key, rev, value, crc FROM state WHERE key > ?1 AND key < ?2 AND rev > ?3 ORDER BY rev LIMIT ?4";
const STATE_ONE: &str = "SELECT key, rev, value, crc FROM state
    WHERE key > ?1 AND key < ?2 AND rev > ?3 AND instr(substr(key, length(?1) + 1), '.') = 0 ORDER BY rev LIMIT ?4";
const STATE_AT: &str = "SELECT key, rev, value, crc FROM state WHERE id = ?1 AND rev = ?2";

/// What each of these asks for.
const RECORD: &str = "key, rev, value, crc";

/// What is wanted of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// All of it.
    Records,
    /// Where it stands and its key; its content stays empty.
    Keys,
}

impl Wanted {
    /// `sql`, which asks for all of a record, as it asks for what is wanted.
    fn of(self, sql: &str) -> Cow<'_, str> {
        match self {
            Self::Records => sql.into(),
            Self::Keys => sql.replacen(RECORD, "key, rev", 1).into(),
        }
    }

    /// What was asked for, of a row.
    fn record(self, row: &Row<'_>) -> Result<Record, Error> {
        match self {
            Self::Records => record(row),
            Self::Keys => {
                let read =
                    || -> rusqlite::Result<_> { Ok((row.get_ref(0)?.as_str()?, row.get::<_, i64>(1)?)) };
                let (key, revision) = read().map_err(|_| damaged(row))?;
                Ok(Record { revision: revision.unsigned_abs(), key: Key::stored(key), value: Bytes::new() })
            }
        }
    }
}

/// The most that one page holds.
#[derive(Debug, Clone, Copy)]
struct Most {
    records: usize,
    bytes: usize,
}

impl Most {
    const ANY: Self = Self { records: usize::MAX, bytes: usize::MAX };
}

/// The connections that read.
pub(super) struct Readers {
    dir: PathBuf,
    topics: Arc<Topics>,
    presence: Arc<Presence>,
    ahead: Ahead,
    idle: Mutex<Idle>,
    returned: Condvar,
}

struct Idle {
    connections: Vec<Connection>,
    /// How many more may be opened.
    spare: usize,
}

impl Readers {
    pub(super) fn new(dir: &Path, most: usize, topics: Arc<Topics>, presence: Arc<Presence>) -> Self {
        let idle = Mutex::new(Idle { connections: Vec::new(), spare: most.max(1) });
        let (dir, ahead) = (dir.to_owned(), Ahead::default());
        Self { dir, topics, presence, ahead, idle, returned: Condvar::new() }
    }

    /// Waits for a connection, does `read` with it, and gives it back; one that failed is not used again.
    fn with<T>(&self, what: &Key, read: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Error> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = loop {
            if let Some(connection) = idle.connections.pop() {
                break Some(connection);
            }
            if idle.spare > 0 {
                idle.spare -= 1;
                break None;
            }
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
        };
        drop(idle);
        let connection = taken.map_or_else(|| schema::reader(&self.dir), Ok);
        let (outcome, sound) = match connection {
            Err(error) => (Err(Failure::Sql(error)), None),
            Ok(connection) => match read(&connection) {
                Err(Failure::Sql(error)) => (Err(Failure::Sql(error)), None),
                outcome @ (Ok(_) | Err(Failure::Store(_))) => (outcome, Some(connection)),
            },
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match sound {
            Some(connection) => idle.connections.push(connection),
            None => idle.spare += 1,
        }
        drop(idle);
        self.returned.notify_one();
        outcome.map_err(|failure| match failure {
            Failure::Store(error) => error,
            Failure::Sql(error) => schema::unreadable(&error, what.as_str()),
        })
    }

    /// Closes the connections that nobody uses.
    pub(super) fn close(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.spare += idle.connections.len();
        idle.connections.clear();
    }

    pub(super) fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        let Some(topic) = self.topics.get(key.topic()) else { return Ok(None) };
        let sql = match topic.class {
            Class::Log => LATEST_LOG,
            Class::State if !self.presence.may_hold(key) => return Ok(None),
            Class::State => LATEST_STATE,
        };
        self.with(key, |on| {
            let found =
                on.prepare_cached(sql)?.query_row([key.as_str()], |row| Ok(record(row))).optional()?;
            Ok(found.transpose()?)
        })
    }

    pub(super) fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.pages(filter, after, limit, Wanted::Records)
    }

    /// Reads no content: not even the pages of the file that hold it.
    pub(super) fn keys(
        &self,
        filter: &Filter,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<(Revision, Key)>, Error> {
        let records = self.pages(filter, after, limit, Wanted::Keys)?;
        Ok(records.into_iter().map(|record| (record.revision, record.key)).collect())
    }

    fn pages(
        &self,
        filter: &Filter,
        after: Revision,
        limit: usize,
        wanted: Wanted,
    ) -> Result<Vec<Record>, Error> {
        let mut records = Vec::new();
        let mut from = after;
        while records.len() < limit {
            let page =
                self.look(filter, from, Most { records: limit - records.len(), ..Most::ANY }, wanted)?;
            records.extend(page.records);
            let Some(next) = page.next else { break };
            from = next;
        }
        Ok(records)
    }

    fn floor(&self, filter: &Filter, after: Revision) -> Result<Revision, Error> {
        let topics = self.topics.of(filter);
        let floor = topics.iter().map(|(_, topic)| topic.floor).max().unwrap_or_default();
        let Filter::Exactly(key) = filter else { return Ok(floor) };
        if after >= floor {
            return Ok(floor);
        }
        self.with(key, |on| {
            let there = on.prepare_cached(LATEST_LOG)?.exists([key.as_str()])?;
            if !there {
                return Ok(floor);
            }
            let own = on.prepare_cached("SELECT floor FROM floors WHERE key = ?")?;
            Ok(first(own, key)?.unwrap_or_default())
        })
    }
}

fn first(mut of: CachedStatement<'_>, key: &Key) -> rusqlite::Result<Option<Revision>> {
    of.query_row([key.as_str()], |row| row.get::<_, i64>(0))
        .optional()
        .map(|floor| floor.map(i64::unsigned_abs))
}

impl Readers {
    fn look(&self, filter: &Filter, after: Revision, most: Most, wanted: Wanted) -> Result<Page, Error> {
        let mut topics = self.topics.of(filter);
        // One look at the state brings what is there of all its topics.
        let mut looked = false;
        topics.retain(|(_, topic)| topic.class == Class::Log || !std::mem::replace(&mut looked, true));
        let Ok(from) = i64::try_from(after) else { return Ok(Page { records: Vec::new(), next: None }) };
        self.with(filter.key(), |on| {
            if let [(_, topic)] = &topics[..] {
                let is_one_key = matches!(filter, Filter::Exactly(_));
                return match topic.class {
                    Class::State if !is_one_key => self.of_state(on, filter, from, most, wanted),
                    Class::State | Class::Log => of_topic(on, filter, topic, from, most, wanted),
                };
            }
            // Several topics are one page only if they are seen at one moment.
            let snapshot = on.unchecked_transaction()?;
            let mut pages = Vec::new();
            for (_, topic) in &topics {
                pages.push(of_topic(on, filter, topic, from, most, wanted)?);
            }
            snapshot.commit()?;
            Ok(merge(pages, most.records))
        })
    }
}

impl Readers {
    /// A page of state alone. It brings what was there when a look found it and has not changed since; what has changed
    /// lies behind all that was found.
    fn of_state(
        &self,
        on: &Connection,
        filter: &Filter,
        after: i64,
        most: Most,
        wanted: Wanted,
    ) -> Result<Page, Failure> {
        let known = self.ahead.take(filter, after.unsigned_abs());
        let was_known = known.is_some();
        let mut places = known.map_or_else(|| ahead::look(on, filter, after), Ok)?;
        let mut may_be_more = was_known || places.len() >= ahead::MOST;
        let mut fetch = on.prepare_cached(&wanted.of(STATE_AT))?;
        let (mut records, mut size, mut reached) = (Vec::new(), 0, after);
        while records.len() < most.records && size < most.bytes {
            let Some((revision, id)) = places.pop_front() else { break };
            reached = revision;
            let found = fetch.query_row([id, revision], |row| Ok(wanted.record(row))).optional()?;
            match found.transpose()? {
                Some(record) => {
                    size += record.value.len();
                    records.push(record);
                }
                None => may_be_more = true,
            }
        }
        let reached = reached.unsigned_abs();
        let next = (may_be_more || !places.is_empty()).then_some(reached);
        self.ahead.keep(filter, reached, places);
        Ok(Page { records, next })
    }
}

impl Pages for Readers {
    fn page(&self, filter: &Filter, after: Revision, limit: usize, bytes: usize) -> Result<Page, Error> {
        self.look(filter, after, Most { records: limit, bytes }, Wanted::Records)
    }

    fn reaches(&self, filter: &Filter, after: Revision) -> Result<(), Error> {
        let floor = self.floor(filter, after)?;
        if after < floor { Err(Error::Trimmed { floor }) } else { Ok(()) }
    }
}

/// The pages of several topics as one, up to where all of them are complete.
fn merge(pages: Vec<Page>, limit: usize) -> Page {
    let mut next = pages.iter().filter_map(|page| page.next).min();
    let mut records: Vec<Record> = pages.into_iter().flat_map(|page| page.records).collect();
    records.sort_by_key(|record| record.revision);
    if let Some(end) = next {
        records.retain(|record| record.revision <= end);
    }
    if records.len() > limit {
        records.truncate(limit);
        next = records.last().map(|last| last.revision);
    }
    Page { records, next }
}

fn of_topic(
    on: &Connection,
    filter: &Filter,
    topic: &Topic,
    after: i64,
    most: Most,
    wanted: Wanted,
) -> Result<Page, Failure> {
    let name = filter.key().as_str();
    let (low, high) = ahead::below(filter);
    let rows = i64::try_from(most.records).unwrap_or(i64::MAX);
    let (sql, with): (_, &[&dyn ToSql]) = match (topic.class, filter) {
        (Class::Log, Filter::Exactly(_)) => (LOG_OF_KEY, params![name, after]),
        (Class::State, Filter::Exactly(_)) => (STATE_OF_KEY, params![name, after]),
        (Class::Log, Filter::One(_) | Filter::Below(_)) => (LOG_OF_TOPIC, params![topic.id, after]),
        (Class::State, Filter::One(_)) => (STATE_ONE, params![low, high, after, rows]),
        (Class::State, Filter::Below(_)) => (STATE_BELOW, params![low, high, after, rows]),
    };
    let mut statement = on.prepare_cached(&wanted.of(sql))?;
    gather(statement.query(with)?, filter, most, wanted)
}

fn gather(mut rows: Rows<'_>, filter: &Filter, most: Most, wanted: Wanted) -> Result<Page, Failure> {
    let mut records = Vec::new();
    let (mut looked_at, mut size) = (0, 0);
    while let Some(row) = rows.next()? {
        looked_at += 1;
        let key = row.get_ref(0)?.as_str().map_err(|_| damaged(row))?;
        let revision = row.get::<_, i64>(1)?.unsigned_abs();
        if filter.admits_text(key) {
            let record = wanted.record(row)?;
            size += record.value.len();
            records.push(record);
        }
        let is_full = records.len() >= most.records || size >= most.bytes;
        if is_full || looked_at >= most.records.saturating_mul(EFFORT) {
            return Ok(Page { records, next: Some(revision) });
        }
    }
    Ok(Page { records, next: None })
}

/// The record in a row of key, revision, value and checksum.
fn record(row: &Row<'_>) -> Result<Record, Error> {
    let read = || -> rusqlite::Result<(Key, Revision, Bytes, u32)> {
        let key = Key::stored(row.get_ref(0)?.as_str()?);
        let value = Bytes::copy_from_slice(row.get_ref(2)?.as_blob()?);
        Ok((key, row.get::<_, i64>(1)?.unsigned_abs(), value, row.get(3)?))
    };
    let (key, revision, value, crc) = read().map_err(|_| damaged(row))?;
    checksum::verified(key, revision, value, crc)
}

fn damaged(row: &Row<'_>) -> Error {
    let key = row.get_ref(0).ok().and_then(|key| key.as_bytes().ok()).unwrap_or_default();
    let revision = row.get::<_, i64>(1).unwrap_or_default().unsigned_abs();
    Error::Corrupt { revision, key: String::from_utf8_lossy(key).into_owned() }
}

/// Why reading did not work: the record, or the file.
enum Failure {
    Store(Error),
    Sql(rusqlite::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}
