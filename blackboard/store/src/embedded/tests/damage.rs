//! Damaged data is an error, never data and never a panic.

use super::super::super::{Error, Filter, ListEntry, ListQuery, Record};
use super::{Lane, SharedStore, Write};
use super::{OpenError, StoreOptions, append, batch, commit, key, open};
use std::path::Path;

fn file(dir: &Path) -> std::path::PathBuf {
    dir.join("store.sqlite")
}

fn flip(dir: &Path, at: usize, bit: u8) {
    let mut bytes = std::fs::read(file(dir)).unwrap();
    let at = at % bytes.len();
    bytes[at] ^= 1 << bit;
    std::fs::write(file(dir), bytes).unwrap();
}

#[tokio::test]
async fn a_flipped_bit_in_a_record_is_reported() {
    for (name, write) in [
        ("a.log.x", Write::Append(key("a.log.x"), "the marked value".into())),
        ("a.state.x", Write::Put(key("a.state.x"), "the marked value".into())),
    ] {
        let (dir, store) = open();
        commit(&store, batch([write])).await;
        drop(store);
        let bytes = std::fs::read(file(dir.path())).unwrap();
        let at = bytes.windows(10).position(|window| window == b"the marked").expect("it is in the file");
        flip(dir.path(), at, 0);
        let store = super::reopen(&dir);
        let assert_corrupt = |outcome: Result<(), Error>| {
            assert!(
                matches!(&outcome, Err(Error::Corrupt { revision: 1, key }) if key == name),
                "{outcome:?}"
            );
        };
        assert_corrupt(store.latest(&key(name)).map(drop));
        assert_corrupt(store.read(&Filter::Below(key("a")), 0, 10).map(drop));
        assert_corrupt(store.watch(Filter::Exactly(key(name)), 0).unwrap().next().await.map(drop));
        assert_eq!(commit(&store, append("a.log.y", "on")).await, [2]);
    }
}

#[tokio::test]
async fn any_flipped_bit_is_an_error_or_harmless() {
    let (dir, store) = open();
    for n in 0..60 {
        let value = format!("{n}-{}", "y".repeat(n * 5));
        let put = Write::Put(key(&format!("a.state.{n}")), value.clone().into());
        commit(&store, batch([Write::Append(key("a.log.x"), value.into()), put])).await;
    }
    let all = store.read(&Filter::Below(key("a")), 0, 1000).unwrap();
    drop(store);
    let sound = std::fs::read(file(dir.path())).unwrap();
    for n in 0..150_usize {
        for leftover in ["store.sqlite-wal", "store.sqlite-shm"] {
            drop(std::fs::remove_file(dir.path().join(leftover)));
        }
        std::fs::write(file(dir.path()), &sound).unwrap();
        flip(dir.path(), if n < 50 { n * 3 } else { n * 7919 }, (n % 8) as u8);
        let store = match super::super::open(dir.path(), StoreOptions::default()) {
            Ok(store) => store,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        let assert_genuine =
            |records: Vec<Record>| assert!(records.iter().all(|record| all.contains(record)), "flip {n}");
        store.read(&Filter::Below(key("a")), 0, 1000).map(assert_genuine).ok();
        for record in &all {
            store.latest(&record.key).map(|latest| assert_genuine(latest.into_iter().collect())).ok();
        }
        store.commit(Lane::Progress, append("a.log.x", "more")).await.ok();
    }
}

/// The records that any list, key and cursor must lead to; what can be read after a flip is one of them or an error.
#[tokio::test]
async fn a_flipped_bit_in_a_list_a_floor_or_the_head_is_an_error() {
    let (dir, store) = open();
    let entry = |at| ListEntry { list: key("a.list.0"), part: 3, at, group: 7 };
    for n in 0..3 {
        let put = Write::PutListed(key(&format!("a.state.{n}")), "1".into(), vec![entry(n)]);
        commit(&store, batch([put, append("a.log.x", "1").writes.remove(0)])).await;
    }
    store.trim(Filter::Exactly(key("a.log.x")), 4).await.unwrap();
    drop(store);
    let sound = std::fs::read(file(dir.path())).unwrap();
    let list = ListQuery { parts: vec![3], ..ListQuery::oldest(key("a.list.0")) };
    type Read = Box<dyn Fn(&SharedStore) -> Result<(), Error>>;
    let listed: Read = Box::new(move |store| store.list(&list, 9).map(drop));
    let watched: Read = Box::new(|store| store.watch(Filter::Exactly(key("a.log.x")), 0).map(drop));
    for (change, read) in [
        ("UPDATE lists SET at = 9 WHERE at = 1", Some(&listed)),
        ("UPDATE lists SET id = 3 WHERE at = 1", Some(&listed)),
        ("UPDATE state SET entries = x'00' || substr(entries, 2) WHERE id = 2", Some(&listed)),
        ("UPDATE floors SET floor = 0", Some(&watched)),
        ("UPDATE topics SET floor = 0 WHERE floor > 0", None),
        ("UPDATE topics SET id = 9 WHERE id = 1", None),
        ("UPDATE meta SET revision = 1", None),
        ("UPDATE meta SET generation = 'another'", None),
    ] {
        std::fs::write(file(dir.path()), &sound).unwrap();
        rusqlite::Connection::open(file(dir.path())).unwrap().execute_batch(change).unwrap();
        match (super::super::open(dir.path(), StoreOptions::default()), read) {
            (Ok(store), Some(read)) => {
                assert_eq!(store.damage(), Vec::<String>::new());
                for _ in 0..2 {
                    assert!(matches!(read(&store), Err(Error::Corrupt { .. })), "{change}");
                }
                assert_eq!(store.damage().len(), 1, "{change}");
                drop(store);
                let faults = super::super::check(dir.path(), false).unwrap().faults;
                assert!(!faults.is_empty(), "{change}");
            }
            (Err(OpenError::Damaged { why, .. }), None) => assert!(why.contains("checksum"), "{why}"),
            (opened, _) => panic!("{change}: {:?}", opened.map(drop)),
        }
    }
}

#[test]
fn a_file_that_is_no_store_is_refused_with_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(file(dir.path()), "not a database, but long enough to look like one".repeat(100)).unwrap();
    let error = super::super::open(dir.path(), StoreOptions::default()).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(&dir.path().display().to_string()), "{error}");

    let below_a_file = dir.path().join("store.sqlite/data");
    let error = super::super::open(&below_a_file, StoreOptions::default()).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[test]
fn a_store_of_a_newer_format_is_refused_with_both_formats() {
    let (dir, store) = open();
    drop(store);
    let on = rusqlite::Connection::open(file(dir.path())).unwrap();
    on.pragma_update(None, "user_version", 77).unwrap();
    drop(on);
    let error = super::super::open(dir.path(), StoreOptions::default()).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::OtherFormat { found: 77, known: 6, .. }), "{error}");
    assert!(
        error.to_string().contains("format 77") && error.to_string().contains("reads format 6"),
        "{error}"
    );
}

#[test]
fn a_directory_that_is_held_is_refused_with_its_holder() {
    let (dir, store) = open();
    let error = super::super::open(dir.path(), StoreOptions::default()).map(drop).unwrap_err();
    let message = error.to_string();
    assert!(message.contains(&dir.path().display().to_string()), "{message}");
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    drop(store);
    assert!(super::super::open(dir.path(), StoreOptions::default()).is_ok());
}
