//! Reads the rows below a prefix in the order of their revisions, which has no index: one scan finds the positions of many rows, and
//! the following pages fetch the rows by position. All rows of a filter are thus read in linear, not quadratic time, and no others.

use super::super::{Filter, Revision, class::TopicClass};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

const STATE_BELOW: &str =
    "SELECT rev, id FROM state WHERE key > ?1 AND key < ?2 AND rev > ?3 ORDER BY rev LIMIT ?4";
const STATE_ONE: &str = "SELECT rev, id FROM state
    WHERE key > ?1 AND key < ?2 AND rev > ?3 AND instr(substr(key, length(?1) + 1), '.') = 0 ORDER BY rev LIMIT ?4";
const NEXT_LOG_KEY: &str = "SELECT key FROM log WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT 1";
const LOG_OF_KEY: &str = "SELECT rev, rev FROM log WHERE key = ?1 AND rev > ?2 ORDER BY rev LIMIT ?3";

/// The most positions that one scan finds (1 MiB).
pub(super) const MAX_POSITIONS: usize = 65_536;
/// The most scans that are cached; the oldest is dropped first.
const MAX_SCANS: usize = 4;

/// A row's revision and id; a log row has none but its revision. The position is valid as long as the row has this revision.
pub(super) type RowPosition = (i64, i64);

/// The positions of one scan that are not fetched yet, oldest revision first.
pub(super) type RowPositions = VecDeque<RowPosition>;

/// Positions that are found and not fetched yet. A row that changes meanwhile gets a higher revision than all of them, so
/// that a later scan finds it.
#[derive(Default)]
pub(super) struct PositionCache(Mutex<VecDeque<(Filter, Revision, RowPositions)>>);

impl PositionCache {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(Filter, Revision, RowPositions)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the positions after `after` of a scan of `filter`. The caller gives the rest back with `keep`.
    pub(super) fn take(&self, filter: &Filter, after: Revision) -> Option<RowPositions> {
        let mut scans = self.lock();
        let at = scans.iter().position(|(of, reached, _)| *reached == after && of == filter)?;
        scans.remove(at).map(|(.., positions)| positions)
    }

    /// Caches the positions after `reached`.
    pub(super) fn keep(&self, filter: &Filter, reached: Revision, positions: RowPositions) {
        if positions.is_empty() {
            return;
        }
        let mut scans = self.lock();
        scans.push_back((filter.clone(), reached, positions));
        if scans.len() > MAX_SCANS {
            scans.pop_front();
        }
    }
}

/// Finds the positions of the rows of `filter`, of this class, after `after`: the lowest, if there are too many.
pub(super) fn find(
    on: &Connection,
    filter: &Filter,
    class: TopicClass,
    after: i64,
) -> rusqlite::Result<RowPositions> {
    match class {
        TopicClass::State => find_state(on, filter, after),
        TopicClass::Log => find_log(on, filter, after),
    }
}

fn find_state(on: &Connection, filter: &Filter, after: i64) -> rusqlite::Result<RowPositions> {
    let mut query =
        on.prepare_cached(if matches!(filter, Filter::One(_)) { STATE_ONE } else { STATE_BELOW })?;
    let (low, high) = key_range(filter);
    let limit = i64::try_from(MAX_POSITIONS).unwrap_or(i64::MAX);
    let rows = query.query_map(params![low, high, after, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Goes from key to key: many records have one key, of which those up to `after` are not visited.
fn find_log(on: &Connection, filter: &Filter, after: i64) -> rusqlite::Result<RowPositions> {
    let (mut next_key, mut of_key) = (on.prepare_cached(NEXT_LOG_KEY)?, on.prepare_cached(LOG_OF_KEY)?);
    let (mut low, high) = key_range(filter);
    let limit = i64::try_from(MAX_POSITIONS).unwrap_or(i64::MAX);
    let mut positions = Vec::new();
    while let Some(key) = next_key.query_row([&low, &high], |row| row.get::<_, String>(0)).optional()? {
        if filter.admits_text(&key) {
            let rows = of_key.query_map(params![key, after, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
            for position in rows {
                positions.push(position?);
            }
            if positions.len() > MAX_POSITIONS {
                positions.sort_unstable();
                positions.truncate(MAX_POSITIONS);
            }
        }
        low = key;
    }
    positions.sort_unstable();
    Ok(positions.into())
}

/// Exclusive bounds of the keys below a filter's prefix: '/' follows '.' in ASCII.
pub(super) fn key_range(filter: &Filter) -> (String, String) {
    let name = filter.key();
    (format!("{name}."), format!("{name}/"))
}

#[cfg(test)]
mod tests {
    use super::super::super::{Batch, Key, Lane, Revision, SharedStore, Write};
    use super::super::{StoreOptions, open};
    use super::*;

    fn key(of: &str) -> Key {
        Key::new(&["a", "state", of])
    }

    async fn commit(store: &SharedStore, write: Write) {
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        store.commit(Lane::Progress, batch).await.unwrap();
    }

    async fn put(store: &SharedStore, of: &str) {
        commit(store, Write::Put(key(of), "1".into())).await;
    }

    fn read(store: &SharedStore, after: Revision, limit: usize) -> Vec<(Revision, Key)> {
        let records = store.read(&Filter::Below(Key::new(&["a", "state"])), after, limit).unwrap();
        records.into_iter().map(|record| (record.revision, record.key)).collect()
    }

    #[tokio::test]
    async fn a_row_that_changes_between_pages_is_read_once_at_its_new_revision() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), StoreOptions::default()).unwrap();
        for of in ["1", "2", "3", "4", "5"] {
            put(&store, of).await;
        }
        assert_eq!(read(&store, 0, 1), [(1, key("1"))]);
        put(&store, "2").await;
        commit(&store, Write::Delete(key("5"))).await;
        put(&store, "6").await;
        assert_eq!(read(&store, 1, 2), [(3, key("3")), (4, key("4"))], "2 has a higher revision");
        assert_eq!(read(&store, 4, 9), [(6, key("2")), (8, key("6"))], "5 is gone");
        assert_eq!(read(&store, 8, 9), []);
        put(&store, "6").await;
        assert_eq!(read(&store, 8, 9), [(9, key("6"))], "a new scan starts after the last one");
    }

    #[tokio::test]
    async fn repeated_reads_give_the_same_rows() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), StoreOptions::default()).unwrap();
        for of in ["1", "2", "3"] {
            put(&store, of).await;
        }
        for _ in 0..2 {
            assert_eq!(read(&store, 0, 2), [(1, key("1")), (2, key("2"))]);
            assert_eq!(read(&store, 2, 2), [(3, key("3"))]);
        }
    }

    #[test]
    fn the_cache_returns_positions_once_and_keeps_the_last_four_scans() {
        let (cache, filter) = (PositionCache::default(), Filter::Below(Key::new(&["a", "state"])));
        cache.keep(&filter, 7, RowPositions::from([(8, 1), (9, 2)]));
        assert!(cache.take(&filter, 6).is_none(), "another cursor");
        assert!(cache.take(&Filter::One(Key::new(&["a", "state"])), 7).is_none(), "another filter");
        assert_eq!(cache.take(&filter, 7).unwrap(), [(8, 1), (9, 2)]);
        assert!(cache.take(&filter, 7).is_none(), "it was taken");
        for reached in 0..10 {
            cache.keep(&filter, reached, RowPositions::from([(90, 1)]));
        }
        assert!(
            cache.take(&filter, 5).is_none() && cache.take(&filter, 6).is_some(),
            "the last four are kept"
        );
    }
}
