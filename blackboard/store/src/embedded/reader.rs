//! Reads: a pool of connections, each with a read transaction of at most one page.

use super::super::follower::{LogPage, PageSource};
use super::super::{Error, Filter, Key, ListQuery, ListedKey, Record, Revision, checksum, class::TopicClass};
use super::found_damage::FoundDamage;
use super::list_entries;
use super::row_positions::{self, PositionCache};
use super::schema::{self, TopicRow, Topics};
use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, Rows, ToSql, params};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The most rows scanned per requested record of a page.
const MAX_SCANNED_PER_RECORD: usize = 16;

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
const LOG_AT: &str = "SELECT key, rev, value, crc FROM log WHERE rev = ?1 AND rev = ?2";

/// The columns of these queries.
const RECORD_COLUMNS: &str = "key, rev, value, crc";

/// The part of each record that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Projection {
    Record,
    /// Revision and key; the value stays empty.
    Key,
}

impl Projection {
    /// `sql`, a query of [`RECORD_COLUMNS`], with the columns of this projection.
    fn of(self, sql: &str) -> Cow<'_, str> {
        match self {
            Self::Record => sql.into(),
            Self::Key => sql.replacen(RECORD_COLUMNS, "key, rev", 1).into(),
        }
    }

    /// The record of a row, as far as it was read.
    fn record(self, row: &Row<'_>) -> Result<Record, Error> {
        match self {
            Self::Record => record(row),
            Self::Key => {
                let read =
                    || -> rusqlite::Result<_> { Ok((row.get_ref(0)?.as_str()?, row.get::<_, i64>(1)?)) };
                let (key, revision) = read().map_err(|_| corrupt_row(row))?;
                Ok(Record { revision: revision.unsigned_abs(), key: Key::stored(key), value: Bytes::new() })
            }
        }
    }
}

/// The limits of one page, and what it reads.
#[derive(Debug, Clone, Copy)]
struct PageRequest {
    max_records: usize,
    max_bytes: usize,
    projection: Projection,
}

/// A pool of read connections.
pub(super) struct ReaderPool {
    dir: PathBuf,
    topics: Arc<Topics>,
    positions: PositionCache,
    damage: Arc<FoundDamage>,
    idle: Mutex<IdleConnections>,
    returned: Condvar,
}

struct IdleConnections {
    connections: Vec<Connection>,
    /// Connections that may still be opened.
    spare: usize,
}

impl ReaderPool {
    pub(super) fn new(dir: &Path, size: usize, topics: Arc<Topics>, damage: Arc<FoundDamage>) -> Self {
        let idle = Mutex::new(IdleConnections { connections: Vec::new(), spare: size.max(1) });
        let (dir, positions) = (dir.to_owned(), PositionCache::default());
        Self { dir, topics, positions, damage, idle, returned: Condvar::new() }
    }

    /// Waits for a connection and runs `read` with it. A connection that failed is closed.
    fn with<T>(&self, what: &Key, read: impl FnOnce(&Connection) -> ReadResult<T>) -> Result<T, Error> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle_connection = loop {
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
        let connection = idle_connection.map_or_else(|| schema::reader(&self.dir), Ok);
        let (outcome, reusable) = match connection {
            Err(error) => (Err(ReadFailure::Sql(error)), None),
            Ok(connection) => match read(&connection) {
                Err(ReadFailure::Sql(error)) => (Err(ReadFailure::Sql(error)), None),
                outcome @ (Ok(_) | Err(ReadFailure::Store(_))) => (outcome, Some(connection)),
            },
        };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match reusable {
            Some(connection) => idle.connections.push(connection),
            None => idle.spare += 1,
        }
        drop(idle);
        self.returned.notify_one();
        outcome.map_err(|failure| {
            let error = match failure {
                ReadFailure::Store(error) => error,
                ReadFailure::Sql(error) => schema::read_error(&error, what.as_str()),
            };
            self.damage.note(&error);
            error
        })
    }

    /// Closes the idle connections.
    pub(super) fn close(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.spare += idle.connections.len();
        idle.connections.clear();
    }

    pub(super) fn latest(&self, key: &Key) -> Result<Option<Record>, Error> {
        let Some(topic) = self.topics.get(key.topic()) else { return Ok(None) };
        let sql = match topic.class {
            TopicClass::Log => LATEST_LOG,
            TopicClass::State => LATEST_STATE,
        };
        self.with(key, |on| {
            let row = on.prepare_cached(sql)?.query_row([key.as_str()], |row| Ok(record(row)));
            Ok(row.optional()?.transpose()?)
        })
    }

