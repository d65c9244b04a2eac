//! Expectations that need no look-up of their own: they are the condition of the very write they guard.

use super::super::{Batch, Expectation, Write};
use super::schema::Topic;
use std::collections::HashMap;

/// Pairs of an expectation and a put of the same key, by their places in the batch. At most the last of them replaces a
/// record: all before it insert, which a deletion undoes exactly.
pub(super) struct Conditional(pub(super) Vec<(usize, usize)>);

impl Conditional {
    /// Those of `batch` whose key is expected once and written once, in a topic that is there already.
    pub(super) fn among(batch: &Batch, topics: &HashMap<String, Topic>) -> Self {
        let mut pairs = Vec::new();
        let mut replacing = None;
        for (at, expectation) in batch.expectations.iter().enumerate() {
            let key = expectation.key();
            let mut writes = batch.writes.iter().enumerate().filter(|(_, write)| write.key() == key);
            let (Some((written, Write::Put(..))), None) = (writes.next(), writes.next()) else { continue };
            let expected = batch.expectations.iter().filter(|other| other.key() == key).count();
            if expected > 1 || !topics.contains_key(key.topic()) {
                continue;
            }
            match expectation {
                Expectation::Absent(_) => pairs.push((at, written)),
                Expectation::At(_, 0) => {}
                Expectation::At(..) if replacing.is_none() => replacing = Some((at, written)),
                Expectation::At(..) => {}
            }
        }
        pairs.extend(replacing);
        Self(pairs)
    }

    /// Whether the expectation at this place is one of them.
    pub(super) fn covers(&self, expectation: usize) -> bool {
        self.0.iter().any(|(at, _)| *at == expectation)
    }

    /// Whether the write at this place is one of them.
    pub(super) fn writes(&self, write: u64) -> bool {
        self.0.iter().any(|(_, at)| *at as u64 == write)
    }
}
