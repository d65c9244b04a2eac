//! How many streams one principal reads at once, on the whole node: whoever forgets to close what it opened keeps nobody
//! else from reading.

use protocol::{
    principal::Principal,
    problem::{Problem, Reason},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Who reads how many.
#[derive(Debug)]
pub struct Readers {
    most: usize,
    open: Mutex<BTreeMap<String, usize>>,
}

/// One open stream, given back when dropped.
pub(crate) struct Seat(Arc<Readers>, String);

impl Readers {
    /// `most` for each principal; 0 is no limit.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default() })
    }

    /// A seat for `reader`, or 429.
    pub(super) fn enter(self: &Arc<Self>, reader: &Principal) -> Result<Seat, Problem> {
        let reader = reader.to_string();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(reader.clone()).or_default();
        if self.most > 0 && *count >= self.most {
            let message =
                format!("{reader} reads {count} streams here, which is the limit; close some first");
            let problem = Problem::new(Reason::RateLimited, message).with("limit", self.most);
            return Err(problem.retry_after(Duration::from_secs(5)));
        }
        *count += 1;
        drop(open);
        Ok(Seat(Arc::clone(self), reader))
    }

    /// How many streams each principal reads.
    pub fn open(&self) -> BTreeMap<String, usize> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Self(readers, reader) = self;
        let mut open = readers.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(reader) {
            *count -= 1;
            if *count == 0 {
                open.remove(reader);
            }
        }
    }
}