    pub(super) fn read(&self, filter: &Filter, after: Revision, limit: usize) -> Result<Vec<Record>, Error> {
        self.read_pages(filter, after, limit, Projection::Record)
    }

    /// Does not read the pages of the file that hold values.
    pub(super) fn keys(
        &self,
        filter: &Filter,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<(Revision, Key)>, Error> {
        let records = self.read_pages(filter, after, limit, Projection::Key)?;
        Ok(records.into_iter().map(|record| (record.revision, record.key)).collect())
    }

    pub(super) fn list(&self, query: &ListQuery, limit: usize) -> Result<Vec<ListedKey>, Error> {
        self.with(&query.list, |on| Ok(list_entries::page(on, query, limit)??))
    }

    pub(super) fn count(&self, query: &ListQuery) -> Result<u64, Error> {
        self.with(&query.list, |on| Ok(list_entries::count(on, query)?))
    }

    fn read_pages(
        &self,
        filter: &Filter,
        after: Revision,
        limit: usize,
        projection: Projection,
    ) -> Result<Vec<Record>, Error> {
        let mut records = Vec::new();
        let mut from = after;
        while records.len() < limit {
            let max_records = limit - records.len();
            let page =
                self.page_of(filter, from, PageRequest { max_records, max_bytes: usize::MAX, projection })?;
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
            if !on.prepare_cached(LATEST_LOG)?.exists([key.as_str()])? {
                return Ok(floor);
            }
            let query = on.prepare_cached("SELECT floor, crc FROM floors WHERE key = ?")?;
            key_floor(query, key)
        })
    }
}

/// The floor of one key, 0 if it has none.
fn key_floor(mut query: CachedStatement<'_>, key: &Key) -> ReadResult<Revision> {
    let row = query.query_row([key.as_str()], |row| Ok((row.get(0)?, row.get::<_, Option<u32>>(1)?)));
    let Some((floor, crc)) = row.optional()? else { return Ok(0) };
    match crc.is_none_or(|crc| crc == schema::floor_crc(key.as_str(), floor)) {
        true => Ok(floor),
        false => Err(Error::Corrupt { revision: floor, key: key.to_string() }.into()),
    }
}

impl ReaderPool {
    fn page_of(&self, filter: &Filter, after: Revision, request: PageRequest) -> Result<LogPage, Error> {
        let mut topics = self.topics.of(filter);
        // One query returns the state of all state topics.
        let mut has_state = false;
        topics.retain(|(_, of)| of.class == TopicClass::Log || !std::mem::replace(&mut has_state, true));
        let Ok(from) = i64::try_from(after) else { return Ok(LogPage { records: Vec::new(), next: None }) };
        self.with(filter.key(), |on| {
            if let [(name, topic)] = &topics[..] {
                let is_whole_log = topic.class == TopicClass::Log && filter.key().as_str() == name.as_str();
                return match filter {
                    Filter::One(_) | Filter::Below(_) if !is_whole_log => {
                        self.page_by_positions(on, (filter, topic.class), from, request)
                    }
                    _ => topic_page(on, filter, topic, from, request),
                };
            }
            // One transaction, so that the pages of several topics are of one snapshot.
            let snapshot = on.unchecked_transaction()?;
            let mut pages = Vec::new();
            for (_, topic) in &topics {
                pages.push(topic_page(on, filter, topic, from, request)?);
            }
            snapshot.commit()?;
            Ok(merge(pages, request.max_records))
        })
    }

    /// A page of rows of one class, by cached positions. A row that changed since the scan is skipped; its new revision is
    /// above all cached ones.
    fn page_by_positions(
        &self,
        on: &Connection,
        (filter, class): (&Filter, TopicClass),
        after: i64,
        request: PageRequest,
    ) -> ReadResult<LogPage> {
        let cached = self.positions.take(filter, after.unsigned_abs());
        let was_cached = cached.is_some();
        let mut positions = cached.map_or_else(|| row_positions::find(on, filter, class, after), Ok)?;
        let mut may_be_more = was_cached || positions.len() >= row_positions::MAX_POSITIONS;
        let at = if class == TopicClass::State { STATE_AT } else { LOG_AT };
        let mut fetch = on.prepare_cached(&request.projection.of(at))?;
        let (mut records, mut size, mut reached) = (Vec::new(), 0, after);
        while records.len() < request.max_records && size < request.max_bytes {
            let Some((revision, id)) = positions.pop_front() else { break };
            reached = revision;
            let row = fetch.query_row([id, revision], |row| Ok(request.projection.record(row)));
            match row.optional()?.transpose()? {
                Some(record) => {
                    size += record.value.len();
                    records.push(record);
                }
                None => may_be_more = true,
            }
        }
        let reached = reached.unsigned_abs();
        let next = (may_be_more || !positions.is_empty()).then_some(reached);
        self.positions.keep(filter, reached, positions);
        Ok(LogPage { records, next })
    }
}

