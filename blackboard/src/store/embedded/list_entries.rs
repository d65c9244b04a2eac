//! List entries in the file: each a row of `lists`, and all of a record as bytes beside it.

use super::super::{Error, Key, ListEntry, ListOrder, ListPosition, ListQuery, ListedKey};
use protocol::ids::Digest;
use rusqlite::{Connection, Statement, params};

const NEWEST: &str = "SELECT at, id FROM lists WHERE list = ?1 AND part = ?2 AND (at, id) < (?3, ?4)
    AND (?5 IS NULL OR group_id = ?5) ORDER BY at DESC, id DESC LIMIT ?6";
const OLDEST: &str = "SELECT at, id FROM lists WHERE list = ?1 AND part = ?2 AND (at, id) > (?3, ?4)
    AND (?5 IS NULL OR group_id = ?5) ORDER BY at, id LIMIT ?6";
const COUNT: &str = "SELECT count(*) FROM lists WHERE list = ?1 AND part = ?2 AND at >= ?3 AND at <= ?4
    AND (?5 IS NULL OR group_id = ?5)";

/// Bytes of an encoded entry: list, part, number, group.
const ENTRY_BYTES: usize = 25;

/// The number of a list in the file: the first bytes of its name's digest. Names are longer than a row of `lists`.
fn number(list: &Key) -> i64 {
    Digest::of(list.as_str().as_bytes()).prefix().cast_signed()
}

/// The entries as bytes; `None` if there are none.
pub(super) fn encode(entries: &[ListEntry]) -> Option<Vec<u8>> {
    if entries.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES);
    for ListEntry { list, part, at, group } in entries {
        bytes.extend(number(list).to_le_bytes());
        bytes.push(*part);
        bytes.extend(at.to_le_bytes());
        bytes.extend(group.to_le_bytes());
    }
    Some(bytes)
}

/// List, part, number and group of each entry.
fn decode(bytes: &[u8]) -> impl Iterator<Item = (i64, u8, i64, i64)> + '_ {
    let number = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).unwrap_or_default();
    bytes
        .chunks_exact(ENTRY_BYTES)
        .map(move |entry| (number(&entry[..8]), entry[8], number(&entry[9..17]), number(&entry[17..])))
}

/// The statements that change `lists`.
pub(super) struct ListIndex<'c> {
    enter: Statement<'c>,
    leave: Statement<'c>,
}

impl<'c> ListIndex<'c> {
    pub(super) fn new(on: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            enter: on.prepare(
                "INSERT OR REPLACE INTO lists (list, part, at, id, group_id) VALUES (?, ?, ?, ?, ?)",
            )?,
            leave: on.prepare("DELETE FROM lists WHERE list = ? AND part = ? AND at = ? AND id = ?")?,
        })
    }

    /// Adds the encoded `entries` of the state row `id`.
    pub(super) fn enter(&mut self, entries: &[u8], id: i64) -> rusqlite::Result<()> {
        for (list, part, at, group) in decode(entries) {
            self.enter.execute(params![list, part, at, id, group])?;
        }
        Ok(())
    }

    /// Removes the encoded `entries` of the state row `id`.
    pub(super) fn leave(&mut self, entries: &[u8], id: i64) -> rusqlite::Result<()> {
        for (list, part, at, _) in decode(entries) {
            self.leave.execute(params![list, part, at, id])?;
        }
        Ok(())
    }
}

/// A page of a list.
pub(super) fn page(
    on: &Connection,
    query: &ListQuery,
    limit: usize,
) -> rusqlite::Result<Result<Vec<ListedKey>, Error>> {
    let (above, below) = query.bounds();
    let (sql, start) = match query.order {
        ListOrder::OldestFirst => (OLDEST, above),
        ListOrder::NewestFirst => (NEWEST, below),
    };
    let (list, group) = (number(&query.list), query.group.map(u64::cast_signed));
    let (start_record, rows) = (signed(start.record), i64::try_from(limit).unwrap_or(i64::MAX));
    let snapshot = on.unchecked_transaction()?;
    let mut found = Vec::new();
    let mut statement = snapshot.prepare_cached(sql)?;
    for part in &query.parts {
        let positions = statement
            .query_map(params![list, part, start.at, start_record, group, rows], |row| {
                Ok(ListPosition { at: row.get(0)?, record: row.get::<_, i64>(1)?.unsigned_abs() })
            })?;
        for position in positions {
            let position = position?;
            if above < position && position < below {
                found.push((position, ()));
            }
        }
    }
    drop(statement);
    let mut keys = Vec::new();
    let mut fetch = snapshot.prepare_cached("SELECT key FROM state WHERE id = ?")?;
    for (position, ()) in query.first(found, limit) {
        let key =
            fetch.query_row([signed(position.record)], |row| Ok(Key::stored(row.get_ref(0)?.as_str()?)));
        match key {
            Ok(key) => keys.push(ListedKey { position, key }),
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                return Ok(Err(Error::Corrupt { revision: 0, key: query.list.to_string() }));
            }
            Err(error) => return Err(error),
        }
    }
    drop(fetch);
    snapshot.commit()?;
    Ok(Ok(keys))
}

/// The number of entries that match.
pub(super) fn count(on: &Connection, query: &ListQuery) -> rusqlite::Result<u64> {
    let (list, group) = (number(&query.list), query.group.map(u64::cast_signed));
    let (from, until) = (query.from.unwrap_or(i64::MIN), query.until.unwrap_or(i64::MAX));
    let mut statement = on.prepare_cached(COUNT)?;
    let mut all = 0;
    for part in &query.parts {
        let count: i64 = statement.query_row(params![list, part, from, until, group], |row| row.get(0))?;
        all += count.unsigned_abs();
    }
    Ok(all)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
