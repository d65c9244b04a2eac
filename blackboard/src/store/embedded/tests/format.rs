//! What an older program wrote is brought into today's tables.

use super::super::super::{Filter, checksum};
use super::{Expectation, Lane, OpenError, Options, Write, batch, commit, key, open, reopen, values};
use crate::store::Batch;
use std::path::Path;

/// Turns the state of the closed store in `dir` into what format 1 had.
fn age(dir: &Path) {
    let on = rusqlite::Connection::open(dir.join("store.sqlite")).unwrap();
    on.execute_batch(
        "CREATE TABLE old (key TEXT PRIMARY KEY, rev INTEGER NOT NULL, value BLOB NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;
         INSERT INTO old SELECT key, rev, value, crc FROM state;
         DROP TABLE state;
         ALTER TABLE old RENAME TO state;
         PRAGMA user_version = 1;
         VACUUM;",
    )
    .unwrap();
}

/// The version of the file in `dir`, and how many indexes its state has by today's name.
fn layout(dir: &Path) -> (u32, u32) {
    let on = rusqlite::Connection::open(dir.join("store.sqlite")).unwrap();
    let version = on.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'state' AND name = 'state_key'";
    (version, on.query_row(indexes, [], |row| row.get(0)).unwrap())
}

#[tokio::test]
async fn what_format_1_kept_is_all_there_and_goes_on() {
    let (dir, store) = open();
    for n in 0..500 {
        let put = |n: usize| Write::Put(key(&format!("a.state.{}", n * 7919 % 500)), format!("{n}").into());
        commit(&store, batch([put(n), Write::Append(key("a.log.x"), format!("{n}").into())])).await;
    }
    let all = |store: &super::Shared| store.read(&Filter::Below(key("a")), 0, 2000).unwrap();
    let before = all(&store);
    drop(store);
    age(dir.path());
    assert_eq!(layout(dir.path()), (1, 0));

    let store = reopen(&dir);
    assert_eq!(layout(dir.path()), (2, 1), "today's version and its index");
    assert_eq!(all(&store), before);
    let known = store.latest(&key("a.state.7")).unwrap().unwrap();
    let absent = Batch {
        expectations: vec![Expectation::Absent(known.key.clone())],
        ..batch([Write::Put(known.key.clone(), "again".into())])
    };
    assert!(store.commit(Lane::Progress, absent).await.is_err());
    let at = Batch {
        expectations: vec![Expectation::At(known.key.clone(), known.revision)],
        ..batch([Write::Put(known.key.clone(), "new".into()), Write::Delete(key("a.state.8"))])
    };
    commit(&store, at).await;
    drop(store);
    let store = reopen(&dir);
    assert_eq!(values(&store.read(&Filter::Exactly(known.key), 0, 2).unwrap()), ["new"]);
    assert!(store.latest(&key("a.state.8")).unwrap().is_none());
    assert_eq!(all(&store).len(), before.len() - 1);
}

#[tokio::test]
async fn a_disk_that_is_too_small_for_both_leaves_the_old_format_as_it_was() {
    let (dir, store) = open();
    for n in 0..100 {
        commit(&store, batch([Write::Put(key(&format!("a.state.{n}")), "v".repeat(2000).into())])).await;
    }
    drop(store);
    age(dir.path());
    let on = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
    let pages: u32 = on.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    drop(on);
    let error = super::super::open(dir.path(), Options { pages: Some(pages), ..Options::default() });
    let error = error.map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error:?}");

    let store = reopen(&dir);
    let record = store.latest(&key("a.state.7")).unwrap().unwrap();
    assert_eq!(record.value, "v".repeat(2000));
    assert_eq!(store.read(&Filter::Below(key("a")), 0, 200).unwrap().len(), 100);
    // The checksum was taken along, not made anew.
    let on = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
    let crc: u32 =
        on.query_row("SELECT crc FROM state WHERE key = 'a.state.7'", [], |row| row.get(0)).unwrap();
    assert_eq!(crc, checksum::of("a.state.7", record.revision, &record.value));
}
