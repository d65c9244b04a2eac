//! Which state keys there may be: most look-ups ask for a key that is not there (has this message been seen?), and are
//! answered without a read transaction.

use super::super::{Key, Write};
use super::schema;
use foldhash::fast::RandomState;
use rusqlite::Connection;
use std::collections::HashSet;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// More keys than this (some 40 MB) are not remembered: then every look-up reads.
const MOST: usize = 2_000_000;
/// This many keys are gathered while the store opens; more are gathered by a thread of their own.
const AT_ONCE: usize = 10_000;

/// A set of hashes of keys: says of a key that it is certainly not there, or that it may be.
pub(super) struct Presence {
    hasher: RandomState,
    keys: Mutex<Keys>,
    most: usize,
}

struct Keys {
    hashes: HashSet<u64, RandomState>,
    /// Whether every key of the file is in `hashes`.
    complete: bool,
    given_up: bool,
}

impl Presence {
    /// What `connection` holds. If that is much, look-ups read until a thread has gathered it.
    pub(super) fn of(connection: &Connection, dir: &Path) -> rusqlite::Result<Arc<Self>> {
        Self::bounded(connection, dir, MOST, AT_ONCE)
    }

    fn bounded(
        connection: &Connection,
        dir: &Path,
        most: usize,
        at_once: usize,
    ) -> rusqlite::Result<Arc<Self>> {
        let keys = Keys { hashes: HashSet::default(), complete: false, given_up: false };
        let presence = Arc::new(Self { hasher: RandomState::default(), keys: Mutex::new(keys), most });
        let Some(last) = presence.page(connection, "", at_once)? else {
            presence.all_gathered();
            return Ok(presence);
        };
        let (rest, dir) = (Arc::downgrade(&presence), dir.to_owned());
        let gathering = std::thread::Builder::new().name("store-keys".into()).spawn(move || {
            if let Err(error) = gather(&rest, &dir, last, at_once) {
                tracing::warn!(%error, "the store's keys can't be gathered: every look-up reads");
            }
        });
        if let Err(error) = gathering {
            tracing::warn!(%error, "the store's keys can't be gathered: every look-up reads");
        }
        Ok(presence)
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_gathered(&self) {
        let mut keys = self.keys();
        keys.complete = !keys.given_up;
    }

    /// Whether there may be a record under the state key `key`. `false` is certain.
    pub(super) fn may_hold(&self, key: &Key) -> bool {
        let hash = self.hasher.hash_one(key.as_str());
        let keys = self.keys();
        !keys.complete || keys.hashes.contains(&hash)
    }

    /// These are about to be written. Must be called before anybody can see them.
    pub(super) fn note<'w>(&self, writes: impl Iterator<Item = &'w Write>) {
        let puts = writes.filter_map(|write| if let Write::Put(key, _) = write { Some(key) } else { None });
        let hashes: Vec<_> = puts.map(|key| self.hasher.hash_one(key.as_str())).collect();
        let mut keys = self.keys();
        hashes.into_iter().for_each(|hash| self.add(&mut keys, hash));
    }

    fn add(&self, keys: &mut Keys, hash: u64) {
        if keys.given_up {
            return;
        }
        keys.hashes.insert(hash);
        if keys.hashes.len() > self.most {
            *keys = Keys { hashes: HashSet::default(), complete: false, given_up: true };
        }
    }

    /// Adds a page of keys after `after`; returns its last key if there may be more.
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

/// Reads all keys after `after`, a page at a time, so that no read transaction lasts; stops when the store is closed.
fn gather(rest: &Weak<Presence>, dir: &Path, mut after: String, page: usize) -> rusqlite::Result<()> {
    let connection = schema::reader(dir)?;
    loop {
        let Some(presence) = rest.upgrade() else { return Ok(()) };
        if presence.keys().given_up {
            return Ok(());
        }
        match presence.page(&connection, &after, page)? {
            Some(last) => after = last,
            None => {
                presence.all_gathered();
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::conformance::{commit, key};
    use super::super::{Options, open};
    use super::*;
    use std::time::{Duration, Instant};

    async fn filled(dir: &Path, count: usize) {
        let store = open(dir, Options::default()).unwrap();
        let put = |n| Write::Put(key(&format!("a.state.{n}")), "1".into());
        let batch = super::super::Batch { writes: (0..count).map(put).collect(), expectations: Vec::new() };
        commit(&store, batch).await;
    }

    fn wait_until(presence: &Presence, holds: impl Fn(&Keys) -> bool) {
        let started = Instant::now();
        while !holds(&presence.keys()) {
            assert!(started.elapsed() < Duration::from_secs(20), "the keys were not gathered");
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn every_key_of_a_file_may_be_there_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 100).await;
        let connection = schema::reader(dir.path()).unwrap();
        for page in [7, 100, 101] {
            let presence = Presence::bounded(&connection, dir.path(), MOST, page).unwrap();
            assert!(presence.may_hold(&key("a.state.1")));
            wait_until(&presence, |keys| keys.complete);
            assert!((0..100).all(|n| presence.may_hold(&key(&format!("a.state.{n}")))));
            assert!(!presence.may_hold(&key("a.state.x")));
            presence.note([Write::Put(key("a.state.x"), "1".into())].iter());
            assert!(presence.may_hold(&key("a.state.x")));
        }
    }

    #[tokio::test]
    async fn with_too_many_keys_any_may_be_there() {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 100).await;
        let connection = schema::reader(dir.path()).unwrap();
        for page in [7, 200] {
            let presence = Presence::bounded(&connection, dir.path(), 50, page).unwrap();
            wait_until(&presence, |keys| keys.given_up);
            assert!(presence.may_hold(&key("a.state.x")));
            assert!(presence.keys().hashes.is_empty());
        }
        let presence = Presence::bounded(&connection, dir.path(), 100, 200).unwrap();
        assert!(!presence.may_hold(&key("a.state.x")));
        presence.note([Write::Put(key("a.state.y"), "1".into())].iter());
        assert!(presence.may_hold(&key("a.state.x")));
    }
}
