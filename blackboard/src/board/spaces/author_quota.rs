//! The bound on the entries of one author in one space.

use crate::{feed::run_blocking, spaces::EntryQuery};
use protocol::{
    ids::SpaceId,
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use store::SharedStore;

/// How many entries each author has in each space. An author is counted in the store when it first posts; writes go on from
/// there. Results of merges are counted with the next count only, and they are never refused.
#[derive(Debug, Default)]
pub(super) struct AuthorCounts(Mutex<HashMap<(SpaceId, Principal), Arc<AtomicU64>>>);

/// A place of one entry. It is given back if it is dropped, and the entry was not written.
#[derive(Debug)]
pub(super) struct EntryPlace(Option<Arc<AtomicU64>>);

impl EntryPlace {
    /// The entry is written.
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for EntryPlace {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl AuthorCounts {
    /// Counts every author again when it posts next.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Takes a place for one more entry of `author` in `space`. Refused with `entry_quota` at `limit`; 0 is no limit.
    pub(super) async fn take_place(
        &self,
        store: &SharedStore,
        space: &SpaceId,
        author: &Principal,
        limit: u64,
    ) -> Result<EntryPlace, Problem> {
        if limit == 0 {
            return Ok(EntryPlace(None));
        }
        let key = (space.clone(), author.clone());
        let known = self.lock().get(&key).cloned();
        let count = match known {
            Some(count) => count,
            None => {
                let (store, (space, author)) = (store.clone(), key.clone());
                let counted =
                    run_blocking(move || EntryQuery::count_of_author(store.as_ref(), &space, &author))
                        .await?;
                self.lock().entry(key).or_insert_with(|| Arc::new(AtomicU64::new(counted))).clone()
            }
        };
        let is_free = |count| (count < limit).then_some(count + 1);
        match count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free) {
            Ok(_) => Ok(EntryPlace(Some(count))),
            Err(_) => {
                let message = format!(
                    "{author} has {limit} entries in the space {space}, the limit of one author (limits.maxEntriesPerAuthor): \
                     propose under a slug that it has, use another space, or raise the limit; what nobody uses any more is \
                     removed after limits.keepEntriesMs"
                );
                Err(Problem::new(Reason::EntryQuota, message).with("limit", limit))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(SpaceId, Principal), Arc<AtomicU64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
