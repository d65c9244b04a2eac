//! Something that is read all the time and replaced now and then, by whoever shares it.

use std::sync::{Arc, PoisonError, RwLock};

/// The latest of its kind. Clones share it.
#[derive(Debug)]
pub struct Latest<T>(Arc<RwLock<Arc<T>>>);

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Latest<T> {
    /// `first`, until it is replaced.
    pub fn new(first: impl Into<Arc<T>>) -> Self {
        Self(Arc::new(RwLock::new(first.into())))
    }

    /// As it is.
    pub fn get(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it for everybody who asks from here on.
    pub fn put(&self, next: impl Into<Arc<T>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next.into();
    }
}
