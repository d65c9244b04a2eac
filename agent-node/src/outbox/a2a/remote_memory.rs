//! What an agent remembers of a foreign agent: how long its last tasks took, and in which of its contexts a task was done, so that
//! a later task of the same context of ours goes on there. One row for each foreign agent, in the store of the own agent.

use crate::clock::wall_time;
use protocol::{
    a2a::card_validation::ValidatedCard,
    ids::{AgentId, Digest},
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, time::Duration};
use store::{Batch, Expectation, Key, Lane, SharedStore, Write};

const TOPIC: &str = "remote-agent";
/// The tasks whose median time is expected of the next one.
const DURATIONS: usize = 10;
/// The most contexts of one foreign agent.
const CONTEXTS: usize = 256;
/// How long a context is remembered beyond its last use (DESIGN §10).
const KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How often a write is tried while others write the same row.
const ATTEMPTS: usize = 4;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RemoteAgentRow {
    /// Milliseconds, the newest last.
    durations: VecDeque<u64>,
    /// The newest last.
    contexts: VecDeque<RemoteContext>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteContext {
    /// What of ours it belongs to: a task, or a session.
    ours: String,
    context_id: String,
    at: WallTime,
}

/// What is remembered of one foreign agent.
#[derive(Clone)]
pub struct RemoteMemory {
    store: SharedStore,
    key: Key,
    ours: String,
    earlier: Vec<String>,
}

impl RemoteMemory {
    /// What `agent` remembers of the foreign agent with this card. A task that it does for `ours` goes on in the context in which
    /// it has done something for `ours` or, else, for the last of `earlier`.
    pub(super) fn new(
        agent: &AgentId,
        store: SharedStore,
        card: &ValidatedCard,
        ours: String,
        earlier: Vec<String>,
    ) -> Self {
        let urls = card.interfaces.iter().map(|interface| interface.url.as_str());
        let name = urls.chain([card.card.name.as_str()]).collect::<Vec<_>>().join("\n");
        let key = Key::new(&[agent.as_str(), TOPIC, &Digest::of(name.as_bytes()).to_string()]);
        Self { store, key, ours, earlier }
    }

    fn row(&self) -> RemoteAgentRow {
        let row = self.store.latest(&self.key).ok().flatten();
        row.and_then(|row| serde_json::from_slice(&row.value).ok()).unwrap_or_default()
    }

    /// How long a task takes there: the median of the last ten that were completed; `None` if there was none.
    pub fn expected(&self) -> Option<Duration> {
        let mut durations = Vec::from(self.row().durations);
        durations.sort_unstable();
        durations.get(durations.len() / 2).copied().map(Duration::from_millis)
    }

    /// The context to go on in.
    pub(super) fn context(&self) -> Option<String> {
        let row = self.row();
        let of = |ours: &String| row.contexts.iter().rfind(|context| context.ours == *ours);
        let known = of(&self.ours).or_else(|| self.earlier.iter().rev().find_map(of))?;
        Some(known.context_id.clone())
    }

    /// Notes in which context a task was done and, if it was completed in one go, how long it took. `None` as the context
    /// forgets the one that was known: the foreign agent does not take it any more.
    pub(super) async fn note(&self, context_id: Option<&str>, took: Option<Duration>) {
        for _ in 0..ATTEMPTS {
            let record = self.store.latest(&self.key).ok().flatten();
            let stored = record.as_ref().and_then(|record| serde_json::from_slice(&record.value).ok());
            let mut row: RemoteAgentRow = stored.unwrap_or_default();
            row.update(&self.ours, &self.earlier, context_id, wall_time());
            if let Some(took) = took {
                row.durations.push_back(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
                row.durations.drain(..row.durations.len().saturating_sub(DURATIONS));
            }
            let Ok(bytes) = serde_json::to_vec(&row) else { return };
            let expectation = match record {
                Some(record) => Expectation::At(self.key.clone(), record.revision),
                None => Expectation::Absent(self.key.clone()),
            };
            let writes = vec![Write::Put(self.key.clone(), bytes.into())];
            let batch = Batch { writes, expectations: vec![expectation] };
            if self.store.commit(Lane::Progress, batch).await.is_ok() {
                return;
            }
        }
        tracing::warn!(row = %self.key, "what a foreign agent did was not noted: its next task may begin a new context");
    }
}

impl RemoteAgentRow {
    fn update(&mut self, ours: &str, earlier: &[String], context_id: Option<&str>, now: WallTime) {
        let forgotten = |context: &RemoteContext| context_id.is_none() && earlier.contains(&context.ours);
        self.contexts
            .retain(|context| context.ours != ours && !forgotten(context) && now <= context.at.plus(KEPT));
        self.contexts.extend(context_id.map(|id| RemoteContext {
            ours: ours.to_owned(),
            context_id: id.to_owned(),
            at: now,
        }));
        self.contexts.drain(..self.contexts.len().saturating_sub(CONTEXTS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::memory;

    fn memory_of(store: &SharedStore, ours: &str, earlier: &[&str]) -> RemoteMemory {
        RemoteMemory {
            store: store.clone(),
            key: Key::new(&["a-01", TOPIC, "x"]),
            ours: ours.to_owned(),
            earlier: earlier.iter().map(|&earlier| earlier.to_owned()).collect(),
        }
    }

    #[tokio::test]
    async fn the_last_ten_tasks_tell_how_long_the_next_one_takes() {
        let store: SharedStore = memory::new();
        let memory = memory_of(&store, "t", &[]);
        assert_eq!(memory.expected(), None);
        for seconds in [900, 900, 900, 900, 900, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] {
            memory.note(Some("c"), Some(Duration::from_secs(seconds))).await;
        }
        memory.note(Some("c"), None).await;
        assert_eq!(memory.expected(), Some(Duration::from_secs(6)));
    }

    #[tokio::test]
    async fn a_task_goes_on_in_the_context_of_an_earlier_one_until_that_is_refused() {
        let store: SharedStore = memory::new();
        memory_of(&store, "t-1", &[]).note(Some("there"), None).await;
        assert_eq!(memory_of(&store, "t-9", &[]).context(), None, "it belongs to another context of ours");
        let second = memory_of(&store, "t-2", &["t-0", "t-1"]);
        assert_eq!(second.context().as_deref(), Some("there"));
        second.note(None, None).await;
        assert_eq!(second.context(), None);
    }

    #[test]
    fn contexts_are_bounded_in_number_and_age() {
        let mut row = RemoteAgentRow::default();
        for number in 0..CONTEXTS + 5 {
            row.update(&format!("t-{number}"), &[], Some("c"), WallTime(1));
        }
        assert_eq!((row.contexts.len(), row.contexts[0].ours.as_str()), (CONTEXTS, "t-5"));
        row.update("new", &[], Some("c"), WallTime(2).plus(KEPT));
        assert_eq!(row.contexts.len(), 1);
    }
}
