//! Limits the open streams of each caller on the whole node, so that a client that leaks streams does not block others.

use crate::budget_holder::{BudgetHolder, HolderLimit, HolderPermit};
use protocol::problem::{Problem, Reason};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The open streams of each caller, and their limit.
#[derive(Debug, Clone)]
pub struct StreamLimit(Arc<HolderLimit>);

/// Permission for one open stream, released on drop.
pub(crate) struct StreamPermit(#[expect(dead_code, reason = "held")] HolderPermit);

impl StreamLimit {
    /// Allows `max` streams for each caller; 0 means no limit.
    pub fn new(max: usize) -> Self {
        Self(HolderLimit::new(max))
    }

    /// A permit for `reader`, or 429.
    pub(in crate::http) fn acquire(&self, reader: &BudgetHolder) -> Result<StreamPermit, Problem> {
        let Self(limit) = self;
        limit.acquire(reader).map(StreamPermit).ok_or_else(|| {
            let max = limit.max();
            let message = format!("{reader} reads {max} streams here, which is the limit; close some first");
            let problem = Problem::new(Reason::RateLimited, message).with("limit", max);
            problem.retry_after(Duration::from_secs(5))
        })
    }

    /// The number of open streams of each caller.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.0.counts()
    }
}
