//! List entries in the file: each a row of `lists`, and all of a record as bytes beside it.

use super::super::{Error, Key, ListEntry, ListOrder, ListPosition, ListQuery, ListedKey, checksum, words};
use protocol::ids::Digest;
use rusqlite::{Connection, Statement, ToSql, params};

const NEWEST: &str = "SELECT at, id FROM lists WHERE list = ?1 AND part = ?2 AND (at, id) < (?3, ?4)
    AND (?5 IS NULL OR group_id = ?5) ORDER BY at DESC, id DESC LIMIT ?6";
const OLDEST: &str = "SELECT at, id FROM lists WHERE list = ?1 AND part = ?2 AND (at, id) > (?3, ?4)
    AND (?5 IS NULL OR group_id = ?5) ORDER BY at, id LIMIT ?6";
const COUNT: &str = "SELECT count(*) FROM lists WHERE list = ?1 AND part = ?2 AND at >= ?3 AND at <= ?4
    AND (?5 IS NULL OR group_id = ?5) LIMIT ?6";

/// The condition of these queries that wants a group, or none.
const ANY_GROUP: &str = "(?5 IS NULL OR group_id = ?5)";
/// The condition for a group other than 0, by the index of groups.
const ONE_GROUP: &str = "group_id = ?5 AND group_id <> 0";

/// In SQLite.
const NO_LIMIT: i64 = -1;

/// The rows of a text have this as a last byte of their encoded entries.
const HAS_TEXT: u8 = 1;

/// Bytes of an encoded entry: list, part, number, group.
const ENTRY_BYTES: usize = 25;
/// Bytes of the checksum behind the entries; those that format 5 wrote have none.
const CRC_BYTES: usize = 4;

/// The number of a list in the file: the first bytes of its name's digest. Names are longer than a row of `lists`.
fn number(list: &Key) -> i64 {
    Digest::of(list.as_str().as_bytes()).prefix().cast_signed()
}

/// The entries of `key` as bytes, with a mark if the row has a text, and their checksum; `None` if there is neither.
pub(super) fn encode(key: &Key, entries: &[ListEntry], has_text: bool) -> Option<Vec<u8>> {
    if entries.is_empty() && !has_text {
        return None;
    }
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES + 1 + CRC_BYTES);
    for ListEntry { list, part, at, group } in entries {
        bytes.extend(number(list).to_le_bytes());
        bytes.push(*part);
        bytes.extend(at.to_le_bytes());
        bytes.extend(group.to_le_bytes());
    }
    bytes.extend(has_text.then_some(HAS_TEXT));
    bytes.extend(crc_of(key.as_str(), &bytes).to_le_bytes());
    Some(bytes)
}

fn crc_of(key: &str, entries: &[u8]) -> u32 {
    checksum::crc_of(key, 0, entries)
}

/// Whether the encoded entries of `key` match their checksum, if they have one.
pub(super) fn is_intact(key: &str, bytes: &[u8]) -> bool {
    match (bytes.len() % ENTRY_BYTES, bytes.split_last_chunk::<CRC_BYTES>()) {
        (0 | 1, _) => true,
        (4 | 5, Some((entries, crc))) => crc_of(key, entries) == u32::from_le_bytes(*crc),
        _ => false,
    }
}

/// List, part, number and group of each entry.
pub(super) fn decode(bytes: &[u8]) -> impl Iterator<Item = (i64, u8, i64, i64)> + '_ {
    let number = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).unwrap_or_default();
    bytes
        .chunks_exact(ENTRY_BYTES)
        .map(move |entry| (number(&entry[..8]), entry[8], number(&entry[9..17]), number(&entry[17..])))
}

/// Whether the row of these encoded entries has a text.
pub(super) fn has_text(bytes: &[u8]) -> bool {
    matches!(bytes.len() % ENTRY_BYTES, 1 | 5)
}

/// The lowest word that begins with `word`, and an upper bound of all.
fn range_of(word: String) -> [String; 2] {
    let above = format!("{word}{}", char::MAX);
    [word, above]
}

/// `sql` for all parts of `query` at once, and only for rows whose text has so many words. Their ranges are the parameters from
/// [`FIRST_WORD`] on.
fn with_words(sql: &str, query: &ListQuery, count: usize) -> String {
    let parts: Vec<String> = query.parts.iter().map(ToString::to_string).collect();
    let word = |at: usize| {
        let (from, to) = (FIRST_WORD + 2 * at, FIRST_WORD + 2 * at + 1);
        format!("AND id IN (SELECT id FROM words WHERE word >= ?{from} AND word < ?{to}) ")
    };
    let words: String = (0..count).map(word).collect();
    sql.replacen("part = ?2", &format!("part IN ({}) {words}", parts.join(",")), 1)
}

