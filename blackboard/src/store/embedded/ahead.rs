//! State in the order of its revisions, which no index keeps: one look finds where the next many rows lie, and the pages
//! that follow fetch theirs. So everything below a filter is read in time that grows with it, not with its square.

use super::super::{Filter, Revision};
use rusqlite::{Connection, params};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

const BELOW: &str =
    "SELECT rev, id FROM state WHERE key > ?1 AND key < ?2 AND rev > ?3 ORDER BY rev LIMIT ?4";
const ONE: &str = "SELECT rev, id FROM state
    WHERE key > ?1 AND key < ?2 AND rev > ?3 AND instr(substr(key, length(?1) + 1), '.') = 0 ORDER BY rev LIMIT ?4";

/// The most rows that one look finds (1 MiB).
pub(super) const MOST: usize = 65_536;
/// The most looks that are remembered; the one that was used the longest ago goes first.
const LOOKS: usize = 4;

/// Where a row was: its revision, then its id. It is still there if it has that revision.
pub(super) type Place = (i64, i64);

/// The places that a look has found and no page has fetched, the oldest revision first.
pub(super) type Places = VecDeque<Place>;

/// What has been found and not been fetched. A row that changes meanwhile gets a revision above all that were found, and a
/// later look finds it there.
#[derive(Default)]
pub(super) struct Ahead(Mutex<VecDeque<(Filter, Revision, Places)>>);

impl Ahead {
    fn looks(&self) -> MutexGuard<'_, VecDeque<(Filter, Revision, Places)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What lies behind `after`, if a look of `filter` has got there. Whoever takes it gives back what is left.
    pub(super) fn take(&self, filter: &Filter, after: Revision) -> Option<Places> {
        let mut looks = self.looks();
        let at = looks.iter().position(|(of, reached, _)| *reached == after && of == filter)?;
        looks.remove(at).map(|(.., places)| places)
    }

    /// Keeps what lies behind `reached`.
    pub(super) fn keep(&self, filter: &Filter, reached: Revision, places: Places) {
        if places.is_empty() {
            return;
        }
        let mut looks = self.looks();
        looks.push_back((filter.clone(), reached, places));
        if looks.len() > LOOKS {
            looks.pop_front();
        }
    }
}

/// Where the rows of `filter` behind `after` lie.
pub(super) fn look(on: &Connection, filter: &Filter, after: i64) -> rusqlite::Result<Places> {
    let mut places = on.prepare_cached(if matches!(filter, Filter::One(_)) { ONE } else { BELOW })?;
    let (low, high) = below(filter);
    let most = i64::try_from(MOST).unwrap_or(i64::MAX);
    let found = places.query_map(params![low, high, after, most], |row| Ok((row.get(0)?, row.get(1)?)))?;
    found.collect()
}

/// What lies below a filter's prefix comes after the one and before the other: '/' follows '.'.
pub(super) fn below(filter: &Filter) -> (String, String) {
    let name = filter.key();
    (format!("{name}."), format!("{name}/"))
}

#[cfg(test)]
mod tests {
    use super::super::super::{Batch, Key, Lane, Revision, Shared, Write};
    use super::super::{Options, open};
    use super::*;

    fn key(of: &str) -> Key {
        Key::new(&["a", "state", of])
    }

    async fn commit(store: &Shared, write: Write) {
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        store.commit(Lane::Progress, batch).await.unwrap();
    }

    async fn put(store: &Shared, of: &str) {
        commit(store, Write::Put(key(of), "1".into())).await;
    }

    fn read(store: &Shared, after: Revision, limit: usize) -> Vec<(Revision, Key)> {
        let records = store.read(&Filter::Below(Key::new(&["a", "state"])), after, limit).unwrap();
        records.into_iter().map(|record| (record.revision, record.key)).collect()
    }

    #[tokio::test]
    async fn what_changes_behind_a_page_is_seen_where_it_is_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), Options::default()).unwrap();
        for of in ["1", "2", "3", "4", "5"] {
            put(&store, of).await;
        }
        assert_eq!(read(&store, 0, 1), [(1, key("1"))]);
        put(&store, "2").await;
        commit(&store, Write::Delete(key("5"))).await;
        put(&store, "6").await;
        assert_eq!(read(&store, 1, 2), [(3, key("3")), (4, key("4"))], "2 has moved behind them");
        assert_eq!(read(&store, 4, 9), [(6, key("2")), (8, key("6"))], "5 is gone");
        assert_eq!(read(&store, 8, 9), []);
        put(&store, "6").await;
        assert_eq!(read(&store, 8, 9), [(9, key("6"))], "the end of a look is not the end");
    }

    #[tokio::test]
    async fn whoever_reads_the_same_again_sees_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), Options::default()).unwrap();
        for of in ["1", "2", "3"] {
            put(&store, of).await;
        }
        for _ in 0..2 {
            assert_eq!(read(&store, 0, 2), [(1, key("1")), (2, key("2"))]);
            assert_eq!(read(&store, 2, 2), [(3, key("3"))]);
        }
    }

    #[test]
    fn pages_look_once_for_all_that_follow() {
        let (ahead, filter) = (Ahead::default(), Filter::Below(Key::new(&["a", "state"])));
        ahead.keep(&filter, 7, Places::from([(8, 1), (9, 2)]));
        assert!(ahead.take(&filter, 6).is_none(), "it got elsewhere");
        assert!(ahead.take(&Filter::One(Key::new(&["a", "state"])), 7).is_none(), "it is of another filter");
        assert_eq!(ahead.take(&filter, 7).unwrap(), [(8, 1), (9, 2)]);
        assert!(ahead.take(&filter, 7).is_none(), "it is whoever took it who goes on");
        for reached in 0..10 {
            ahead.keep(&filter, reached, Places::from([(90, 1)]));
        }
        assert!(
            ahead.take(&filter, 5).is_none() && ahead.take(&filter, 6).is_some(),
            "the last four are kept"
        );
    }
}
