//! The HTTP client of the verbs.

use super::{
    CommonArgs, RECIPIENT,
    exit::{CliError, Exit},
    local_tokens::{PROBE, PersonTokens},
};
use crate::{
    http::routes::health::Readiness,
    services::{HERE, ServiceAddresses},
};
use actix_web::http::{StatusCode, header::HttpDate};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::{Stream, StreamExt};
use protocol::{
    artifact::{Artifact, PartContent},
    card::Card,
    identity::PersonKey,
    ids::Digest,
    problem::Reason,
    routes, words,
};
use registry::entry::AgentEntry;
use reqwest::{Method, Url};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};
use transport::http_client::{ClientRequest, HttpClient, HttpClientLimits, redact_url};

/// Requests to the mesh as its user.
#[derive(Clone)]
pub(super) struct MeshClient {
    pub(super) wire: HttpClient,
    tokens: PersonTokens,
    /// The base URL of the registry and the board.
    pub(super) url: String,
}

pub(super) struct StreamEvent {
    /// The event id from which a broken stream resumes.
    pub(super) id: String,
    pub(super) data: Value,
}

pub(super) type ClientEventStream = Pin<Box<dyn Stream<Item = Result<StreamEvent, CliError>>>>;

#[derive(Deserialize)]
struct AgentListBody {
    agents: Vec<AgentEntry>,
}

impl MeshClient {
    pub(super) fn new(common: &CommonArgs) -> Result<Self, CliError> {
        let url = base(&common.url)?;
        let wire = HttpClient::new(None, HttpClientLimits::default())
            .map_err(|problem| CliError::of(&problem, &url))?;
        Ok(Self { wire, tokens: PersonTokens::find(common.token.as_deref())?, url })
    }

    /// The person's key, which signs approvals at `base`.
    pub(super) async fn person(&self, base: &str) -> Option<Arc<PersonKey>> {
        self.tokens.key(&self.wire, base).await
    }

    /// The person's token of the mesh at `base`.
    pub(super) async fn token(&self, base: &str) -> Option<String> {
        Some(self.tokens.of(&self.wire, base).await?.text.clone())
    }

    /// The data directory of the mesh at [`Self::url`], if it lies on this machine.
    pub(super) async fn data_dir(&self) -> Option<PathBuf> {
        Some(self.tokens.of(&self.wire, &self.url).await?.dir.clone())
    }

