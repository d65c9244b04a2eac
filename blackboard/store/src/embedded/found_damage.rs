//! What reads of a store have found damaged.

use super::super::Error;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The most that is kept of what was found.
const MAX_FOUND: usize = 100;

/// Records, rows and lists that do not match their checksums, each once, since the store was opened.
#[derive(Default)]
pub(super) struct FoundDamage(Mutex<BTreeSet<String>>);

impl FoundDamage {
    /// Keeps and logs `error` if it is of damage that is not known yet.
    pub(super) fn note(&self, error: &Error) {
        if !matches!(error, Error::Corrupt { .. }) {
            return;
        }
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < MAX_FOUND && found.insert(error.to_string()) {
            tracing::error!(%error, "the store is damaged: put a copy of it back; `mesh store check` lists all");
        }
    }

    /// What was found, at most 100 of it.
    pub(super) fn list(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
