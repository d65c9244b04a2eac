//! Limits the open streams of each principal on the whole node, so that a client that leaks streams does not block others.

use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The open streams of each principal, and their limit.
#[derive(Debug)]
pub struct StreamLimit {
    max: usize,
    open: Mutex<BTreeMap<String, usize>>,
}

/// Permission for one open stream, released on drop.
pub(crate) struct StreamPermit(Arc<StreamLimit>, String);

impl StreamLimit {
    /// Allows `max` streams for each principal; 0 means no limit.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default() })
    }

    /// A permit for `reader`, or 429.
    pub(in crate::http) fn acquire(self: &Arc<Self>, reader: &Principal) -> Result<StreamPermit, Problem> {
        let reader = reader.to_string();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(reader.clone()).or_default();
        if self.max > 0 && *count >= self.max {
            let message =
                format!("{reader} reads {count} streams here, which is the limit; close some first");
            let problem = Problem::new(Reason::RateLimited, message).with("limit", self.max);
            return Err(problem.retry_after(Duration::from_secs(5)));
        }
        *count += 1;
        drop(open);
        Ok(StreamPermit(Arc::clone(self), reader))
    }

    /// The number of open streams of each principal.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let Self(limit, reader) = self;
        let mut open = limit.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(reader) {
            *count -= 1;
            if *count == 0 {
                open.remove(reader);
            }
        }
    }
}
