//! The set of state keys that may exist. Most look-ups are for an absent key (dedup of messages) and are answered without a
//! read transaction.

use super::super::{Key, Write};
use super::schema;
use foldhash::fast::RandomState;
use rusqlite::Connection;
use std::collections::HashSet;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// With more keys than this (about 40 MB), every look-up reads.
const MAX_KEYS: usize = 2_000_000;
/// The keys read while the store opens, and per page afterwards. A thread reads the others.
const PAGE_AT_OPEN: usize = 10_000;

/// A set of key hashes. It says that a key is certainly absent, or that it may exist.
pub(super) struct KeyPresence {
    hasher: RandomState,
    keys: Mutex<KeyHashes>,
    max_keys: usize,
}

struct KeyHashes {
    hashes: HashSet<u64, RandomState>,
    /// Whether every key of the file is in `hashes`.
    is_complete: bool,
    is_abandoned: bool,
}

impl KeyPresence {
    /// The keys of the file. If it has many, look-ups read until a thread has collected them.
    pub(super) fn of(connection: &Connection, dir: &Path) -> rusqlite::Result<Arc<Self>> {
        Self::bounded(connection, dir, MAX_KEYS, PAGE_AT_OPEN)
    }

    fn bounded(
        connection: &Connection,
        dir: &Path,
        max_keys: usize,
        page: usize,
    ) -> rusqlite::Result<Arc<Self>> {
        let keys = KeyHashes { hashes: HashSet::default(), is_complete: false, is_abandoned: false };
        let presence = Arc::new(Self { hasher: RandomState::default(), keys: Mutex::new(keys), max_keys });
        let Some(last) = presence.page(connection, "", page)? else {
            presence.mark_complete();
            return Ok(presence);
        };
        let (weak, dir) = (Arc::downgrade(&presence), dir.to_owned());
        let thread = std::thread::Builder::new().name("store-keys".into()).spawn(move || {
            if let Err(error) = collect_keys(&weak, &dir, last, page) {
                tracing::warn!(%error, "the store's keys can't be gathered: every look-up reads");
            }
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "the store's keys can't be gathered: every look-up reads");
        }
        Ok(presence)
    }

    fn keys(&self) -> MutexGuard<'_, KeyHashes> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark_complete(&self) {
        let mut keys = self.keys();
        keys.is_complete = !keys.is_abandoned;
    }

    /// Whether the state key `key` may have a record. `false` is certain.
    pub(super) fn may_hold(&self, key: &Key) -> bool {
        let hash = self.hasher.hash_one(key.as_str());
        let keys = self.keys();
        !keys.is_complete || keys.hashes.contains(&hash)
    }

    /// Adds the keys of `writes`. Must be called before the writes become visible.
    pub(super) fn note<'w>(&self, writes: impl Iterator<Item = &'w Write>) {
        let puts = writes.filter_map(|write| match write {
            Write::Put(key, _) | Write::PutListed(key, ..) => Some(key),
            Write::Append(..) | Write::Delete(_) | Write::Trim(..) => None,
        });
        let hashes: Vec<_> = puts.map(|key| self.hasher.hash_one(key.as_str())).collect();
        let mut keys = self.keys();
        hashes.into_iter().for_each(|hash| self.add(&mut keys, hash));
    }

    fn add(&self, keys: &mut KeyHashes, hash: u64) {
        if keys.is_abandoned {
            return;
        }
        keys.hashes.insert(hash);
        if keys.hashes.len() > self.max_keys {
            *keys = KeyHashes { hashes: HashSet::default(), is_complete: false, is_abandoned: true };
        }
    }

    /// Adds a page of keys after `after`. Returns its last key if there may be more.
    fn page(&self, on: &Connection, after: &str, size: usize) -> rusqlite::Result<Option<String>> {
        let mut query = on.prepare_cached("SELECT key FROM state WHERE key > ? ORDER BY key LIMIT ?")?;
        let mut rows = query.query((after, size))?;
        let (mut hashes, mut last) = (Vec::new(), None);
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_str()?;
            hashes.push(self.hasher.hash_one(key));
            if hashes.len() == size {
                last = Some(key.to_owned());
            }
        }
        let mut keys = self.keys();
        hashes.into_iter().for_each(|hash| self.add(&mut keys, hash));
        Ok(last)
    }
}

/// Adds all keys after `after`, page by page to keep read transactions short. Stops when the store is closed.
fn collect_keys(
    weak: &Weak<KeyPresence>,
    dir: &Path,
    mut after: String,
    page: usize,
) -> rusqlite::Result<()> {
    let connection = schema::reader(dir)?;
    loop {
        let Some(presence) = weak.upgrade() else { return Ok(()) };
        if presence.keys().is_abandoned {
            return Ok(());
        }
        match presence.page(&connection, &after, page)? {
            Some(last) => after = last,
            None => {
                presence.mark_complete();
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::conformance::{commit, key};
    use super::super::{StoreOptions, open};
    use super::*;
    use std::time::{Duration, Instant};

    async fn fill(dir: &Path, count: usize) {
        let store = open(dir, StoreOptions::default()).unwrap();
        let put = |n| Write::Put(key(&format!("a.state.{n}")), "1".into());
        let batch = super::super::Batch { writes: (0..count).map(put).collect(), expectations: Vec::new() };
        commit(&store, batch).await;
    }

    fn wait_until(presence: &KeyPresence, holds: impl Fn(&KeyHashes) -> bool) {
        let started = Instant::now();
        while !holds(&presence.keys()) {
            assert!(started.elapsed() < Duration::from_secs(20), "the keys were not gathered");
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn keys_of_the_file_may_exist_and_others_are_absent() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), 100).await;
        let connection = schema::reader(dir.path()).unwrap();
        for page in [7, 100, 101] {
            let presence = KeyPresence::bounded(&connection, dir.path(), MAX_KEYS, page).unwrap();
            assert!(presence.may_hold(&key("a.state.1")));
            wait_until(&presence, |keys| keys.is_complete);
            assert!((0..100).all(|n| presence.may_hold(&key(&format!("a.state.{n}")))));
            assert!(!presence.may_hold(&key("a.state.x")));
            presence.note([Write::Put(key("a.state.x"), "1".into())].iter());
            assert!(presence.may_hold(&key("a.state.x")));
        }
    }

    #[tokio::test]
    async fn with_too_many_keys_every_key_may_exist() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), 100).await;
        let connection = schema::reader(dir.path()).unwrap();
        for page in [7, 200] {
            let presence = KeyPresence::bounded(&connection, dir.path(), 50, page).unwrap();
            wait_until(&presence, |keys| keys.is_abandoned);
            assert!(presence.may_hold(&key("a.state.x")));
            assert!(presence.keys().hashes.is_empty());
        }
        let presence = KeyPresence::bounded(&connection, dir.path(), 100, 200).unwrap();
        assert!(!presence.may_hold(&key("a.state.x")));
        presence.note([Write::Put(key("a.state.y"), "1".into())].iter());
        assert!(presence.may_hold(&key("a.state.x")));
    }
}
