//! Damaged data is an error, never data and never a panic.

use super::super::super::{Error, Filter, Record};
use super::{Lane, Write};
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
    assert!(matches!(error, OpenError::OtherFormat { found: 77, known: 5, .. }), "{error}");
    assert!(
        error.to_string().contains("format 77") && error.to_string().contains("reads format 5"),
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
