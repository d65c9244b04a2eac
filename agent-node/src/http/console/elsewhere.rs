//! The agents of other processes, in the console of the registry. It calls them in the registry's name for the user that it has
//! authenticated, and they show what they would show that user. What they say is data: no HTML of theirs is shown here.

use super::{scope::ConsoleScope, task_list};
use crate::{
    console_paths,
    http::{
        node_state::NodeState,
        registry_calls::{OpenQuestion, WaitingElsewhere},
        routes::inbox,
    },
    tasks::search::TaskSearch,
};
use actix_web::{HttpRequest, web};
use bytes::Bytes;
use console::{
    location::ConsoleLocation,
    views::{task_line::TaskLine, tasks::TaskListPage},
};
use engine::{
    QuotaStatus,
    costs::{CostKey, CostRow},
};
use futures_util::{StreamExt as _, stream};
use protocol::{
    a2a::task::A2aTask,
    card::Card,
    identity::PersonKey,
    ids::{AgentId, TaskId},
    json::any_version::of_any_version,
    principal::Principal,
    problem::{Problem, Reason},
    question::{Answer, Question},
    routes,
    task::EXTENSION,
    time::WallTime,
};
use registry::{
    client::Registry,
    entry::{AgentQuery, Presence},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{cmp::Reverse, collections::BTreeSet, sync::Arc, time::Duration};
use transport::http_client::{ClientRequest, HttpClient};

/// How long an agent is waited for. Who is silent for so long is named on the page.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most agents that are called at once.
const AT_ONCE: usize = 16;
/// The most questions of one agent that are shown.
const MOST_QUESTIONS: usize = 200;
/// The most agents that are called for one page.
const MOST_AGENTS: usize = 256;
/// The most tasks whose text has the id of another.
const MOST_FOUND: usize = 50;
/// The status of what an agent does not have, or not for the user.
const NOT_FOUND: u16 = 404;

/// The agents of other processes, for one user.
pub(super) struct Elsewhere {
    node: Arc<NodeState>,
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

/// The answer of `GET /a2a/costs`.
#[derive(Deserialize)]
pub(super) struct CostsAnswer {
    pub(super) costs: Vec<CostRow>,
    #[serde(default)]
    pub(super) quotas: Vec<QuotaStatus>,
}

/// The answer of `POST /console/links`.
#[derive(Deserialize)]
struct ConsoleLink {
    code: String,
}

impl Elsewhere {
    /// The agents of other processes that are there; none but at the port of the registry, and none for who is not signed in.
    pub(super) async fn of(
        request: &HttpRequest,
        node: &web::Data<NodeState>,
        scope: &ConsoleScope,
    ) -> Result<Option<Self>, Problem> {
        let (Some(_), Some(registry)) = (&node.registry_calls, &node.local_services.registry) else {
            return Ok(None);
        };
        if !scope.is_signed_in() || node.agent_of_port(request).is_some() {
            return Ok(None);
        }
        let mut elsewhere = Self {
            node: node.clone().into_inner(),
            by: scope.by.clone(),
            agents: Vec::new(),
            silent: BTreeSet::new(),
        };
        elsewhere.find_agents(registry).await?;
        Ok(Some(elsewhere).filter(|elsewhere| !elsewhere.agents.is_empty() || !elsewhere.silent.is_empty()))
    }

    /// Finds the agents again, for a page that stays open.
    pub(super) async fn refresh(&mut self) {
        let registry = self.node.local_services.registry.clone();
        if let Some(registry) = registry
            && let Err(problem) = self.find_agents(&registry).await
        {
            tracing::debug!(%problem, "the agents of other processes can't be found");
        }
    }

    async fn find_agents(&mut self, registry: &Registry) -> Result<(), Problem> {
        let query = AgentQuery { include_dead: true, ..AgentQuery::default() };
        let mut known = registry.read(query).await?.agents;
        known.retain(|entry| {
            entry.state != Presence::Departed && !self.node.agents.contains_key(&entry.card.agent_id)
        });
        // Who is away may come back, and has questions and tasks meanwhile.
        let (away, live): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|entry| entry.state == Presence::Dead);
        let mut agents: Vec<_> = live.into_iter().map(|entry| entry.card).collect();
        let left_out = agents.split_off(agents.len().min(MOST_AGENTS));
        let silent = left_out.iter().chain(away.iter().map(|entry| &entry.card));
        self.silent = silent.map(|card| card.agent_id.to_string()).collect();
        self.agents = agents;
        Ok(())
    }

    fn wire(&self) -> Result<&HttpClient, Problem> {
        let calls = self.node.registry_calls.as_ref().map(|calls| &calls.wire);
        calls.ok_or_else(|| Problem::new(Reason::Internal, "the registry does not run here"))
    }

    /// The agents.
    pub(super) fn cards(&self) -> impl Iterator<Item = &Arc<Card>> {
        self.agents.iter()
    }

    /// The agent that is chosen if none is named.
    pub(super) fn entrance(&self) -> Option<&Arc<Card>> {
        self.agents.iter().find(|card| card.entrance).or(self.agents.first())
    }

    /// The agent of this name, if it is in another process.
    pub(super) fn agent(&self, id: &str) -> Option<&Arc<Card>> {
        self.agents.iter().find(|card| card.agent_id.as_str() == id)
    }

    /// Whether the agent of this name is known to be away.
    pub(super) fn is_away(&self, id: &str) -> bool {
        self.silent.contains(id) && self.agent(id).is_none()
    }

    /// Why nothing of it is shown.
    pub(super) fn away(&self, id: &str) -> Problem {
        Problem::new(
            Reason::RecipientUnreachable,
            format!("{id} is away: what it does is shown once it is back"),
        )
    }

    fn request<'a>(&self, card: &'a Card, url: &'a str) -> ClientRequest<'a> {
        ClientRequest::get(url, card.agent_id.as_str()).acts_for(self.by.clone()).within(PATIENCE)
    }

    /// What each agent, or the one of this name, answers at `path`. Who refuses is taken for silent.
    async fn ask<T: DeserializeOwned>(&mut self, agent: &str, path: &str) -> Vec<(Arc<Card>, T)> {
        let mut all = Vec::new();
        for (card, answer) in self.ask_each(agent, path).await {
            match answer {
                Ok(answer) => all.push((card, answer)),
                Err(_) => self.note_silent(&card),
            }
        }
        all
    }

    fn note_silent(&mut self, card: &Card) {
        self.node.registry_calls.iter().for_each(|calls| calls.note_silent(card.agent_id.as_str()));
        self.silent.insert(card.agent_id.to_string());
    }

    /// The agent that is accountable for this task of the user, of those that have it.
    pub(super) async fn find_task(&mut self, id: &str) -> Option<AgentId> {
        let path = format!("{}/{}", routes::TASKS, TaskId::parse(id).ok()?);
        let mut having = Vec::new();
        for (card, answer) in self.ask_each::<A2aTask>("", &path).await {
            match answer {
                Ok(task) => {
                    let passed = task.metadata.get(EXTENSION).and_then(|ours| ours["path"].as_array());
                    having.push((passed.map_or(0, Vec::len), card.agent_id.clone()));
                }
                Err(problem) if problem.reason.status() == NOT_FOUND => {}
                Err(_) => self.note_silent(&card),
            }
        }
        having.sort();
        // An agent answers for others of its process, too; its list is its own.
        for (_, agent) in having.iter().filter(|_| having.len() > 1) {
            let search = TaskSearch { text: id.to_owned(), ..TaskSearch::default() };
            let (lines, _) = self.tasks(agent.as_str(), search, MOST_FOUND).await;
            if lines.iter().any(|line| line.id == id) {
                return Some(agent.clone());
            }
        }
        having.into_iter().next().map(|(_, agent)| agent)
    }

    /// What each agent, or the one of this name, answers at `path`, but for those that gave no answer a short time ago.
    async fn ask_each<T: DeserializeOwned>(
        &mut self,
        agent: &str,
        path: &str,
    ) -> Vec<(Arc<Card>, Result<T, Problem>)> {
        let node = self.node.clone();
        let Some(calls) = &node.registry_calls else { return Vec::new() };
        let asked = self.agents.iter().filter(|card| agent.is_empty() || card.agent_id.as_str() == agent);
        let (silent, asked): (Vec<_>, Vec<_>) =
            asked.partition(|card| calls.is_silent(card.agent_id.as_str()));
        self.silent.extend(silent.into_iter().map(|card| card.agent_id.to_string()));
        let asked = asked.into_iter().map(|card| async {
            let url = format!("{}{path}", card.endpoint.trim_end_matches('/'));
            let answer = calls.wire.json::<T>(self.request(card, &url));
            let answer = tokio::time::timeout(PATIENCE, answer).await;
            let late = |_| Err(Problem::new(Reason::RecipientUnreachable, "it does not answer in time"));
            let answer = answer.unwrap_or_else(late);
            if let Err(problem) = &answer {
                tracing::debug!(agent = %card.agent_id, %problem, "it does not answer the console");
            }
            (card.clone(), answer)
        });
        stream::iter(asked).buffer_unordered(AT_ONCE).collect().await
    }

    /// The questions that wait for the user there. They are asked for once in two seconds, however many pages are open.
    pub(super) async fn questions(&mut self) -> Vec<OpenQuestion> {
        let (node, by) = (self.node.clone(), self.by.clone());
        let Some(calls) = &node.registry_calls else { return Vec::new() };
        let known = std::mem::take(&mut self.silent);
        let ask = async {
            let answers = self.ask::<InboxAnswer>("", routes::INBOX).await;
            let questions = answers.into_iter().flat_map(|(card, answer)| {
                // An agent speaks for itself only.
                let own = answer.items.into_iter().filter(move |asked| asked.agent_id == card.agent_id);
                own.take(MOST_QUESTIONS)
            });
            WaitingElsewhere { questions: questions.collect(), silent: self.silent.clone() }
        };
        let WaitingElsewhere { questions, silent } = calls.waiting(&by, ask).await;
        self.silent.extend(known.into_iter().chain(silent));
        questions
    }

    /// What tells that the lists of tasks there have changed: the newest of each agent.
    pub(super) async fn newest(&mut self) -> Vec<String> {
        let (lines, _) = self.tasks("", TaskSearch::default(), 1).await;
        lines.iter().map(|line| format!("{} {} {}", line.agent, line.id, line.changed)).collect()
    }

    /// The newest tasks there that `search` selects, at most `most` of each agent, and behind which time those of an agent that has
    /// more are missing, milliseconds since the epoch.
    pub(super) async fn tasks(
        &mut self,
        agent: &str,
        search: TaskSearch,
        most: usize,
    ) -> (Vec<TaskLine>, Option<i64>) {
        let limit = Some(most.to_string());
        let query =
            serde_html_form::to_string(TaskSearch { limit, include_artifacts: Some(false), ..search })
                .unwrap_or_default();
        let path = format!("{}?{query}", routes::TASKS);
        let (mut lines, mut missing_before) = (Vec::new(), None);
        for (card, TasksAnswer { tasks }) in self.ask::<TasksAnswer>(agent, &path).await {
            let of_agent: Vec<_> =
                tasks.iter().filter_map(|task| TaskLine::of_a2a(card.agent_id.as_str(), task)).collect();
            // All tasks of the oldest millisecond are on the next page.
            let oldest = of_agent.last().filter(|_| tasks.len() >= most).map(|line| line.changed.0 + 1);
            missing_before = missing_before.max(oldest);
            lines.extend(of_agent);
        }
        (lines, missing_before)
    }

    /// What the agents there have used by `key` since `since`, and how near their quotas are.
    pub(super) async fn costs(&mut self, key: CostKey, since: WallTime) -> Vec<(Arc<Card>, CostsAnswer)> {
        let by = json!(key);
        let path = format!("{}?by={}&since={since}", routes::COSTS, by.as_str().unwrap_or_default());
        self.ask("", &path).await
    }

    /// Sends a task request to an agent there.
    pub(super) async fn send(&self, card: &Card, mut payload: Value) -> Result<String, Problem> {
        let task = format!("t-{}", uuid::Uuid::now_v7().simple());
        payload["taskId"] = json!(task);
        let to = &card.agent_id;
        let message =
            json!({ "fromAgentId": "me", "toAgentId": to, "type": "task-request", "payload": payload });
        self.post::<Value>(card, routes::MESSAGES, &message).await?;
        Ok(task)
    }

    /// Answers a question there with what `answer` makes of it. An approval of the person is signed.
    pub(super) async fn answer(
        &self,
        card: &Card,
        (task, question): (&TaskId, &str),
        person: Option<&PersonKey>,
        answer: impl FnOnce(&Question) -> Result<Answer, Problem>,
    ) -> Result<(), Problem> {
        let question = self.question(card, task, question).await?;
        let mut answer = answer(&question)?;
        if let Some(person) = person {
            answer.prove_by(person, &question);
        }
        let body = answer.body(&question.id);
        self.act(card, task, "answer", &body).await.map(drop)
    }

    /// Does what the route `verb` of a task there does. Returns the answer.
    pub(super) async fn act(
        &self,
        card: &Card,
        task: &TaskId,
        verb: &str,
        body: &Value,
    ) -> Result<Value, Problem> {
        let done = self.post(card, &format!("{}/{task}/{verb}", routes::TASKS), body).await;
        self.node.registry_calls.iter().for_each(|calls| calls.forget(&self.by));
        done
    }

    /// The address of the page `at` at the agent's own console, where it signs the user in, once.
    pub(super) async fn link(&self, card: &Card, at: &ConsoleLocation) -> Result<String, Problem> {
        let ConsoleLink { code } = self.post(card, console_paths::LINKS, &json!({})).await?;
        Ok(format!("{}/{}#code={code}", card.endpoint.trim_end_matches('/'), at.href()))
    }

    /// The open question `id` of a task there.
    async fn question(&self, card: &Card, task: &TaskId, id: &str) -> Result<Question, Problem> {
        let url = format!("{}{}/{task}", card.endpoint.trim_end_matches('/'), routes::TASKS);
        let task: A2aTask = self.wire()?.json(self.request(card, &url)).await?;
        let ours = task.metadata.get(EXTENSION).unwrap_or(&Value::Null);
        let unreadable = |error: serde_json::Error| {
            let why = format!("the questions of {} can't be read: {error}", card.agent_id);
            Problem::new(Reason::Internal, why)
        };
        let open: Vec<Question> = match &ours["questions"] {
            Value::Null => Vec::new(),
            open => of_any_version(open.clone()).map_err(unreadable)?,
        };
        open.into_iter().find(|question| question.id == id).ok_or_else(|| {
            let why = "the question is not open any more: it was answered, or its time is over";
            Problem::new(Reason::InvalidField, why)
        })
    }

    async fn post<T: DeserializeOwned>(&self, card: &Card, path: &str, body: &Value) -> Result<T, Problem> {
        let url = format!("{}{path}", card.endpoint.trim_end_matches('/'));
        let call = ClientRequest::post(&url, card.agent_id.as_str(), Bytes::from(body.to_string()));
        self.wire()?.json(call.acts_for(self.by.clone()).within(PATIENCE * 5)).await
    }
}

/// The questions that wait for the viewer here and elsewhere.
pub(super) async fn questions(
    scope: &ConsoleScope,
    elsewhere: Option<&mut Elsewhere>,
) -> Result<Vec<OpenQuestion>, Problem> {
    let mut all = scope.read(ConsoleScope::questions).await?;
    if let Some(elsewhere) = elsewhere {
        all.extend(elsewhere.questions().await);
        inbox::sort(&mut all);
    }
    Ok(all)
}

/// The page of at most `most` tasks at `at`, here and elsewhere. It ends where a list of one of the agents ends.
pub(super) async fn task_page(
    scope: &ConsoleScope,
    elsewhere: Option<&mut Elsewhere>,
    at: &ConsoleLocation,
    most: usize,
) -> Result<TaskListPage, Problem> {
    let wanted = at.clone();
    let mut page = scope.read(move |scope| task_list::page(scope, &wanted, most)).await?;
    page.agents = scope.ids().iter().map(ToString::to_string).collect();
    let Some(elsewhere) = elsewhere else { return Ok(page) };
    page.agents.extend(elsewhere.cards().map(|card| card.agent_id.to_string()));
    let search = task_list::filters(scope, at);
    let (lines, missing_before) = elsewhere.tasks(&at.agent, search, most).await;
    page.searched += lines.len();
    page.lines.extend(lines);
    page.next = page.next.max(missing_before);
    page.lines.retain(|line| page.next.is_none_or(|next| line.changed.0 >= next));
    page.lines.sort_by_key(|line| Reverse(line.changed));
    Ok(page)
}
