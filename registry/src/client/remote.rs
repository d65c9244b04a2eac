//! The client of a registry behind HTTP.

use crate::{
    entry::{AgentEntry, AgentList, AgentQuery, CapabilityMatch, Heartbeat, LeaseGrant, SearchOrder},
    pinned_keys::{KeyCursor, KeyPage},
    registrar::OWNER,
    registration_request::RegistrationRequest,
};
use blackboard::http_client::{ClientRequest, HttpClient, is_foreign_response, redact_url};
use bytes::Bytes;
use futures_util::Stream;
use protocol::{
    identity::{KeyCertificate, KeyChange},
    ids::AgentId,
    problem::{Problem, Reason},
    routes,
};
use reqwest::Method;
use serde::Serialize;
use std::{pin::Pin, sync::Arc};

/// The bytes of an event stream.
pub(super) type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, Problem>> + Send>>;

#[derive(Clone)]
pub(super) struct RemoteRegistry {
    base: Arc<str>,
    wire: HttpClient,
}

impl RemoteRegistry {
    pub(super) fn new(base: &str, wire: HttpClient) -> Self {
        let wire = wire.with_unreachable_reason(Reason::RegistryUnavailable);
        Self { base: base.trim_end_matches('/').into(), wire }
    }

    /// Replaces an error that no registry would answer by [`Self::not_a_registry`].
    fn check_registry<T>(&self, answer: Result<T, Problem>) -> Result<T, Problem> {
        answer.map_err(|problem| {
            let is_foreign = is_foreign_response(&problem) || problem.reason == Reason::RouteNotFound;
            if is_foreign { self.not_a_registry(&problem.message) } else { problem }
        })
    }

    /// The problem of an address at which something other than a registry listens.
    pub(super) fn not_a_registry(&self, answer: &str) -> Problem {
        let base = redact_url(&self.base);
        let message = format!(
            "what listens at {base} is no registry ({answer}): --registry (MESH_REGISTRY) wants the base URL of `mesh registry` or \
             `mesh up`, such as http://127.0.0.1:8000"
        );
        Problem::new(Reason::RegistryUnavailable, message)
    }

    pub(super) async fn register(&self, request: &RegistrationRequest) -> Result<LeaseGrant, Problem> {
        let url = format!("{}{}", self.base, routes::AGENTS);
        self.check_registry(self.wire.json(ClientRequest::post(&url, OWNER, json(request)?)).await)
    }

    pub(super) async fn heartbeat(&self, id: &AgentId, heartbeat: Heartbeat) -> Result<(), Problem> {
        let url = format!("{}/heartbeat", self.agent_url(id));
        let call = ClientRequest::new(Method::PUT, &url, OWNER).body(json(&heartbeat)?);
        self.wire.bytes(call).await.map(|_| ())
    }

    pub(super) async fn report_suspicion(&self, id: &AgentId, incarnation: u64) -> Result<(), Problem> {
        let url = format!("{}/suspicion", self.agent_url(id));
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
        let url = format!("{}?incarnation={incarnation}{reason}", self.agent_url(id));
        self.wire.bytes(ClientRequest::new(Method::DELETE, &url, OWNER)).await.map(|_| ())
    }

    pub(super) async fn change_key(
        &self,
        id: &AgentId,
        change: &KeyChange,
    ) -> Result<KeyCertificate, Problem> {
        let url = format!("{}{}/{id}/change", self.base, routes::REGISTRY_KEYS);
        self.wire.json(ClientRequest::post(&url, OWNER, json(change)?)).await
    }

    pub(super) async fn key_records(&self, after: Option<KeyCursor>) -> Result<KeyPage, Problem> {
        let query = after.map(|KeyCursor { life, revision }| format!("?life={life}&revision={revision}"));
        let url = format!("{}{}{}", self.base, routes::KEY_RECORDS, query.unwrap_or_default());
        self.check_registry(self.wire.json(ClientRequest::get(&url, OWNER)).await)
    }

    pub(super) async fn find(&self, query: &AgentQuery) -> Result<Vec<AgentEntry>, Problem> {
        let url = format!("{}{}{}", self.base, routes::AGENTS, query_string(query));
        let AgentList { agents } =
            self.check_registry(self.wire.json(ClientRequest::get(&url, OWNER)).await)?;
        Ok(agents)
    }

    pub(super) async fn get(&self, id: &AgentId) -> Result<Option<AgentEntry>, Problem> {
        match self.wire.json(ClientRequest::get(&self.agent_url(id), OWNER)).await {
            Ok(entry) => Ok(Some(entry)),
            Err(problem) if problem.reason == Reason::AgentNotFound => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    pub(super) async fn events(&self) -> Result<ByteStream, Problem> {
        let url = format!("{}{}", self.base, routes::REGISTRY_WATCH);
        let chunks: ByteStream =
            Box::pin(self.check_registry(self.wire.events(ClientRequest::get(&url, OWNER)).await)?);
        Ok(chunks)
    }

    fn agent_url(&self, id: &AgentId) -> String {
        format!("{}{}/{id}", self.base, routes::AGENTS)
    }
}

/// The query string; the grammar of capabilities needs no escaping.
fn query_string(query: &AgentQuery) -> String {
    let mut text = match query.matching {
        CapabilityMatch::Any => "?match=any".to_owned(),
        CapabilityMatch::All => "?match=all".to_owned(),
    };
    for capability in &query.capabilities {
        text.push_str("&capability=");
        text.push_str(capability.as_str());
    }
    text.push_str(match query.prefer {
        SearchOrder::None => "",
        SearchOrder::LeastLoaded => "&prefer=least-loaded",
        SearchOrder::Cheapest => "&prefer=cheapest",
    });
    if query.include_dead {
        text.push_str("&includeDead=true");
    }
    text
}

fn json(value: &impl Serialize) -> Result<Bytes, Problem> {
    serde_json::to_vec(value)
        .map(Into::into)
        .map_err(|error| Problem::new(Reason::Internal, error.to_string()))
}
