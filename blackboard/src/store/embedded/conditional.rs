//! Expectations that need no look-up of their own: they are the condition of the very write they guard.

use super::super::{Batch, Expectation, Write};
use super::schema::Topic;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Pairs of an expectation and a put of the same key, by their places in the batch. At most the last of them replaces a
/// record: all before it insert, which a deletion undoes exactly.
pub(super) struct Conditional(pub(super) Vec<(usize, usize)>);

impl Conditional {
    /// Those of `batch` whose key is expected once and written once, in a topic that is there already.
    pub(super) fn among(batch: &Batch, topics: &HashMap<String, Topic>) -> Self {
        let (mut pairs, mut replacing) = (Vec::new(), None);
        // How often a key is written and expected, and where it is written first.
        let mut known = HashMap::<_, (usize, usize, usize), RandomState>::default();
        for expectation in &batch.expectations {
            known.entry(expectation.key()).or_default().1 += 1;
        }
        for (at, write) in batch.writes.iter().enumerate() {
            if let Some((written, _, first)) = known.get_mut(write.key()) {
                *first = if *written == 0 { at } else { *first };
                *written += 1;
            }
        }
        for (at, expectation) in batch.expectations.iter().enumerate() {
            let key = expectation.key();
            let Some((1, 1, written)) = known.get(key).copied() else { continue };
            let is_put = matches!(batch.writes.get(written), Some(Write::Put(..)));
            if !is_put || !topics.contains_key(key.topic()) {
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
