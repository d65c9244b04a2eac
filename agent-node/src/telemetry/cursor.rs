//! How far an agent's journal has been told: kept in its store, so that what a killed process had told and its backend
//! had not taken is told again after the restart. A span that comes twice has the same id.

use blackboard::store::{Batch, Error, Key, Lane, Revision, Shared, Write};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How far one agent's journal has been told.
pub struct Cursor {
    store: Shared,
    key: Key,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    /// Steps that are being told, each how often.
    under_way: BTreeMap<Revision, usize>,
    highest: Revision,
    saved: Option<Revision>,
}

/// A step that is being told; it has been, or is given up, when this is dropped.
pub struct UnderWay(Arc<Cursor>, Revision);

impl Cursor {
    /// The cursor under `key`, and where it stood; the store's head if there was none, which is for its owner to save.
    pub fn load(store: Shared, key: Key) -> Result<(Arc<Self>, Revision), Error> {
        let kept = store.latest(&key)?.and_then(|record| serde_json::from_slice(&record.value).ok());
        let from = kept.unwrap_or_else(|| store.head());
        let told = Told { highest: from, saved: kept, ..Told::default() };
        Ok((Arc::new(Self { store, key, told: Mutex::new(told) }), from))
    }

    /// The step at `revision` is going to be told.
    pub fn begin(self: &Arc<Self>, revision: Revision) -> UnderWay {
        let mut told = self.told();
        *told.under_way.entry(revision).or_default() += 1;
        told.highest = told.highest.max(revision);
        UnderWay(self.clone(), revision)
    }

    /// Keeps how far it is, if that has changed.
    pub async fn save(&self) {
        let stands = {
            let mut told = self.told();
            let stands = told.under_way.first_key_value().map_or(told.highest, |(first, _)| first - 1);
            if told.saved.is_some_and(|saved| stands <= saved) {
                return;
            }
            told.saved = Some(stands);
            stands
        };
        let write = Write::Put(self.key.clone(), stands.to_string().into_bytes().into());
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        if let Err(error) = self.store.commit(Lane::Progress, batch).await {
            tracing::debug!(%error, "how far traces have been told is not kept; they are told again");
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// Whose step it is.
    pub fn cursor(&self) -> &Arc<Cursor> {
        &self.0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut told = self.0.told();
        if let Some(often) = told.under_way.get_mut(&self.1) {
            *often -= 1;
            if *often == 0 {
                told.under_way.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blackboard::store::memory;

    #[tokio::test]
    async fn nothing_that_is_still_under_way_counts_as_told() {
        let (store, key) = (memory::new(), Key::new(&["a", "told", "traces"]));
        let load = || Cursor::load(store.clone(), key.clone()).unwrap();
        let (cursor, from) = load();
        assert_eq!(from, 0);
        let (first, second) = (cursor.begin(5), cursor.begin(9));
        drop(second);
        cursor.save().await;
        assert_eq!(load().1, 4);
        drop(first);
        cursor.save().await;
        assert_eq!(load().1, 9);
    }
}