impl PageSource for ReaderPool {
    fn page(&self, filter: &Filter, after: Revision, limit: usize, bytes: usize) -> Result<LogPage, Error> {
        let projection = Projection::Record;
        self.page_of(filter, after, PageRequest { max_records: limit, max_bytes: bytes, projection })
    }

    fn check_cursor(&self, filter: &Filter, after: Revision) -> Result<(), Error> {
        let floor = self.floor(filter, after)?;
        if after < floor { Err(Error::Trimmed { floor }) } else { Ok(()) }
    }
}

/// Merges the pages of several topics, up to the revision where all of them are complete.
fn merge(pages: Vec<LogPage>, limit: usize) -> LogPage {
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
    LogPage { records, next }
}

fn topic_page(
    on: &Connection,
    filter: &Filter,
    topic: &TopicRow,
    after: i64,
    request: PageRequest,
) -> ReadResult<LogPage> {
    let name = filter.key().as_str();
    let (low, high) = row_positions::key_range(filter);
    let rows = i64::try_from(request.max_records).unwrap_or(i64::MAX);
    let (sql, with): (_, &[&dyn ToSql]) = match (topic.class, filter) {
        (TopicClass::Log, Filter::Exactly(_)) => (LOG_OF_KEY, params![name, after]),
        (TopicClass::State, Filter::Exactly(_)) => (STATE_OF_KEY, params![name, after]),
        (TopicClass::Log, Filter::One(_) | Filter::Below(_)) => (LOG_OF_TOPIC, params![topic.id, after]),
        (TopicClass::State, Filter::One(_)) => (STATE_ONE, params![low, high, after, rows]),
        (TopicClass::State, Filter::Below(_)) => (STATE_BELOW, params![low, high, after, rows]),
    };
    let mut statement = on.prepare_cached(&request.projection.of(sql))?;
    collect_page(statement.query(with)?, filter, request)
}

fn collect_page(mut rows: Rows<'_>, filter: &Filter, request: PageRequest) -> ReadResult<LogPage> {
    let mut records = Vec::new();
    let (mut scanned, mut size) = (0, 0);
    while let Some(row) = rows.next()? {
        scanned += 1;
        let key = row.get_ref(0)?.as_str().map_err(|_| corrupt_row(row))?;
        let revision = row.get::<_, i64>(1)?.unsigned_abs();
        if filter.admits_text(key) {
            let record = request.projection.record(row)?;
            size += record.value.len();
            records.push(record);
        }
        let is_full = records.len() >= request.max_records || size >= request.max_bytes;
        if is_full || scanned >= request.max_records.saturating_mul(MAX_SCANNED_PER_RECORD) {
            return Ok(LogPage { records, next: Some(revision) });
        }
    }
    Ok(LogPage { records, next: None })
}

/// The record of a row of [`RECORD_COLUMNS`], verified.
fn record(row: &Row<'_>) -> Result<Record, Error> {
    let read = || -> rusqlite::Result<(Key, Revision, Bytes, u32)> {
        let key = Key::stored(row.get_ref(0)?.as_str()?);
        let value = Bytes::copy_from_slice(row.get_ref(2)?.as_blob()?);
        Ok((key, row.get::<_, i64>(1)?.unsigned_abs(), value, row.get(3)?))
    };
    let (key, revision, value, crc) = read().map_err(|_| corrupt_row(row))?;
    checksum::verify(key, revision, value, crc)
}

fn corrupt_row(row: &Row<'_>) -> Error {
    let key = row.get_ref(0).ok().and_then(|key| key.as_bytes().ok()).unwrap_or_default();
    let revision = row.get::<_, i64>(1).unwrap_or_default().unsigned_abs();
    Error::Corrupt { revision, key: String::from_utf8_lossy(key).into_owned() }
}

type ReadResult<T> = Result<T, ReadFailure>;

/// Why a read failed: an error of the store or of SQLite.
enum ReadFailure {
    Store(Error),
    Sql(rusqlite::Error),
}

impl From<Error> for ReadFailure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for ReadFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}
