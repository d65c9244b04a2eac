//! The embedded store keeps what every store keeps, and what only a file can break.

use super::*;

/// A store in a directory of its own, which lasts as long as the first part.
fn open() -> (tempfile::TempDir, Shared) {
    let dir = tempfile::tempdir().unwrap();
    let store = super::open(dir.path(), Options::default()).unwrap();
    (dir, store)
}

super::super::conformance::suite!(open());
