//! What an agent remembers of the foreign tasks that work for it.

use blackboard::store::{Batch, Key, Lane, Shared, Write};
use protocol::ids::{AgentId, Digest};
use serde::{Deserialize, Serialize};

/// Where an agent remembers which foreign task an errand became, so that a restart does not begin it twice.
#[derive(Clone)]
pub struct Notes {
    agent: AgentId,
    store: Shared,
}

#[derive(Serialize, Deserialize)]
struct Note {
    task_id: String,
}

impl Notes {
    /// Notes in `agent`'s own store.
    pub fn new(agent: AgentId, store: Shared) -> Self {
        Self { agent, store }
    }

    fn key(&self, errand: &str) -> Key {
        let name = Digest::of(errand.as_bytes()).to_string();
        Key::new(&[self.agent.as_str(), "errand", &name])
    }

    pub(super) fn known(&self, errand: &str) -> Option<String> {
        let record = self.store.latest(&self.key(errand)).ok()??;
        serde_json::from_slice::<Note>(&record.value).ok().map(|note| note.task_id)
    }

    async fn write(&self, write: Write) {
        let batch = Batch { writes: vec![write], expectations: Vec::new() };
        if let Err(error) = self.store.commit(Lane::Progress, batch).await {
            tracing::warn!(agent = %self.agent, %error, "a note about a foreign task was not kept");
        }
    }

    pub(super) async fn keep(&self, errand: &str, task_id: &str) {
        match serde_json::to_vec(&Note { task_id: task_id.to_owned() }) {
            Ok(bytes) => self.write(Write::Put(self.key(errand), bytes.into())).await,
            // An empty note would say that nothing was begun.
            Err(error) => {
                tracing::warn!(agent = %self.agent, %error, "a note about a foreign task was not kept")
            }
        }
    }

    /// Lets go of what was noted: it is over.
    pub async fn forget(&self, errand: &str) {
        if self.known(errand).is_some() {
            self.write(Write::Delete(self.key(errand))).await;
        }
    }
}
