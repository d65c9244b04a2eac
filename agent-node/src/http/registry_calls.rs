//! What the registry's console calls agents and the board of other processes with, and what it remembers of their answers.

use blackboard::client::Blackboard;
use console::views::space::EntryLine;
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

/// How long what waits elsewhere is taken for what waits now.
const FRESH: Duration = Duration::from_secs(2);
/// How long who gave no answer is not asked again.
const SILENCE: Duration = Duration::from_secs(15);
/// The most users whose answers are remembered.
const MOST_USERS: usize = 64;

/// What the board is called where those are named that gave no answer. No agent has this name.
pub(in crate::http) const BOARD: &str = "the board";

/// An answer, and when it was asked for.
type KnownAnswer<T> = Option<(Instant, T)>;

/// What was answered for each user. Whoever asks holds the lock: other pages of the user wait for the answer.
struct FreshAnswers<T>(DashMap<Principal, Arc<Mutex<KnownAnswer<T>>>>);

impl<T: Clone> FreshAnswers<T> {
    /// The answer for `user`: that of the last two seconds, else what `ask` returns.
    async fn of(&self, user: &Principal, ask: impl Future<Output = T>) -> T {
        if self.0.len() >= MOST_USERS && !self.0.contains_key(user) {
            self.0.clear();
        }
        let of_user = self.0.entry(user.clone()).or_default().clone();
        let mut known = of_user.lock().await;
        match &*known {
            Some((at, answer)) if at.elapsed() < FRESH => answer.clone(),
            Some(_) | None => {
                let answer = ask.await;
                *known = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }
}

/// The calls of the registry for the users of its console.
pub struct RegistryCalls {
    pub(in crate::http) wire: HttpClient,
    /// The board of another process, called for the user that is named.
    pub(in crate::http) board: Option<Blackboard>,
    questions: FreshAnswers<WaitingElsewhere>,
    proposals: FreshAnswers<Vec<EntryLine>>,
    silent: DashMap<String, Instant>,
}

impl RegistryCalls {
    /// `wire` signs as the registry, and `board` is that of another process.
    pub fn new(wire: HttpClient, board: Option<Blackboard>) -> Self {
        let (questions, proposals) = (FreshAnswers(DashMap::new()), FreshAnswers(DashMap::new()));
        Self { wire, board, questions, proposals, silent: DashMap::new() }
    }

    /// The questions of `user`: those of the last two seconds, else what `ask` returns.
    pub(in crate::http) async fn waiting(
        &self,
        user: &Principal,
        ask: impl Future<Output = WaitingElsewhere>,
    ) -> WaitingElsewhere {
        self.questions.of(user, ask).await
    }

    /// The proposals that wait for `user`, likewise.
    pub(in crate::http) async fn proposals(
        &self,
        user: &Principal,
        ask: impl Future<Output = Vec<EntryLine>>,
    ) -> Vec<EntryLine> {
        self.proposals.of(user, ask).await
    }

    /// Something of `user` has changed elsewhere: what waits is asked for anew.
    pub(in crate::http) fn forget(&self, user: &Principal) {
        self.questions.0.remove(user);
        self.proposals.0.remove(user);
    }

    /// Whether `name` gave no answer a short time ago.
    pub(in crate::http) fn is_silent(&self, name: &str) -> bool {
        self.silent.get(name).is_some_and(|until| *until > Instant::now())
    }

    /// `name`, an agent or [`BOARD`], gives no answer.
    pub(in crate::http) fn note_silent(&self, name: &str) {
        self.silent.retain(|_, until| *until > Instant::now());
        self.silent.insert(name.to_owned(), Instant::now() + SILENCE);
    }
}

/// The questions that wait for a user at agents of other processes.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct WaitingElsewhere {
    pub(in crate::http) questions: Vec<OpenQuestion>,
    /// The agents that gave no answer, by name.
    pub(in crate::http) silent: BTreeSet<String>,
}
