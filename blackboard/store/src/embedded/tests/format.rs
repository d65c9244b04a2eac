//! A store of an older format is upgraded in place as far as this version reads it; any other is refused with the remedy and
//! not changed.

use super::{
    Error, Filter, OpenError, SharedStore, StoreOptions, Write, append, batch, commit, key, open, reopen,
};
use crate::{ListEntry, ListQuery};

#[tokio::test]
async fn a_store_of_another_format_is_refused_with_the_remedy_and_not_changed() {
    let (dir, store) = open();
    commit(&store, batch([Write::Put(key("a.state.x"), "kept".into())])).await;
    drop(store);
    let set = |version: u32| {
        let on = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
        on.pragma_update(None, "user_version", version).unwrap();
    };
    for (format, remedy) in
        [(1, "mesh reset"), (2, "mesh reset"), (3, "mesh reset"), (77, "the version that wrote it")]
    {
        set(format);
        let error = super::super::open(dir.path(), StoreOptions::default()).map(drop).unwrap_err();
        assert!(
            matches!(error, OpenError::OtherFormat { found, known: 6, .. } if found == format),
            "{error}"
        );
        assert!(error.to_string().contains(remedy), "{error}");
    }
    set(6);
    assert_eq!(reopen(&dir).latest(&key("a.state.x")).unwrap().unwrap().value, "kept");
}

const WITHOUT_CHECKSUMS: &str = "ALTER TABLE meta DROP COLUMN crc; ALTER TABLE topics DROP COLUMN crc;
    ALTER TABLE floors DROP COLUMN crc;";

#[tokio::test]
async fn rows_that_format_5_left_without_checksums_are_read_and_get_them_when_they_change() {
    let (dir, store) = open();
    for n in ["1", "2", "3"] {
        commit(&store, append("a.log.x", n)).await;
    }
    store.trim(Filter::Exactly(key("a.log.x")), 2).await.unwrap();
    let entry = ListEntry { list: key("a.list.0"), part: 0, at: 1, group: 0 };
    let put = Write::PutIndexed(key("a.state.x"), "1".into(), vec![entry], "some words".into());
    commit(&store, batch([put])).await;
    drop(store);
    let on = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
    on.execute_batch(WITHOUT_CHECKSUMS).unwrap();
    on.execute_batch(
        "UPDATE state SET entries = substr(entries, 1, length(entries) - 4); PRAGMA user_version = 5",
    )
    .unwrap();
    let query = ListQuery { text: Some("words".to_owned()), ..ListQuery::oldest(key("a.list.0")) };
    let sums = || -> (u32, u32, u32) {
        let count = |table: &str| {
            on.query_row(&format!("SELECT count(crc) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        (count("meta"), count("topics"), count("floors"))
    };
    let store = reopen(&dir);
    assert_eq!((store.list(&query, 9).unwrap().len(), sums()), (1, (0, 0, 0)));
    let stale = store.watch(Filter::Exactly(key("a.log.x")), 0).map(drop);
    assert!(matches!(stale, Err(Error::Trimmed { floor: 1 })), "{stale:?}");
    store.trim(Filter::Exactly(key("a.log.x")), 3).await.unwrap();
    commit(&store, batch([Write::Delete(key("a.state.x"))])).await;
    assert_eq!((store.list(&query, 9).unwrap().len(), sums()), (0, (1, 1, 1)));
}

#[tokio::test]
async fn a_store_of_format_4_is_upgraded_in_place() {
    let (dir, store) = open();
    commit(&store, batch([Write::Put(key("a.state.x"), "kept".into())])).await;
    drop(store);
    let on = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
    // Before there were searches, and checksums of what is no record.
    on.execute_batch(WITHOUT_CHECKSUMS).unwrap();
    on.execute_batch("DROP TABLE words; PRAGMA user_version = 4").unwrap();
    let format = || on.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0)).unwrap();
    let store = reopen(&dir);
    assert_eq!((format(), store.latest(&key("a.state.x")).unwrap().unwrap().value), (6, "kept".into()));
    let entry = ListEntry { list: key("a.list.0"), part: 0, at: 1, group: 0 };
    let write = Write::PutIndexed(key("a.state.x"), "new".into(), vec![entry], "Some Words".into());
    commit(&store, batch([write])).await;
    drop(store);
    let query = |text: &str| ListQuery { text: Some(text.to_owned()), ..ListQuery::oldest(key("a.list.0")) };
    let found = |store: &SharedStore, text: &str| store.list(&query(text), 10).unwrap().len();
    let store = reopen(&dir);
    assert_eq!((found(&store, "wor some"), found(&store, "ords")), (1, 0));
    commit(&store, batch([Write::Delete(key("a.state.x"))])).await;
    assert_eq!(found(&store, "words"), 0);
    let words: i64 = on.query_row("SELECT count(*) FROM words", [], |row| row.get(0)).unwrap();
    assert_eq!(words, 0, "a deleted record leaves no words");
}
