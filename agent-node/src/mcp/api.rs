//! Calls of the mesh's HTTP API with the credential of an MCP client.

use crate::services::{HERE, ServiceAddresses};
use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::{Stream, StreamExt, future::join_all};
use protocol::{
    a2a::{json::FromProtoJson, task::A2aTask},
    card::Card,
    identity::PersonKey,
    ids::Capability,
    problem::{Problem, Reason},
    question::Question,
    routes,
    task::EXTENSION,
};
use registry::entry::{AgentEntry, AgentList, entrance, port};
use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use transport::http_client::{ClientRequest, HttpClient, HttpClientLimits};

/// The recipient named in requests; servers check it for signed requests only.
const RECIPIENT: &str = "mesh";

/// How much longer than the server may wait an answer may take.
const ANSWER_MARGIN: Duration = Duration::from_secs(10);

/// The headers with which the process at a base URL is called.
pub type CredentialLookup =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = Vec<(&'static str, String)>> + Send>> + Send + Sync>;

/// The person's key, which signs what is approved at a base URL.
pub type PersonLookup =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = Option<Arc<PersonKey>>> + Send>> + Send + Sync>;

/// Which agents are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiReach {
    /// Those of one process, at these base URLs. The credential is shown to it and to the registry and the board that it uses.
    Node(Arc<[String]>),
    /// All registered ones, at their registered endpoints.
    Mesh,
}

/// The HTTP API of a mesh, called by one caller. Cheap to clone.
#[derive(Clone)]
pub struct MeshApi {
    wire: HttpClient,
    base: String,
    credentials: CredentialLookup,
    reach: ApiReach,
    person: Option<PersonLookup>,
    is_persons: bool,
}

/// A task and the base URL of the agent that has it.
pub(super) struct TaskAtEndpoint {
    pub(super) endpoint: String,
    pub(super) task: A2aTask,
}

/// An agent that a task is sent to, and the base URL that it is sent to.
pub(super) struct Recipient {
    pub(super) agent: String,
    pub(super) endpoint: String,
}

/// The state and the message of a task's event.
pub(super) struct StatusEvent {
    pub(super) state: String,
    pub(super) message: Option<String>,
}

pub(super) type StatusEvents = Pin<Box<dyn Stream<Item = Result<StatusEvent, Problem>> + Send>>;

impl MeshApi {
    /// Calls the process at `base` over `wire`.
    pub fn new(wire: HttpClient, base: String, credentials: CredentialLookup, reach: ApiReach) -> Self {
        Self { wire, base, credentials, reach, person: None, is_persons: true }
    }

    /// The same API for a caller that is proven to be a person, or is not.
    #[must_use]
    pub fn proven(self, is_persons: bool) -> Self {
        Self { is_persons, ..self }
    }

    /// Whether an approval by this caller counts at `endpoint`.
    pub(super) async fn may_approve(&self, endpoint: &str) -> bool {
        match &self.person {
            Some(person) => person(endpoint.to_owned()).await.is_some(),
            None => self.is_persons,
        }
    }

    /// Signs with the key of `person` what is approved.
    #[must_use]
    pub fn signing_as(self, person: PersonLookup) -> Self {
        Self { person: Some(person), ..self }
    }

    /// Answers a question of `task` with `body`.
    pub(super) async fn answer(
        &self,
        endpoint: &str,
        task: &str,
        question: &Question,
        mut body: Value,
    ) -> Result<Value, Problem> {
        if let (Some(person), true) = (&self.person, body["decision"] == "approve")
            && let Some(person) = person(endpoint.to_owned()).await
        {
            body["proof"] = json!(person.approve(question, body["values"].as_object()));
        }
        self.post(endpoint, &answer_path(task), &body).await
    }

    /// A client for [`Self::new`]. It does not sign.
    pub fn client() -> Result<HttpClient, Problem> {
        HttpClient::new(None, HttpClientLimits::default())
    }

