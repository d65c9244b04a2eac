//! A store of an older format is upgraded in place as far as this version reads it; any other is refused with the remedy and
//! not changed.

use super::{OpenError, SharedStore, StoreOptions, Write, batch, commit, key, open, reopen};
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
            matches!(error, OpenError::OtherFormat { found, known: 5, .. } if found == format),
            "{error}"
        );
        assert!(error.to_string().contains(remedy), "{error}");
    }
    set(5);
    assert_eq!(reopen(&dir).latest(&key("a.state.x")).unwrap().unwrap().value, "kept");
}

#[tokio::test]
async fn a_store_of_format_4_is_upgraded_in_place() {
    let (dir, store) = open();
    commit(&store, batch([Write::Put(key("a.state.x"), "kept".into())])).await;
    drop(store);
    let on = rusqlite::Connection::open(dir.path().join("store.sqlite")).unwrap();
    // Before there were searches.
    on.execute_batch("DROP TABLE words; PRAGMA user_version = 4").unwrap();
    let format = || on.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0)).unwrap();
    let store = reopen(&dir);
    assert_eq!((format(), store.latest(&key("a.state.x")).unwrap().unwrap().value), (5, "kept".into()));
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