/// The number of the first parameter of [`with_words`].
const FIRST_WORD: usize = 7;

/// The statement of one query: its text, and its parameters but for list, positions and group.
struct ListStatement {
    sql: String,
    part: Option<u8>,
    words: Vec<[String; 2]>,
}

/// The statements of `query`: one for each part, or one for all with a text; none for a text without words.
fn statements(sql: &str, query: &ListQuery) -> Vec<ListStatement> {
    let sql = match query.group {
        None | Some(0) => sql.to_owned(),
        Some(_) => sql.replacen(ANY_GROUP, ONE_GROUP, 1),
    };
    let Some(text) = &query.text else {
        let of_part = |part: &u8| ListStatement { sql: sql.clone(), part: Some(*part), words: Vec::new() };
        return query.parts.iter().map(of_part).collect();
    };
    let words: Vec<_> = words(text).map(range_of).collect();
    match words.is_empty() {
        true => Vec::new(),
        false => vec![ListStatement { sql: with_words(&sql, query, words.len()), part: None, words }],
    }
}

impl ListStatement {
    /// Its parameters: the list, the part, `others`, the words.
    fn parameters<'p>(&'p self, list: &'p dyn ToSql, others: [&'p dyn ToSql; 4]) -> Vec<&'p dyn ToSql> {
        let first: [&dyn ToSql; 2] = [list, &self.part];
        let words = self.words.iter().flatten().map(|word| word as &dyn ToSql);
        first.into_iter().chain(others).chain(words).collect()
    }
}

/// The statements that change `lists` and `words`.
pub(super) struct ListIndex<'c> {
    add_word: Statement<'c>,
    remove_text: Statement<'c>,
    enter: Statement<'c>,
    leave: Statement<'c>,
}

impl<'c> ListIndex<'c> {
    pub(super) fn new(on: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            add_word: on.prepare("INSERT OR IGNORE INTO words (id, word) VALUES (?, ?)")?,
            remove_text: on.prepare("DELETE FROM words WHERE id = ?")?,
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

    /// Makes `text` that of the state row `id`.
    pub(super) fn set_text(&mut self, text: &str, id: i64) -> rusqlite::Result<()> {
        self.remove_text(id)?;
        words(text).try_for_each(|word| self.add_word.execute(params![id, word]).map(drop))
    }

    /// Removes the text of the state row `id`.
    pub(super) fn remove_text(&mut self, id: i64) -> rusqlite::Result<()> {
        self.remove_text.execute([id]).map(drop)
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
    for statement in statements(sql, query) {
        let mut rows_of = snapshot.prepare_cached(&statement.sql)?;
        let parameters = statement.parameters(&list, [&start.at, &start_record, &group, &rows]);
        let positions = rows_of.query_map(&parameters[..], |row| {
            Ok(ListPosition { at: row.get(0)?, record: row.get::<_, i64>(1)?.unsigned_abs() })
        })?;
        for position in positions {
            let position = position?;
            if above < position && position < below {
                found.push((position, ()));
            }
        }
    }
    let mut keys = Vec::new();
    let mut fetch = snapshot.prepare_cached("SELECT key, entries FROM state WHERE id = ?")?;
    let has_entry = |at: i64, bytes: &[u8]| {
        decode(bytes).any(|(of, part, number, of_group)| {
            (of, number) == (list, at)
                && query.parts.contains(&part)
                && group.is_none_or(|group| group == of_group)
        })
    };
    for (position, ()) in query.first(found, limit) {
        let key = fetch.query_row([signed(position.record)], |row| {
            let (key, entries) = (row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_blob_or_null()?);
            let entries = entries.unwrap_or_default();
            Ok((is_intact(key, entries) && has_entry(position.at, entries)).then(|| Key::stored(key)))
        });
        match key {
            Ok(Some(key)) => keys.push(ListedKey { position, key }),
            Ok(None) | Err(rusqlite::Error::QueryReturnedNoRows) => {
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
    let mut all = 0;
    for statement in statements(COUNT, query) {
        let parameters = statement.parameters(&list, [&from, &until, &group, &NO_LIMIT]);
        let count: i64 = on.prepare_cached(&statement.sql)?.query_row(&parameters[..], |row| row.get(0))?;
        all += count.unsigned_abs();
    }
    Ok(all)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
