//! How many messages an agent has delivered to each other agent in the last minute.

use protocol::{ids::AgentId, time::NodeTime};
use registry::entry::{SentCounts, busiest};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How long a message counts, give or take a slot.
const COUNTED: Duration = Duration::from_secs(60);
/// The messages of this time are forgotten together.
const SLOT_MS: u64 = 5_000;

/// The counts of one agent, by the end of their slots.
#[derive(Debug, Default)]
pub struct SentMessages(Mutex<BTreeMap<NodeTime, SentCounts>>);

impl SentMessages {
    /// Counts messages that have reached `to`.
    pub fn count(&self, to: &AgentId, messages: usize, now: NodeTime) {
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        let end = NodeTime((now.0 / SLOT_MS + 1) * SLOT_MS);
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        forget(&mut slots, now);
        let slot = slots.entry(end).or_default();
        match slot.get_mut(to) {
            Some(count) => *count = count.saturating_add(messages),
            None => drop(slot.insert(to.clone(), messages)),
        }
    }

    /// Those of the last minute, of the agents with the most.
    pub fn of_last_minute(&self, now: NodeTime) -> SentCounts {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        forget(&mut slots, now);
        let mut sum = SentCounts::new();
        for (to, messages) in slots.values().flatten() {
            let count = sum.entry(to.clone()).or_default();
            *count = count.saturating_add(*messages);
        }
        busiest(sum)
    }
}

fn forget(slots: &mut BTreeMap<NodeTime, SentCounts>, now: NodeTime) {
    while let Some(slot) = slots.first_entry().filter(|slot| now.since(*slot.key()) >= COUNTED) {
        slot.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_last_minute_are_counted_by_recipient() {
        let id = |name: &str| AgentId::parse(name).unwrap();
        let sent = SentMessages::default();
        let counts = |second: u64| -> Vec<_> {
            let counts = sent.of_last_minute(NodeTime(second * 1_000)).into_iter();
            counts.map(|(to, messages)| (to.to_string(), messages)).collect()
        };
        let of = |name: &str, messages| (name.to_owned(), messages);
        sent.count(&id("a"), 2, NodeTime(1_000));
        sent.count(&id("b"), 1, NodeTime(4_000));
        sent.count(&id("a"), 3, NodeTime(30_000));
        assert_eq!(counts(59), [of("a", 5), of("b", 1)]);
        assert_eq!(counts(65), [of("a", 3)], "those of the first slot are over");
        assert_eq!(counts(100), []);
        sent.count(&id("a"), 0, NodeTime(100_000));
        assert_eq!(counts(100), [], "nothing was taken");
    }
}
