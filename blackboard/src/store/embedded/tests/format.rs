//! A store of another format is refused with the remedy and not changed.

use super::{OpenError, StoreOptions, Write, batch, commit, key, open, reopen};

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
            matches!(error, OpenError::OtherFormat { found, known: 4, .. } if found == format),
            "{error}"
        );
        assert!(error.to_string().contains(remedy), "{error}");
    }
    set(4);
    assert_eq!(reopen(&dir).latest(&key("a.state.x")).unwrap().unwrap().value, "kept");
}
