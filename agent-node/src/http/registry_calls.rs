//! What the registry's console calls agents of other processes with, and what it remembers of their answers.

use dashmap::DashMap;
use protocol::{
    ids::{AgentId, TaskId},
    json::any_version::of_any_version,
    principal::Principal,
    question::Question,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;
use transport::http_client::HttpClient;

/// An open question, with the task that asks it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct OpenQuestion {
    pub(in crate::http) agent_id: AgentId,
    pub(in crate::http) task_id: TaskId,
    pub(in crate::http) description: String,
    pub(in crate::http) since: WallTime,
    #[serde(deserialize_with = "of_any_version")]
    pub(in crate::http) question: Question,
}

/// How long the questions that wait elsewhere are taken for those that wait now.
const FRESH: Duration = Duration::from_secs(2);
/// How long an agent that gave no answer is not asked again.
const SILENCE: Duration = Duration::from_secs(15);
/// The most users whose questions are remembered.
const MOST_USERS: usize = 64;

/// What waits for a user, and when it was asked for.
type KnownWaiting = (Instant, WaitingElsewhere);

/// The calls of the registry for the users of its console.
pub struct RegistryCalls {
    pub(in crate::http) wire: HttpClient,
    /// Each user's questions, and when they were asked for. Whoever asks holds the lock: other pages of the user wait for the answer.
    asked: DashMap<Principal, Arc<Mutex<Option<KnownWaiting>>>>,
    silent: DashMap<AgentId, Instant>,
}

impl RegistryCalls {
    /// `wire` signs as the registry.
    pub fn new(wire: HttpClient) -> Self {
        Self { wire, asked: DashMap::new(), silent: DashMap::new() }
    }

    /// The questions of `user`: those of the last two seconds, else what `ask` returns.
    pub(in crate::http) async fn waiting(
        &self,
        user: &Principal,
        ask: impl Future<Output = WaitingElsewhere>,
    ) -> WaitingElsewhere {
        if self.asked.len() >= MOST_USERS && !self.asked.contains_key(user) {
            self.asked.clear();
        }
        let of_user = self.asked.entry(user.clone()).or_default().clone();
        let mut known = of_user.lock().await;
        match &*known {
            Some((at, waiting)) if at.elapsed() < FRESH => waiting.clone(),
            Some(_) | None => {
                let waiting = ask.await;
                *known = Some((Instant::now(), waiting.clone()));
                waiting
            }
        }
    }

    /// Something of `user` has changed elsewhere: its questions are asked for anew.
    pub(in crate::http) fn forget(&self, user: &Principal) {
        self.asked.remove(user);
    }

    /// Whether `agent` gave no answer a short time ago.
    pub(in crate::http) fn is_silent(&self, agent: &AgentId) -> bool {
        self.silent.get(agent).is_some_and(|until| *until > Instant::now())
    }

    /// `agent` gives no answer.
    pub(in crate::http) fn note_silent(&self, agent: &AgentId) {
        self.silent.retain(|_, until| *until > Instant::now());
        self.silent.insert(agent.clone(), Instant::now() + SILENCE);
    }
}

/// The questions that wait for a user at agents of other processes.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct WaitingElsewhere {
    pub(in crate::http) questions: Vec<OpenQuestion>,
    /// The agents that gave no answer, by name.
    pub(in crate::http) silent: BTreeSet<String>,
}
