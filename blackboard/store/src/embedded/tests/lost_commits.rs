//! A write-ahead log that is damaged in front of acknowledged commits is refused at the start; a torn last one is not.

use super::super::{OpenError, check, open as open_dir};
use super::{SharedStore, StoreOptions, append, commit, key, open};
use crate::Filter;
use std::ops::Range;
use std::path::{Path, PathBuf};

const HEADER: usize = 32;
const FRAME: usize = 24 + 2048;

fn log(dir: &Path) -> PathBuf {
    dir.join("store.sqlite-wal")
}

/// What a `kill -9` leaves of the store in `dir`, which is open.
fn killed(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["store.sqlite", "store.sqlite-wal"] {
        std::fs::copy(dir.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

/// The bytes of each transaction in the log of `dir`.
fn transactions(dir: &Path) -> Vec<Range<usize>> {
    let bytes = std::fs::read(log(dir)).unwrap();
    let mut start = HEADER;
    let ends = (HEADER..bytes.len()).step_by(FRAME).filter(|at| bytes[at + 4..at + 8] != [0; 4]);
    ends.map(|at| std::mem::replace(&mut start, at + FRAME)..at + FRAME).collect()
}

fn change(dir: &Path, with: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(log(dir)).unwrap();
    with(&mut bytes);
    std::fs::write(log(dir), bytes).unwrap();
}

/// The last transaction reached the disk but for its first page.
fn tear(dir: &Path) {
    let last = transactions(dir).pop().unwrap();
    assert!(last.len() > FRAME, "it has several pages");
    change(dir, |bytes| bytes[last.start..last.start + FRAME].fill(0));
}

async fn append_each(store: &SharedStore, values: Range<usize>, bytes: usize) {
    for n in values {
        commit(store, append("a.log.x", &format!("{n} {}", "x".repeat(bytes)))).await;
    }
}

fn count(store: &SharedStore) -> usize {
    store.read(&Filter::Below(key("a")), 0, 1000).unwrap().len()
}

#[tokio::test]
async fn a_flip_in_the_last_commit_but_one_is_refused_and_given_up_on_demand() {
    for in_header in [false, true] {
        let (dir, store) = open();
        append_each(&store, 0..20, 10).await;
        let dir = killed(dir.path());
        let transactions = transactions(dir.path());
        let at = if in_header { 9 } else { transactions[transactions.len() - 2].start + 100 };
        change(dir.path(), |bytes| bytes[at] ^= 4);
        let damaged = std::fs::read(log(dir.path())).unwrap();

        let refused = open_dir(dir.path(), StoreOptions::default()).map(drop).unwrap_err();
        let lost = if in_header { transactions.len() as u64 } else { 2 };
        assert!(
            matches!(&refused, OpenError::LostCommits { lost: found, .. } if found.commits == lost),
            "{refused}"
        );
        assert!(refused.to_string().contains("mesh store check --accept-loss"), "{refused}");
        assert!(matches!(check(dir.path(), false), Err(OpenError::LostCommits { .. })));
        assert_eq!(std::fs::read(log(dir.path())).unwrap(), damaged, "nothing is changed");

        let given_up = check(dir.path(), true).unwrap();
        let copies = given_up.lost.unwrap().copies;
        assert_eq!(std::fs::read(&copies[1]).unwrap(), damaged);
        assert_eq!(given_up.faults, Vec::<String>::new());
        let after = open_dir(dir.path(), StoreOptions::default()).unwrap();
        assert_ne!(after.generation(), store.generation());
        assert_eq!(count(&after), if in_header { 0 } else { 18 });
        append_each(&after, 20..21, 10).await;
    }
}

#[tokio::test]
async fn a_torn_commit_is_dropped_quietly_whatever_was_torn_before_it() {
    let (dir, store) = open();
    append_each(&store, 0..3, 10).await;
    // Longer than what is written over it.
    append_each(&store, 3..4, 40_000).await;
    let torn = killed(dir.path());
    tear(torn.path());

    let store = open_dir(torn.path(), StoreOptions::default()).unwrap();
    assert_eq!(count(&store), 3);
    append_each(&store, 3..5, 10).await;
    let torn_again = killed(torn.path());
    tear(torn_again.path());
    let store = open_dir(torn_again.path(), StoreOptions::default()).unwrap();
    assert_eq!(count(&store), 4);

    let killed = killed(torn_again.path());
    assert_eq!(count(&open_dir(killed.path(), StoreOptions::default()).unwrap()), 4);
}
