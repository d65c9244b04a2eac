//! What the registry's console calls agents of other processes with, and what it remembers of their answers.

use protocol::{
    ids::{AgentId, TaskId},
    principal::Principal,
    question::Question,
    time::WallTime,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
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
    pub(in crate::http) question: Question,
}

/// How long the questions that wait elsewhere are taken for those that wait now.
pub(in crate::http) const FRESH: Duration = Duration::from_secs(2);
/// The most users whose questions are remembered.
pub(in crate::http) const MOST_USERS: usize = 64;

/// The calls of the registry for the users of its console.
pub struct RegistryCalls {
    pub(in crate::http) wire: HttpClient,
    pub(in crate::http) asked: Mutex<BTreeMap<Principal, (Instant, WaitingElsewhere)>>,
}

impl RegistryCalls {
    /// `wire` signs as the registry.
    pub fn new(wire: HttpClient) -> Self {
        Self { wire, asked: Mutex::default() }
    }
}

/// The questions that wait for a user at agents of other processes.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct WaitingElsewhere {
    pub(in crate::http) questions: Vec<OpenQuestion>,
    /// The agents that gave no answer, by name.
    pub(in crate::http) silent: BTreeSet<String>,
}
