//! The set of state keys that may exist. Most look-ups are for an absent key (dedup of messages) and are answered without a
//! read transaction.

use super::super::{Key, Write};
use super::schema;
use foldhash::fast::RandomState;
use rusqlite::Connection;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bits of a filter (8 MiB). Of look-ups of absent keys, 1 in 1,500 reads with 2 million keys, 1 in 8 with 15 million.
const BITS: u64 = 1 << 26;
/// The bits of a key.
const BITS_PER_KEY: u64 = 3;
/// With so many additions since a filter was begun, another is begun, without the keys deleted meanwhile.
const MAX_ADDITIONS: u64 = 8_000_000;
/// The keys read while the store opens, and per page afterwards. A thread reads the others.
const PAGE_AT_OPEN: usize = 10_000;

/// A Bloom filter of keys. It says that a key is certainly absent, or that it may exist.
struct KeyFilter {
    words: Box<[AtomicU64]>,
}

impl KeyFilter {
    fn new() -> Self {
        Self { words: (0..BITS / 64).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Words and masks of a key's bits.
    fn bits(hash: u64) -> impl Iterator<Item = (usize, u64)> {
        let step = (hash >> 32) | 1;
        let bits = (0..BITS_PER_KEY).map(move |n| hash.wrapping_add(n.wrapping_mul(step)) % BITS);
        bits.map(|bit| (usize::try_from(bit / 64).unwrap_or_default(), 1 << (bit % 64)))
    }

    fn add(&self, hash: u64) {
        for (word, mask) in Self::bits(hash) {
            self.words[word].fetch_or(mask, Ordering::Relaxed);
        }
    }

    fn may_hold(&self, hash: u64) -> bool {
        Self::bits(hash).all(|(word, mask)| self.words[word].load(Ordering::Relaxed) & mask != 0)
    }
}

/// The filter in use and the one that is being filled.
pub(super) struct KeyPresence {
    hasher: RandomState,
    filters: Mutex<KeyFilters>,
    max_additions: u64,
    page: usize,
    dir: PathBuf,
}

struct KeyFilters {
    /// Has every key of the file; `None` until the first is filled.
    complete: Option<Arc<KeyFilter>>,
    /// Gets every new key; a thread adds those of the file.
    filling: Option<Arc<KeyFilter>>,
    /// Keys added since the newest filter was begun.
    additions: u64,
}

impl KeyPresence {
    /// The keys of the file. If it has many, look-ups read until a thread has collected them.
    pub(super) fn of(connection: &Connection, dir: &Path) -> rusqlite::Result<Arc<Self>> {
        Self::bounded(connection, dir, MAX_ADDITIONS, PAGE_AT_OPEN)
    }

    fn bounded(
        connection: &Connection,
        dir: &Path,
        max_additions: u64,
        page: usize,
    ) -> rusqlite::Result<Arc<Self>> {
        let filter = Arc::new(KeyFilter::new());
        let filters = KeyFilters { complete: None, filling: Some(filter.clone()), additions: 0 };
        let (hasher, filters, dir) = (RandomState::default(), Mutex::new(filters), dir.to_owned());
        let presence = Arc::new(Self { hasher, filters, max_additions, page, dir });
        match presence.add_page(&filter, connection, "")? {
            Some(last) => presence.collect_in_thread(filter, last),
            None => presence.complete(filter),
        }
        Ok(presence)
    }

    fn filters(&self) -> MutexGuard<'_, KeyFilters> {
        self.filters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self, filter: Arc<KeyFilter>) {
        let mut filters = self.filters();
        (filters.complete, filters.filling) = (Some(filter), None);
    }

    /// Whether the state key `key` may have a record. `false` is certain.
    pub(super) fn may_hold(&self, key: &Key) -> bool {
        let complete = self.filters().complete.clone();
        complete.is_none_or(|filter| filter.may_hold(self.hasher.hash_one(key.as_str())))
    }

    /// Adds the keys of `writes`. Must be called before the writes become visible.
    pub(super) fn note<'w>(self: &Arc<Self>, writes: impl Iterator<Item = &'w Write>) {
        let mut filters = self.filters();
        let KeyFilters { complete, filling, additions } = &mut *filters;
        // Before the additions: all earlier ones are visible to the thread, and these go into its filter.
        if *additions > self.max_additions && filling.is_none() {
            let filter = Arc::new(KeyFilter::new());
            (*filling, *additions) = (Some(filter.clone()), 0);
            self.collect_in_thread(filter, String::new());
        }
        for write in writes {
            let (Write::Put(key, _) | Write::PutListed(key, ..)) = write else { continue };
            let hash = self.hasher.hash_one(key.as_str());
            *additions += 1;
            complete.iter().chain(filling.iter()).for_each(|filter| filter.add(hash));
        }
    }

