//! The mesh over HTTP, as its user sees it.

use super::{
    Common,
    exit::{Exit, Failure},
};
use crate::{
    http::routes::health::Readiness,
    node::services::{HERE, Told as Services},
};
use actix_web::http::StatusCode;
use blackboard::wire::{Call, Wire, WireLimits, shown};
use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::{Stream, StreamExt};
use protocol::{card::Card, problem::Reason, routes};
use registry::entry::AgentEntry;
use reqwest::Url;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{pin::Pin, sync::Arc, time::Duration};

/// Whom a request says it is for; only signed ones are held to it.
const RECIPIENT: &str = "mesh";

/// A user of the mesh.
#[derive(Clone)]
pub(super) struct Client {
    wire: Wire,
    /// Where the registry and the board are.
    pub(super) url: String,
}

/// One event of a stream.
pub(super) struct Told {
    /// Where a stream that broke goes on.
    pub(super) id: String,
    pub(super) data: Value,
}

/// The events of a stream, for as long as it lasts.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<Told, Failure>>>>;

#[derive(Deserialize)]
struct Found {
    agents: Vec<AgentEntry>,
}

impl Client {
    pub(super) fn new(common: &Common) -> Result<Self, Failure> {
        let url = base(&common.url)?;
        let wire = Wire::new(None, WireLimits::default()).map_err(|problem| Failure::of(&problem, &url))?;
        Ok(Self { wire, url })
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, base: &str, path: &str) -> Result<T, Failure> {
        let url = format!("{base}{path}");
        self.wire.json(Call::get(&url, RECIPIENT)).await.map_err(|problem| Failure::of(&problem, base))
    }

    /// What the process at `base` says of whether it can do its work, either way; within `time`.
    pub(super) async fn readiness(&self, base: &str, time: Duration) -> Result<Readiness, Failure> {
        let url = format!("{base}{}", routes::READY);
        let call = Call::get(&url, RECIPIENT).within(time);
        let told = self.wire.json_also(call, StatusCode::SERVICE_UNAVAILABLE).await;
        told.map_err(|problem| Failure::of(&problem, base))
    }

    /// The agents within `time`, gone ones left out.
    pub(super) async fn agents_within(&self, time: Duration) -> Result<Vec<AgentEntry>, Failure> {
        let url = format!("{}{}", self.url, routes::AGENTS);
        let found: Result<Found, _> = self.wire.json(Call::get(&url, RECIPIENT).within(time)).await;
        found.map(|found| found.agents).map_err(|problem| Failure::of(&problem, &self.url))
    }

    pub(super) async fn post(&self, base: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let url = format!("{base}{path}");
        let call = Call::post(&url, RECIPIENT, Bytes::from(body.to_string()));
        self.wire.json(call).await.map_err(|problem| Failure::of(&problem, base))
    }

    /// A stream of events, after the one that `after` names.
    pub(super) async fn follow(
        &self,
        base: &str,
        path: &str,
        after: Option<&str>,
    ) -> Result<Events, Failure> {
        let (url, base) = (format!("{base}{path}"), base.to_owned());
        let mut call = Call::get(&url, RECIPIENT);
        if let Some(id) = after {
            call = call.header("last-event-id", id);
        }
        let events = self.wire.events(call).await.map_err(|problem| Failure::of(&problem, &base))?;
        Ok(Box::pin(events.eventsource().map(move |event| {
            let event = event.map_err(|error| {
                Failure::new(Exit::Unreachable, format!("the stream from {} broke: {error}", shown(&base)))
            })?;
            let data = serde_json::from_str(&event.data).unwrap_or(Value::String(event.data));
            Ok(Told { id: event.id, data })
        })))
    }

    /// The agents, gone ones left out.
    pub(super) async fn agents(&self, capability: Option<&str>) -> Result<Vec<AgentEntry>, Failure> {
        let mut path = routes::AGENTS.to_owned();
        if let Some(name) = capability {
            path = format!("{path}?capability={}", encoded(name));
        }
        Ok(self.get::<Found>(&self.url, &path).await?.agents)
    }

    /// The base URL of the board: the one that was named has it, or knows where it is.
    pub(super) async fn board(&self) -> Result<String, Failure> {
        let mut asked = self.url.clone();
        // A node may know the registry only, which knows the board.
        for _ in 0..2 {
            let told: Services = match self.get(&asked, routes::SERVICES).await {
                Ok(told) => told,
                Err(failure) if failure.exit == Exit::Refused => break,
                Err(failure) => return Err(failure),
            };
            if let Some(board) = told.board_from(&asked) {
                return base(&board);
            }
            match told.registry {
                Some(registry) if registry != HERE => asked = base(&registry)?,
                Some(_) | None => break,
            }
        }
        Ok(self.url.clone())
    }

    /// The card of the agent `name`.
    pub(super) async fn card_of(&self, name: &str) -> Result<Arc<Card>, Failure> {
        let agents = self.agents(None).await?;
        let found = agents.iter().find(|entry| entry.card.agent_id.as_str() == name);
        found.map(|entry| entry.card.clone()).ok_or_else(|| {
            let closeness = |entry: &AgentEntry| strsim::jaro_winkler(entry.card.agent_id.as_str(), name);
            let nearest = agents.iter().max_by(|a, b| closeness(a).total_cmp(&closeness(b)));
            let hint = nearest.filter(|entry| closeness(entry) > 0.7);
            let hint =
                hint.map(|entry| format!("; did you mean {}?", entry.card.agent_id)).unwrap_or_default();
            Failure::new(Exit::Refused, format!("no agent {name} is registered{hint} (agent_not_found)"))
        })
    }

    /// The card of the agent that listens at `at`.
    pub(super) async fn card_at(&self, at: &str) -> Result<Card, Failure> {
        self.get(at, routes::CARD).await.map_err(|failure| match failure.reason {
            Some(Reason::RouteNotFound) => {
                let message = format!(
                    "no agent is at {}: --at names an agent's address, not the registry's or the board's",
                    shown(at)
                );
                Failure::new(Exit::Refused, message)
            }
            Some(_) | None => failure,
        })
    }
}

/// `text`, which a server or a person named, as a base URL without a slash at its end.
pub(super) fn base(text: &str) -> Result<String, Failure> {
    base_url(text).map_err(|why| Failure::new(Exit::Usage, why))
}

/// The same for words of the command line, and what is wrong with them.
pub(super) fn base_url(text: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("{:?} {why}; one like http://127.0.0.1:8000 is wanted", shown(text));
    let url = Url::parse(text).map_err(|error| wrong(&format!("is no URL ({error})")))?;
    if !["http", "https"].contains(&url.scheme()) || !url.has_host() {
        return Err(wrong("is no http:// URL"));
    }
    // Routes are put after it. A `#` in a password that is not written `%23` looks like this, too.
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("goes on with a query or a fragment"));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// `text` as part of a path or query.
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
