//! The HTTP client of the verbs.

use super::{
    CommonArgs,
    exit::{CliError, Exit},
    token,
};
use crate::{
    clock::wall_time,
    http::routes::health::Readiness,
    node::services::{HERE, ServiceAddresses},
};
use actix_web::http::{StatusCode, header::HttpDate};
use blackboard::http_client::{ClientRequest, HttpClient, HttpClientLimits, has_credentials, redact_url};
use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::{Stream, StreamExt};
use protocol::{card::Card, identity::PersonKey, problem::Reason, routes, words};
use registry::entry::AgentEntry;
use reqwest::{Method, Url};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// The recipient named in requests; servers check it for signed requests only.
const RECIPIENT: &str = "mesh";

/// What to do if the file of `--token` is no good.
const TOKEN_REMEDY: &str =
    "--token or MESH_TOKEN_FILE names it (`token` in the data directory of the registry)";

/// Requests to the mesh as its user.
#[derive(Clone)]
pub(super) struct MeshClient {
    wire: HttpClient,
    person: Option<PersonCredential>,
    /// The base URL of the registry and the board.
    pub(super) url: String,
}

/// The person's key. Processes see tickets, each good at one address, and never the token.
#[derive(Clone)]
struct PersonCredential {
    key: Arc<PersonKey>,
    /// Whether it is that of `~/.mesh/default`. It is used on this machine only, and only for a mesh that it is of.
    is_default: bool,
    accepted_by: Arc<Mutex<BTreeMap<String, bool>>>,
}

/// One event of a stream.
pub(super) struct StreamEvent {
    /// The event id from which a broken stream resumes.
    pub(super) id: String,
    pub(super) data: Value,
}

/// The events of a stream.
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
        let person = |token: String, is_default| {
            let key = Arc::new(PersonKey::of_token(&token));
            PersonCredential { key, is_default, accepted_by: Arc::default() }
        };
        let person = match &common.token {
            Some(file) => Some(person(token::read(file, TOKEN_REMEDY)?, false)),
            None => token::of_default_mesh().map(|token| person(token, true)),
        };
        Ok(Self { wire, person, url })
    }

    /// The person's key, which signs approvals.
    pub(super) fn person(&self) -> Option<&Arc<PersonKey>> {
        self.person.as_ref().map(|person| &person.key)
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
        // A name and a password in the URL are a credential for a proxy in between, in the same header.
        let person = self.person.as_ref().filter(|_| !has_credentials(base))?;
        let value = format!("Bearer {}", person.key.ticket(&authority(base)?, wall_time()));
        let is_shown =
            !person.is_default || is_on_this_machine(base) && self.is_accepted(person, &value, base).await;
        is_shown.then_some(value)
    }

    /// Whether the process at `base` is of the mesh of the default token. It is asked once.
    async fn is_accepted(&self, person: &PersonCredential, value: &str, base: &str) -> bool {
        let known = person.accepted_by.lock().unwrap_or_else(PoisonError::into_inner).get(base).copied();
        if let Some(known) = known {
            return known;
        }
        let url = format!("{base}{}", routes::HEALTH);
        let probe = ClientRequest::get(&url, RECIPIENT).within(PROBE).header("authorization", value);
        let is_accepted = self.wire.bytes(probe).await.is_ok();
        person
            .accepted_by
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(base.to_owned(), is_accepted);
        is_accepted
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

    /// The live agents, within `timeout`.
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

    /// The live agents, of `capability` if given.
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

    /// The card of the registered agent `name`.
    pub(super) async fn card_of(&self, name: &str) -> Result<Arc<Card>, CliError> {
        let agents = self.agents(None).await?;
        let found = agents.iter().find(|entry| entry.card.agent_id.as_str() == name);
        found.map(|entry| entry.card.clone()).ok_or_else(|| {
            let nearest = words::nearest(name, agents.iter().map(|entry| entry.card.agent_id.as_str()));
            let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
            CliError::new(Exit::Refused, format!("no agent {name} is registered{hint} (agent_not_found)"))
        })
    }

    /// The card of the agent that listens at `at`.
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

/// How long a process may take to say whether it accepts the default token.
const PROBE: Duration = Duration::from_secs(2);

/// The value of `Host` in requests to `base`.
fn authority(base: &str) -> Option<String> {
    let url = Url::parse(base).ok()?;
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// Whether `base` names loopback.
fn is_on_this_machine(base: &str) -> bool {
    let host = Url::parse(base).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
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