    /// Adds the page of keys after `after`. Returns its last key if there may be more.
    fn add_page(&self, filter: &KeyFilter, on: &Connection, after: &str) -> rusqlite::Result<Option<String>> {
        let mut query = on.prepare_cached("SELECT key FROM state WHERE key > ? ORDER BY key LIMIT ?")?;
        let mut rows = query.query((after, self.page))?;
        let (mut read, mut last) = (0, None);
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_str()?;
            filter.add(self.hasher.hash_one(key));
            read += 1;
            if read == self.page {
                last = Some(key.to_owned());
            }
        }
        Ok(last)
    }

    fn collect_in_thread(self: &Arc<Self>, filter: Arc<KeyFilter>, after: String) {
        let weak = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("store-keys".into()).spawn(move || {
            if let Err(error) = collect_keys(&weak, filter, after) {
                tracing::warn!(%error, "the store's keys can't be gathered: more look-ups read");
            }
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "the store's keys can't be gathered: more look-ups read");
        }
    }
}

/// Adds all keys after `after`, page by page to keep read transactions short. Stops when the store is closed.
fn collect_keys(weak: &Weak<KeyPresence>, filter: Arc<KeyFilter>, mut after: String) -> rusqlite::Result<()> {
    let Some(presence) = weak.upgrade() else { return Ok(()) };
    let connection = schema::reader(&presence.dir)?;
    drop(presence);
    loop {
        let Some(presence) = weak.upgrade() else { return Ok(()) };
        match presence.add_page(&filter, &connection, &after)? {
            Some(last) => after = last,
            None => {
                presence.complete(filter);
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

    fn wait_until_complete(presence: &KeyPresence) {
        let started = Instant::now();
        while presence.filters().filling.is_some() {
            assert!(started.elapsed() < Duration::from_secs(20), "the keys were not gathered");
            std::thread::yield_now();
        }
    }

    fn absent(presence: &KeyPresence) -> usize {
        (0..100).filter(|n| !presence.may_hold(&key(&format!("a.none.{n}")))).count()
    }

    #[tokio::test]
    async fn keys_of_the_file_may_exist_and_others_are_absent() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), 100).await;
        let connection = schema::reader(dir.path()).unwrap();
        for page in [7, 100, 101] {
            let presence = KeyPresence::bounded(&connection, dir.path(), MAX_ADDITIONS, page).unwrap();
            assert!(presence.may_hold(&key("a.state.1")));
            wait_until_complete(&presence);
            assert!((0..100).all(|n| presence.may_hold(&key(&format!("a.state.{n}")))));
            assert!(absent(&presence) > 90);
            presence.note([Write::Put(key("a.state.x"), "1".into())].iter());
            assert!(presence.may_hold(&key("a.state.x")));
        }
    }

    #[tokio::test]
    async fn a_filter_with_many_additions_is_replaced_by_one_of_the_present_keys() {
        let dir = tempfile::tempdir().unwrap();
        fill(dir.path(), 100).await;
        let connection = schema::reader(dir.path()).unwrap();
        let presence = KeyPresence::bounded(&connection, dir.path(), 50, 7).unwrap();
        wait_until_complete(&presence);
        let gone: Vec<_> = (0..51).map(|n| Write::Put(key(&format!("a.gone.{n}")), "1".into())).collect();
        presence.note(gone.iter());
        presence.note([Write::Put(key("a.state.x"), "1".into())].iter());
        wait_until_complete(&presence);
        assert!((0..100).all(|n| presence.may_hold(&key(&format!("a.state.{n}")))));
        assert!(presence.may_hold(&key("a.state.x")), "added while the filter was filled");
        let kept = gone.iter().filter(|write| presence.may_hold(write.key())).count();
        assert!(kept < 10, "{kept} of 51 deleted keys");
        assert!(absent(&presence) > 90);
    }
}