    async fn authorized<'a>(&self, call: ClientRequest<'a>, base: &str) -> ClientRequest<'a> {
        let headers = (self.credentials)(base.to_owned()).await;
        headers.into_iter().fold(call, |call, (name, value)| call.header(name, value))
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, base: &str, path: &str) -> Result<T, Problem> {
        let url = format!("{base}{path}");
        self.wire.json(self.authorized(ClientRequest::get(&url, RECIPIENT), base).await).await
    }

    pub(super) async fn post(&self, base: &str, path: &str, body: &Value) -> Result<Value, Problem> {
        let url = format!("{base}{path}");
        let call = ClientRequest::post(&url, RECIPIENT, Bytes::from(body.to_string()));
        self.wire.json(self.authorized(call, base).await).await
    }

    /// The content of an artifact with this digest and its media type.
    pub(super) async fn content(&self, sha256: &str) -> Result<(Bytes, String), Problem> {
        let mut missing = None;
        for base in self.agent_endpoints().await? {
            let url = format!("{base}{}/{}", routes::ARTIFACTS, encoded(sha256));
            let call = self.authorized(ClientRequest::get(&url, RECIPIENT), &base).await;
            match self.wire.send(call).await {
                Ok(answer) => {
                    let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
                    let kind = kind.unwrap_or("application/octet-stream").to_owned();
                    let body = answer.bytes().await;
                    let body =
                        body.map_err(|error| Problem::new(Reason::GatewayTimeout, error.to_string()))?;
                    return Ok((body, kind));
                }
                Err(problem) => missing = Some(problem),
            }
        }
        let none = || Problem::new(Reason::ArtifactNotFound, format!("no artifact {sha256} of yours"));
        Err(missing.unwrap_or_else(none))
    }

    /// Stores content at the process that is called; returns the answer with its digest.
    pub(super) async fn put_content(&self, media_type: String, content: Vec<u8>) -> Result<Value, Problem> {
        let base = self.first_endpoint().await?;
        let url = format!("{base}{}", routes::ARTIFACTS);
        let call = ClientRequest::new(Method::PUT, &url, RECIPIENT).content(media_type, content.into());
        self.wire.json(self.authorized(call, &base).await).await
    }

    /// The events of a task's status from its first one on.
    pub(super) async fn events(&self, endpoint: &str, task: &str) -> Result<StatusEvents, Problem> {
        let url = format!("{endpoint}{}/{}/events", routes::TASKS, encoded(task));
        let call = self.authorized(ClientRequest::get(&url, RECIPIENT), endpoint).await;
        let bytes = self.wire.events(call).await?;
        Ok(Box::pin(bytes.eventsource().filter_map(|event| async move {
            let event = match event {
                Ok(event) => serde_json::from_str::<Value>(&event.data).ok()?,
                Err(error) => return Some(Err(Problem::new(Reason::GatewayTimeout, error.to_string()))),
            };
            let status = event.pointer("/statusUpdate/status").or_else(|| event.pointer("/task/status"));
            let (state, message) = match status {
                Some(status) => (status["state"].as_str()?.to_owned(), &status["message"]),
                // The task was answered with a message.
                None => ("TASK_STATE_COMPLETED".to_owned(), event.get("message")?),
            };
            let message = message["parts"][0]["text"].as_str().map(str::to_owned);
            Some(Ok(StatusEvent { state, message }))
        })))
    }

    /// Waits up to `wait` for the first signal at `path` of the board.
    pub(super) async fn wait_for_signal(&self, path: &str, wait: Duration) -> Result<(), Problem> {
        let base = self.board().await?;
        let url = format!("{base}{path}");
        let call = self.authorized(ClientRequest::get(&url, RECIPIENT), &base).await;
        let mut events = Box::pin(self.wire.events(call).await?.eventsource());
        match tokio::time::timeout(wait, events.next()).await {
            Ok(Some(Err(error))) => Err(Problem::new(Reason::BlackboardUnavailable, error.to_string())),
            Ok(Some(Ok(_)) | None) | Err(_) => Ok(()),
        }
    }

    /// The registered live agents, of `capability` if given.
    pub(super) async fn agents(&self, capability: Option<&str>) -> Result<Vec<AgentEntry>, Problem> {
        let base = self.service(|addresses| addresses.registry.clone()).await?;
        let query = capability.map(|name| format!("?capability={}", encoded(name))).unwrap_or_default();
        Ok(self.get::<AgentList>(&base, &format!("{}{query}", routes::AGENTS)).await?.agents)
    }

    pub(super) async fn board(&self) -> Result<String, Problem> {
        match self.service(|addresses| addresses.board.clone()).await {
            Err(problem) if problem.reason == Reason::RouteNotFound => {
                let registry = self.service(|addresses| addresses.registry.clone()).await?;
                let addresses: ServiceAddresses = self.get(&registry, routes::SERVICES).await?;
                let unknown = || Problem::new(Reason::BlackboardUnavailable, "the registry knows no board");
                addresses.board_from(&registry).ok_or_else(unknown)
            }
            found => found,
        }
    }

    /// The base URL of the service that the called process names; `route_not_found` if it names none.
    async fn service(
        &self,
        address: impl Fn(&ServiceAddresses) -> Option<String>,
    ) -> Result<String, Problem> {
        let addresses: ServiceAddresses = self.get(&self.base, routes::SERVICES).await?;
        match address(&addresses) {
            Some(url) if url == HERE => Ok(self.base.clone()),
            Some(url) => Ok(url.trim_end_matches('/').to_owned()),
            None => Err(Problem::new(Reason::RouteNotFound, "the process knows no such service")),
        }
    }

    /// The base URLs of every agent that is called.
    pub(super) async fn every_agent(&self) -> Result<Vec<String>, Problem> {
        match &self.reach {
            ApiReach::Node(agents) => Ok(agents.to_vec()),
            ApiReach::Mesh => self.agent_endpoints().await,
        }
    }

    /// The base URLs of one agent of each process that is called; with [`ApiReach::Mesh`] of every agent.
    pub(super) async fn agent_endpoints(&self) -> Result<Vec<String>, Problem> {
        match &self.reach {
            ApiReach::Node(_) => Ok(vec![self.base.clone()]),
            ApiReach::Mesh => {
                let agents = self.agents(None).await?;
                Ok(agents.iter().map(|entry| entry.card.endpoint.clone()).collect())
            }
        }
    }

    async fn first_endpoint(&self) -> Result<String, Problem> {
        let none = || Problem::new(Reason::AgentNotFound, "no agent is registered");
        self.agent_endpoints().await?.into_iter().next().ok_or_else(none)
    }

    /// The agent of the port that is called; at a port of the services the entrance of the mesh.
    async fn own_agent(&self, capability: Option<&str>) -> Result<String, Problem> {
        let own: Card = self.get(&self.base, routes::CARD).await?;
        let agents = match capability.is_none() && port(&own.endpoint) != port(&self.base) {
            true => self.agents(None).await?,
            false => Vec::new(),
        };
        Ok(entrance(&agents).map_or(own.agent_id.to_string(), |entry| entry.id().to_string()))
    }

    /// Whom a task is sent to: `agent`; else at a node its own agent, and in a mesh one with the capability, or the entrance.
    pub(super) async fn recipient(
        &self,
        agent: Option<&str>,
        capability: Option<&str>,
    ) -> Result<Recipient, Problem> {
        let of = |entry: &AgentEntry| Recipient {
            agent: entry.id().to_string(),
            endpoint: entry.card.endpoint.clone(),
        };
        if let ApiReach::Node(_) = &self.reach {
            let agent = match agent {
                Some(agent) => agent.to_owned(),
                None => self.own_agent(capability).await?,
            };
            return Ok(Recipient { agent, endpoint: self.base.clone() });
        }
        let agents = self.agents(None).await?;
        if let Some(id) = agent {
            let missing = || Problem::new(Reason::AgentNotFound, format!("no agent {id} is registered"));
            return agents.iter().find(|entry| entry.id().as_str() == id).map(of).ok_or_else(missing);
        }
        let capability = capability.and_then(|name| name.parse::<Capability>().ok());
        let can = |entry: &&AgentEntry| {
            capability.as_ref().is_some_and(|capability| entry.card.support(capability) > 0.0)
        };
        let none = || Problem::new(Reason::AgentNotFound, "no agent is registered");
        agents.iter().find(can).or_else(|| entrance(&agents)).map(of).ok_or_else(none)
    }

    /// The task at the accountable agent, the one with the shortest path, among those that are called.
    pub(super) async fn find(&self, task: &str) -> Result<TaskAtEndpoint, Problem> {
        let endpoints = self.agent_endpoints().await?;
        let answers = join_all(endpoints.iter().map(|endpoint| self.task_at(endpoint, task))).await;
        let (mut best, mut failure): (Option<TaskAtEndpoint>, Option<Problem>) = (None, None);
        for (endpoint, answer) in endpoints.iter().zip(answers) {
            match answer {
                Ok(task) if best.as_ref().is_none_or(|best| hops(&task) < hops(&best.task)) => {
                    best = Some(TaskAtEndpoint { endpoint: endpoint.clone(), task });
                }
                Ok(_) => {}
                Err(problem) if problem.reason == Reason::TaskNotFound => {}
                Err(problem) => failure = Some(problem),
            }
        }
        let not_found = || Problem::new(Reason::TaskNotFound, format!("no task {task} of yours"));
        best.ok_or_else(|| failure.unwrap_or_else(not_found))
    }

    pub(super) async fn task_at(&self, endpoint: &str, task: &str) -> Result<A2aTask, Problem> {
        read_task(self.get(endpoint, &format!("{}/{}", routes::TASKS, encoded(task))).await?)
    }

    pub(super) async fn send(&self, endpoint: &str, message: &Value) -> Result<Value, Problem> {
        let url = format!("{endpoint}{}", routes::MESSAGES);
        let call = ClientRequest::post(&url, RECIPIENT, Bytes::from(message.to_string()));
        self.wire.json(self.authorized(call, endpoint).await.within(ANSWER_MARGIN)).await
    }
}

/// Parses a task as `/a2a/tasks` shows it.
pub(super) fn read_task(value: Value) -> Result<A2aTask, Problem> {
    A2aTask::from_proto(value)
        .map_err(|invalid| Problem::new(Reason::Internal, format!("a task can't be read: {invalid}")))
}

fn hops(task: &A2aTask) -> usize {
    task.metadata.get(EXTENSION).and_then(|ours| ours["path"].as_array()).map_or(0, Vec::len)
}

/// Percent-encodes `text` for a path or query.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Where a task takes answers.
pub(super) fn answer_path(task: &str) -> String {
    format!("{}/{}/answer", routes::TASKS, encoded(task))
}
