//! The agents of other processes, in the console of the registry. It calls them in the registry's name for the user that it has
//! authenticated, and they show what they would show that user. What they say is data: no HTML of theirs is shown here.

use super::scope::ConsoleScope;
use crate::http::{node_state::NodeState, routes::inbox::OpenQuestion};
use actix_web::HttpRequest;
use bytes::Bytes;
use console::{
    location::ConsoleLocation,
    views::{task_line::TaskLine, tasks::states},
};
use futures_util::{StreamExt as _, stream};
use protocol::{
    a2a::task::A2aTask,
    card::Card,
    principal::Principal,
    problem::{Problem, Reason},
    question::Question,
    routes,
    task::{EXTENSION, TaskState},
    time::WallTime,
    usage::Usage,
};
use registry::entry::AgentQuery;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use transport::http_client::{ClientRequest, HttpClient};

/// How long an agent is waited for. Who is silent for so long is named on the page.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most agents that are called at once.
const AT_ONCE: usize = 16;
/// The most agents that are called for one page.
const MOST_AGENTS: usize = 256;

/// The agents of other processes, for one user.
pub(super) struct Elsewhere {
    wire: HttpClient,
    by: Principal,
    agents: Vec<Arc<Card>>,
    /// Those that gave no answer, by name.
    pub(super) silent: BTreeSet<String>,
}

/// The answer of `GET /a2a/inbox`.
#[derive(Deserialize)]
struct InboxAnswer {
    items: Vec<OpenQuestion>,
}

/// The answer of `GET /a2a/tasks`.
#[derive(Deserialize)]
struct TasksAnswer {
    tasks: Vec<A2aTask>,
}

impl Elsewhere {
    /// The agents of other processes that are there; none but at the port of the registry, and none for who is not signed in.
    pub(super) async fn of(
        request: &HttpRequest,
        node: &NodeState,
        scope: &ConsoleScope,
    ) -> Result<Option<Self>, Problem> {
        let (Some(wire), Some(registry)) = (&node.as_registry, &node.local_services.registry) else {
            return Ok(None);
        };
        if !scope.is_signed_in() || node.agent_of_port(request).is_some() {
            return Ok(None);
        }
        let live = registry.read(AgentQuery::default()).await?.agents;
        let others = live.into_iter().map(|entry| entry.card).filter(|card| !node.agents.contains_key(&card.agent_id));
        let mut agents: Vec<_> = others.collect();
        let left_out = agents.split_off(agents.len().min(MOST_AGENTS));
        let silent = left_out.iter().map(|card| card.agent_id.to_string()).collect();
        Ok(Some(Self { wire: wire.clone(), by: scope.by.clone(), agents, silent }))
    }

    /// The agent of this name, if it is in another process.
    pub(super) fn agent(&self, id: &str) -> Option<&Arc<Card>> {
        self.agents.iter().find(|card| card.agent_id.as_str() == id)
    }

    fn request<'a>(&self, card: &'a Card, url: &'a str) -> ClientRequest<'a> {
        ClientRequest::get(url, card.agent_id.as_str()).acts_for(self.by.clone()).within(PATIENCE)
    }

    /// What each agent answers at `path`.
    async fn ask<T: DeserializeOwned>(&mut self, path: &str) -> Vec<(Arc<Card>, T)> {
        let calls = self.agents.iter().map(|card| async {
            let url = format!("{}{path}", card.endpoint.trim_end_matches('/'));
            let answer = self.wire.json::<T>(self.request(card, &url));
            let answer = tokio::time::timeout(PATIENCE, answer).await;
            (card.clone(), answer)
        });
        let answers: Vec<_> = stream::iter(calls).buffer_unordered(AT_ONCE).collect().await;
        let mut all = Vec::new();
        for (card, answer) in answers {
            match answer {
                Ok(Ok(answer)) => all.push((card, answer)),
                Ok(Err(problem)) => {
                    tracing::debug!(agent = %card.agent_id, %problem, "an agent does not answer the console");
                    self.silent.insert(card.agent_id.to_string());
                }
                Err(_) => {
                    self.silent.insert(card.agent_id.to_string());
                }
            }
        }
        all
    }

    /// The questions that wait for the user there. The agents of one process name each other's, too.
    pub(super) async fn questions(&mut self) -> Vec<OpenQuestion> {
        let mut seen = BTreeSet::new();
        let answers = self.ask::<InboxAnswer>(routes::INBOX).await;
        let all = answers.into_iter().flat_map(|(_, answer)| answer.items);
        all.filter(|asked| seen.insert((asked.agent_id.clone(), asked.question.id.clone()))).collect()
    }

    /// The newest tasks there that fit `at`, at most `most` of each agent.
    pub(super) async fn tasks(&mut self, at: &ConsoleLocation, most: usize) -> Vec<TaskLine> {
        let path = format!("{}?limit={most}", routes::TASKS);
        let answers = self.ask::<TasksAnswer>(&path).await;
        let lines = answers.into_iter().flat_map(|(card, answer)| {
            answer.tasks.into_iter().filter_map(move |task| line(&card, &task)).collect::<Vec<_>>()
        });
        lines.filter(|line| fits(at, &self.by, line)).collect()
    }

    /// The open question `id` of a task there.
    async fn question(&self, card: &Card, task: &str, id: &str) -> Result<Question, Problem> {
        let url = format!("{}{}/{task}", card.endpoint.trim_end_matches('/'), routes::TASKS);
        let task: A2aTask = self.wire.json(self.request(card, &url)).await?;
        let open: Vec<Question> =
            serde_json::from_value(task.metadata[EXTENSION]["questions"].clone()).unwrap_or_default();
        open.into_iter().find(|question| question.id == id).ok_or_else(|| {
            let why = "the question is not open any more: it was answered, or its time is over";
            Problem::new(Reason::InvalidField, why)
        })
    }

    async fn post(&self, card: &Card, path: &str, body: &Value) -> Result<Value, Problem> {
        let url = format!("{}{path}", card.endpoint.trim_end_matches('/'));
        let call = ClientRequest::post(&url, card.agent_id.as_str(), Bytes::from(body.to_string()));
        self.wire.json(call.acts_for(self.by.clone()).within(PATIENCE * 5)).await
    }
}

/// A task as its agent reports it.
fn line(card: &Card, task: &A2aTask) -> Option<TaskLine> {
    let ours = &task.metadata.get(EXTENSION)?;
    let text = |name: &str| ours[name].as_str().map(str::to_owned);
    let usage: Usage = serde_json::from_value(ours["usage"].clone()).unwrap_or_default();
    let time = |value: &Value| serde_json::from_value::<WallTime>(value.clone()).unwrap_or_default();
    Some(TaskLine {
        agent: card.agent_id.to_string(),
        id: task.id.clone(),
        description: text("description")?,
        state: task.status.state,
        capability: text("capability"),
        requester: text("owner")?,
        doer: text("doer"),
        questions: ours["questions"].as_array().map_or(0, Vec::len),
        tokens: usage.tokens(),
        cost: usage.cost.get(),
        created: time(&ours["createdAt"]),
        changed: time(&json!(task.status.timestamp)),
        is_session: false,
    })
}
