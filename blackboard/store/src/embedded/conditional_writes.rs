//! Expectations that are checked by the write that they guard, without a query of their own.

use super::super::{Batch, Expectation, Write};
use super::schema::TopicRow;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Pairs of an expectation and a put of the same key, as indices into the batch. Only the last pair may replace a record,
/// and not its list entries; the others insert, and a deletion undoes an insert exactly.
pub(super) struct ConditionalWrites(pub(super) Vec<(usize, usize)>);

impl ConditionalWrites {
    /// The pairs of `batch` whose key has one expectation and one write, in an existing topic.
    pub(super) fn of(batch: &Batch, topics: &HashMap<String, TopicRow>) -> Self {
        let (mut pairs, mut replacing) = (Vec::new(), None);
        // Per key: the number of writes and of expectations, and the index of the first write.
        let mut counts = HashMap::<_, (usize, usize, usize), RandomState>::default();
        for expectation in &batch.expectations {
            counts.entry(expectation.key()).or_default().1 += 1;
        }
        for (at, write) in batch.writes.iter().enumerate() {
            if let Some((written, _, first)) = counts.get_mut(write.key()) {
                *first = if *written == 0 { at } else { *first };
                *written += 1;
            }
        }
        for (at, expectation) in batch.expectations.iter().enumerate() {
            let key = expectation.key();
            let Some((1, 1, written)) = counts.get(key).copied() else { continue };
            if !topics.contains_key(key.topic()) {
                continue;
            }
            match (expectation, batch.writes.get(written)) {
                (Expectation::Absent(_), Some(Write::Put(..) | Write::PutListed(..))) => {
                    pairs.push((at, written));
                }
                (Expectation::At(_, revision), Some(Write::Put(..)))
                    if *revision > 0 && replacing.is_none() =>
                {
                    replacing = Some((at, written));
                }
                _ => {}
            }
        }
        pairs.extend(replacing);
        Self(pairs)
    }

    /// Whether the expectation at this index is in a pair.
    pub(super) fn covers_expectation(&self, expectation: usize) -> bool {
        self.0.iter().any(|(at, _)| *at == expectation)
    }

    /// Whether the write at this index is in a pair.
    pub(super) fn covers_write(&self, write: u64) -> bool {
        self.0.iter().any(|(_, at)| *at as u64 == write)
    }
}
