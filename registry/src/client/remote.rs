//! The registry behind HTTP.

use crate::{
    application::Application,
    entry::{Entry, Heartbeat, Match, Prefer, Query, Registered},
    http::Found,
    registrar::OWNER,
};
use blackboard::http_client::{ClientRequest, HttpClient, is_foreign_response, redact_url};
use bytes::Bytes;
use futures_util::Stream;
use protocol::{
    ids::AgentId,
    problem::{Problem, Reason},
    routes,
};
use reqwest::Method;
use serde::Serialize;
use std::{pin::Pin, sync::Arc};

/// The bytes of an event stream.
pub(super) type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Problem>> + Send>>;

#[derive(Clone)]
pub(super) struct Remote {
    base: Arc<str>,
    wire: HttpClient,
}

impl Remote {
    pub(super) fn new(base: &str, wire: HttpClient) -> Self {
        let wire = wire.with_unreachable_reason(Reason::RegistryUnavailable);
        Self { base: base.trim_end_matches('/').into(), wire }
    }

    /// The answer, or whose it is if it is no registry's.
    fn as_registry<T>(&self, answer: Result<T, Problem>) -> Result<T, Problem> {
        answer.map_err(|problem| {
            let is_none = is_foreign_response(&problem) || problem.reason == Reason::RouteNotFound;
            if is_none { self.no_registry(&problem.message) } else { problem }
        })
    }

    /// That something else listens at the address.
    pub(super) fn no_registry(&self, said: &str) -> Problem {
        let base = redact_url(&self.base);
        let message = format!(
            "what listens at {base} is no registry ({said}): --registry (MESH_REGISTRY) wants the base URL of `mesh registry` or \
             `mesh up`, such as http://127.0.0.1:8000"
        );
        Problem::new(Reason::RegistryUnavailable, message)
    }

    pub(super) async fn register(&self, application: &Application) -> Result<Registered, Problem> {
        let url = format!("{}{}", self.base, routes::AGENTS);
        self.as_registry(self.wire.json(ClientRequest::post(&url, OWNER, json(application)?)).await)
    }

    pub(super) async fn heartbeat(&self, id: &AgentId, heartbeat: Heartbeat) -> Result<(), Problem> {
        let url = format!("{}/heartbeat", self.agent(id));
        let call = ClientRequest::new(Method::PUT, &url, OWNER).body(json(&heartbeat)?);
        self.wire.bytes(call).await.map(|_| ())
    }

    pub(super) async fn suspect(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        let url = format!("{}/suspicion", self.agent(id));
        let body = serde_json::json!({ "incarnation": incarnation }).to_string();
        self.wire.bytes(ClientRequest::post(&url, OWNER, body.into())).await.map(|_| ())
    }

    pub(super) async fn deregister(
        &self,
        id: &AgentId,
        incarnation: u64,
        is_drained: bool,
    ) -> Result<(), Problem> {
        let reason = if is_drained { "&reason=drained" } else { "" };
        let url = format!("{}?incarnation={incarnation}{reason}", self.agent(id));
        self.wire.bytes(ClientRequest::new(Method::DELETE, &url, OWNER)).await.map(|_| ())
    }

    pub(super) async fn find(&self, query: &Query) -> Result<Vec<Entry>, Problem> {
        let url = format!("{}{}{}", self.base, routes::AGENTS, written(query));
        let Found { agents } = self.as_registry(self.wire.json(ClientRequest::get(&url, OWNER)).await)?;
        Ok(agents)
    }

    pub(super) async fn look(&self, id: &AgentId) -> Result<Option<Entry>, Problem> {
        match self.wire.json(ClientRequest::get(&self.agent(id), OWNER)).await {
            Ok(entry) => Ok(Some(entry)),
            Err(problem) if problem.reason == Reason::AgentNotFound => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    pub(super) async fn events(&self) -> Result<Chunks, Problem> {
        let url = format!("{}{}", self.base, routes::REGISTRY_WATCH);
        let chunks: Chunks =
            Box::pin(self.as_registry(self.wire.events(ClientRequest::get(&url, OWNER)).await)?);
        Ok(chunks)
    }

    fn agent(&self, id: &AgentId) -> String {
        format!("{}{}/{id}", self.base, routes::AGENTS)
    }
}

/// The query part of the address; every text in it is of a grammar that needs no escaping.
fn written(query: &Query) -> String {
    let mut text = match query.matching {
        Match::Any => "?match=any".to_owned(),
        Match::All => "?match=all".to_owned(),
    };
    for capability in &query.capabilities {
        text.push_str("&capability=");
        text.push_str(capability.as_str());
    }
    text.push_str(match query.prefer {
        Prefer::None => "",
        Prefer::LeastLoaded => "&prefer=least-loaded",
        Prefer::Cheapest => "&prefer=cheapest",
    });
    if query.include_dead {
        text.push_str("&includeDead=true");
    }
    text
}

fn json(value: &impl Serialize) -> Result<Bytes, Problem> {
    let written = serde_json::to_vec(value);
    written.map(Into::into).map_err(|error| Problem::new(Reason::Internal, error.to_string()))
}