    /// `call` with a ticket of the person, if the process at `base` is to have one.
    async fn authorized<'a>(&self, call: ClientRequest<'a>, base: &str) -> ClientRequest<'a> {
        match self.credential(base).await {
            Some(value) => call.header("authorization", value),
            None => call,
        }
    }

    /// The value of `Authorization` for the process at `base`, if it is to have a ticket of the person.
    pub(super) async fn credential(&self, base: &str) -> Option<String> {
        self.tokens.credential(&self.wire, base).await
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, base: &str, path: &str) -> Result<T, CliError> {
        let url = format!("{base}{path}");
        let call = self.authorized(ClientRequest::get(&url, RECIPIENT), base).await;
        self.wire.json(call).await.map_err(|problem| CliError::of(&problem, base))
    }

    /// How far the clock of the process at `base` lies from this one; `None` if it does not tell the time.
    pub(super) async fn clock_skew(&self, base: &str) -> Result<Option<Duration>, CliError> {
        let url = format!("{base}{}", routes::HEALTH);
        let call = self.authorized(ClientRequest::get(&url, RECIPIENT).within(PROBE), base).await;
        let answer = self.wire.send(call).await.map_err(|problem| CliError::of(&problem, base))?;
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok()?.parse::<HttpDate>().ok());
        Ok(date.map(|date| {
            let (there, here) = (SystemTime::from(date), SystemTime::now());
            here.duration_since(there).unwrap_or_else(|error| error.duration())
        }))
    }

    /// The `/readyz` body of the process at `base`, ready or not, within `timeout`.
    pub(super) async fn readiness(&self, base: &str, timeout: Duration) -> Result<Readiness, CliError> {
        let url = format!("{base}{}", routes::READY);
        let call = self.authorized(ClientRequest::get(&url, RECIPIENT).within(timeout), base).await;
        let readiness = self.wire.json_also(call, StatusCode::SERVICE_UNAVAILABLE).await;
        readiness.map_err(|problem| CliError::of(&problem, base))
    }

    pub(super) async fn agents_within(&self, timeout: Duration) -> Result<Vec<AgentEntry>, CliError> {
        let url = format!("{}{}", self.url, routes::AGENTS);
        let call = self.authorized(ClientRequest::get(&url, RECIPIENT).within(timeout), &self.url).await;
        let found: Result<AgentListBody, _> = self.wire.json(call).await;
        found.map(|found| found.agents).map_err(|problem| CliError::of(&problem, &self.url))
    }

    pub(super) async fn post(&self, base: &str, path: &str, body: &Value) -> Result<Value, CliError> {
        let url = format!("{base}{path}");
        let call = ClientRequest::post(&url, RECIPIENT, Bytes::from(body.to_string()));
        let call = self.authorized(call, base).await;
        self.wire.json(call).await.map_err(|problem| CliError::of(&problem, base))
    }

    pub(super) async fn put(&self, base: &str, path: &str, body: &Value) -> Result<Value, CliError> {
        let url = format!("{base}{path}");
        let call = ClientRequest::new(Method::PUT, &url, RECIPIENT).body(Bytes::from(body.to_string()));
        let call = self.authorized(call, base).await;
        self.wire.json(call).await.map_err(|problem| CliError::of(&problem, base))
    }

    pub(super) async fn delete(&self, base: &str, path: &str) -> Result<(), CliError> {
        let url = format!("{base}{path}");
        let call = self.authorized(ClientRequest::new(Method::DELETE, &url, RECIPIENT), base).await;
        self.wire.bytes(call).await.map(drop).map_err(|problem| CliError::of(&problem, base))
    }

    /// Deletes, and returns the answer.
    pub(super) async fn delete_for(&self, base: &str, path: &str) -> Result<Value, CliError> {
        let url = format!("{base}{path}");
        let call = self.authorized(ClientRequest::new(Method::DELETE, &url, RECIPIENT), base).await;
        self.wire.json(call).await.map_err(|problem| CliError::of(&problem, base))
    }

    /// Reads the files that artifacts name at the agent `base`, with the caller's credential.
    pub(super) async fn fetch_files(&self, base: &str, artifacts: &mut [Artifact]) -> Result<(), CliError> {
        let prefix = format!("{base}{}/", routes::ARTIFACTS);
        for part in artifacts.iter_mut().flat_map(|artifact| &mut artifact.parts) {
            let PartContent::Url(url) = &part.content else { continue };
            let Some(digest) = url.strip_prefix(&prefix).and_then(|digest| Digest::parse(digest).ok()) else {
                continue;
            };
            let url = format!("{prefix}{digest}");
            let call = self.authorized(ClientRequest::get(&url, RECIPIENT), base).await;
            let content = self.wire.bytes(call).await.map_err(|problem| CliError::of(&problem, base))?;
            part.content = PartContent::Raw(STANDARD.encode(&content));
        }
        Ok(())
    }

    pub(super) async fn upload(&self, base: &str, path: &str, text: String) -> Result<Value, CliError> {
        let url = format!("{base}{path}");
        let call = ClientRequest::new(Method::PUT, &url, RECIPIENT).content("text/plain", Bytes::from(text));
        let call = self.authorized(call, base).await;
        self.wire.json(call).await.map_err(|problem| CliError::of(&problem, base))
    }

    /// Opens a stream of events, after the event with id `after`.
    pub(super) async fn follow(
        &self,
        base: &str,
        path: &str,
        after: Option<&str>,
    ) -> Result<ClientEventStream, CliError> {
        let (url, base) = (format!("{base}{path}"), base.to_owned());
        let mut call = self.authorized(ClientRequest::get(&url, RECIPIENT), &base).await;
        if let Some(id) = after {
            call = call.header("last-event-id", id);
        }
        let events = self.wire.events(call).await.map_err(|problem| CliError::of(&problem, &base))?;
        Ok(Box::pin(events.eventsource().map(move |event| {
            let event = event.map_err(|error| {
                CliError::new(
                    Exit::Unreachable,
                    format!("the stream from {} broke: {error}", redact_url(&base)),
                )
            })?;
            let data = serde_json::from_str(&event.data).unwrap_or(Value::String(event.data));
            Ok(StreamEvent { id: event.id, data })
        })))
    }

    /// The agents that are registered and not live: dead, or departed.
    pub(super) async fn gone_agents(&self) -> Result<Vec<AgentEntry>, CliError> {
        let path = format!("{}?includeDead=true", routes::AGENTS);
        let mut agents = self.get::<AgentListBody>(&self.url, &path).await?.agents;
        agents.retain(|entry| !entry.state.is_live());
        Ok(agents)
    }

    pub(super) async fn agents(&self, capability: Option<&str>) -> Result<Vec<AgentEntry>, CliError> {
        let mut path = routes::AGENTS.to_owned();
        if let Some(name) = capability {
            path = format!("{path}?capability={}", encoded(name));
        }
        Ok(self.get::<AgentListBody>(&self.url, &path).await?.agents)
    }

    /// The base URL of the board, as the process at [`Self::url`] knows it.
    pub(super) async fn board(&self) -> Result<String, CliError> {
        let mut base_url = self.url.clone();
        // A node may know only the registry, which knows the board.
        for _ in 0..2 {
            let addresses: ServiceAddresses = match self.get(&base_url, routes::SERVICES).await {
                Ok(addresses) => addresses,
                Err(failure) if failure.exit == Exit::Refused => break,
                Err(failure) => return Err(failure),
            };
            if let Some(board) = addresses.board_from(&base_url) {
                return base(&board);
            }
            match addresses.registry {
                Some(registry) if registry != HERE => base_url = base(&registry)?,
                Some(_) | None => break,
            }
        }
        Ok(self.url.clone())
    }

    pub(super) async fn card_of(&self, name: &str) -> Result<Arc<Card>, CliError> {
        let agents = self.agents(None).await?;
        let found = agents.iter().find(|entry| entry.card.agent_id.as_str() == name);
        found.map(|entry| entry.card.clone()).ok_or_else(|| {
            let nearest = words::nearest(name, agents.iter().map(|entry| entry.card.agent_id.as_str()));
            let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
            CliError::new(Exit::Refused, format!("no agent {name} is registered{hint} (agent_not_found)"))
        })
    }

    pub(super) async fn card_at(&self, at: &str) -> Result<Card, CliError> {
        self.get(at, routes::CARD).await.map_err(|failure| match failure.reason {
            Some(Reason::RouteNotFound) => {
                let message = format!(
                    "no agent is at {}: --at names an agent's address, not the registry's or the board's",
                    redact_url(at)
                );
                CliError::new(Exit::Refused, message)
            }
            Some(_) | None => failure,
        })
    }
}

/// Parses a base URL; removes trailing slashes.
pub(super) fn base(text: &str) -> Result<String, CliError> {
    base_url(text).map_err(|why| CliError::new(Exit::Usage, why))
}

/// The same as a clap value parser.
pub(super) fn base_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("{:?} {why}; one like http://127.0.0.1:8000 is wanted", redact_url(text));
    let url = Url::parse(text).map_err(|error| wrong(&format!("is no URL ({error})")))?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(wrong("is no http:// URL"));
    }
    // Routes are appended. An unescaped `#` in a password also parses as a fragment.
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("goes on with a query or a fragment"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Percent-encodes `text` for a path or query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
