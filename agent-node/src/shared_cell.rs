//! A shared value that is read often and replaced rarely.

use std::sync::{Arc, PoisonError, RwLock};

/// A value behind a lock that is replaced as a whole. Clones share it.
#[derive(Debug)]
pub struct SharedCell<T>(Arc<RwLock<Arc<T>>>);

impl<T> Clone for SharedCell<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> SharedCell<T> {
    /// A cell that holds `value`.
    pub fn new(value: impl Into<Arc<T>>) -> Self {
        Self(Arc::new(RwLock::new(value.into())))
    }

    /// The current value.
    pub fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value.
    pub fn put(&self, value: impl Into<Arc<T>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value.into();
    }
}
