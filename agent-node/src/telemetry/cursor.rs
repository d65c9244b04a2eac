//! How far the spans of an agent's journal have been exported. The position is in the agent's store: after kill -9 the spans
//! that the backend had not accepted are exported again. A span that arrives twice has the same id.

use blackboard::store::{Batch, Error, Key, Lane, Revision, SharedStore, Write};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The export position of one agent's journal.
pub struct SpanCursor {
    store: SharedStore,
    key: Key,
    state: Mutex<CursorState>,
}

#[derive(Default)]
struct CursorState {
    /// Steps whose spans wait for the backend, with the number of their exports.
    pending: BTreeMap<Revision, usize>,
    highest: Revision,
    saved: Option<Revision>,
}

/// A step whose spans wait for the backend. Drop it when they are accepted or lost.
pub struct PendingExport(Arc<SpanCursor>, Revision);

impl SpanCursor {
    /// Loads the cursor under `key` and its position: the store's head if there was none, which the caller has to save.
    pub fn load(store: SharedStore, key: Key) -> Result<(Arc<Self>, Revision), Error> {
        let saved: Option<Revision> =
            store.latest(&key)?.and_then(|record| serde_json::from_slice(&record.value).ok());
        let from = saved.unwrap_or_else(|| store.head());
        let state = CursorState { highest: from, saved, ..CursorState::default() };
        Ok((Arc::new(Self { store, key, state: Mutex::new(state) }), from))
    }

    /// Holds the position before the step at `revision` until its [`PendingExport`] is dropped.
    pub fn begin(self: &Arc<Self>, revision: Revision) -> PendingExport {
        let mut state = self.lock();
        *state.pending.entry(revision).or_default() += 1;
        state.highest = state.highest.max(revision);
        PendingExport(self.clone(), revision)
    }

    /// Writes the position to the store if it has advanced.
    pub async fn save(&self) {
        let position = {
            let mut state = self.lock();
            let position = state.pending.first_key_value().map_or(state.highest, |(first, _)| first - 1);
            if state.saved.is_some_and(|saved| position <= saved) {
                return;
            }
            state.saved = Some(position);
            position
        };
        let write = Write::Put(self.key.clone(), position.to_string().into_bytes().into());
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        if let Err(error) = self.store.commit(Lane::Progress, batch).await {
            tracing::debug!(%error, "the span cursor is not saved: after a restart spans are exported again");
        }
    }

    fn lock(&self) -> MutexGuard<'_, CursorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingExport {
    /// The cursor that it holds.
    pub fn cursor(&self) -> &Arc<SpanCursor> {
        &self.0
    }
}

impl Drop for PendingExport {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if let Some(count) = state.pending.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                state.pending.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blackboard::store::memory;

    #[tokio::test]
    async fn the_position_stays_before_the_first_pending_step() {
        let (store, key) = (memory::new(), Key::new(&["a", "told", "traces"]));
        let load = || SpanCursor::load(store.clone(), key.clone()).unwrap();
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
