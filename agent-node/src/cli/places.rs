//! Which agents a verb asks: the one at the address that `--at` names, or all that are registered, where they say they are.
//!
//! An agent in a container is registered under a name that only its network knows. From outside it is reached at a
//! published port, which nobody inside knows; so whoever asks from outside says where.

use super::{
    Common, USUAL_URL,
    client::{Client, base_url},
    exit::{Exit, Failure},
    output,
    typed::quoted,
};
use blackboard::http_client::redact_url;
use clap::Args;
use futures_util::future::join_all;
use protocol::{card::Card, ids::AgentId};
use serde_json::Value;

/// The most agents that one line names.
const NAMED: usize = 2;

/// Where to ask, if not at the addresses that agents are registered with.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct At {
    /// An agent's address as it is reached from here, such as a container's published port: it is asked, instead of those that are registered.
    #[arg(long, env = "MESH_AT", hide_env_values = true, global = true, value_name = "URL", value_parser = base_url)]
    at: Option<String>,
}

/// An agent, and where it is asked.
pub(super) struct Place {
    pub(super) agent: AgentId,
    pub(super) endpoint: String,
    /// Whether `--at` said so.
    pub(super) is_told: bool,
}

impl At {
    /// The address that was named, as a base URL.
    pub(super) fn base(&self) -> Option<String> {
        self.at.clone()
    }

    /// What to add to a command so that it asks at the same place: the agent's address, or else where the registry is. For
    /// a shell, and without a password: that is for the person to add who has it.
    pub(super) fn again(&self, common: &Common) -> String {
        match &self.at {
            Some(at) => format!(" --at {}", quoted(&redact_url(at))),
            None if common.url != USUAL_URL => format!(" --url {}", quoted(&redact_url(&common.url))),
            None => String::new(),
        }
    }

    /// The agents to ask.
    pub(super) async fn places(&self, client: &Client) -> Result<Vec<Place>, Failure> {
        if let Some(at) = self.base() {
            let agent = client.card_at(&at).await?.agent_id;
            return Ok(vec![Place::told(agent, at)]);
        }
        Ok(client.agents(None).await?.iter().map(|entry| Place::registered(&entry.card)).collect())
    }
}

/// What each of `places` answers to `GET path`.
pub(super) async fn ask<'a>(
    client: &Client,
    places: &'a [Place],
    path: &str,
) -> Vec<(&'a Place, Result<Value, Failure>)> {
    let asked = places.iter().map(|place| client.get::<Value>(&place.endpoint, path));
    places.iter().zip(join_all(asked).await).collect()
}

/// The answers to `GET path` of all who can be asked. Who is left out is said; if that is everybody, that is a failure.
pub(super) async fn all<'a>(
    client: &Client,
    places: &'a [Place],
    path: &str,
) -> Result<Vec<(&'a AgentId, Value)>, Failure> {
    let (mut answers, mut failed, mut unreached) = (Vec::new(), Vec::new(), Vec::new());
    for (place, answer) in ask(client, places, path).await {
        match answer {
            Ok(answer) => answers.push((&place.agent, answer)),
            Err(failure) if place.is_told => return Err(failure),
            Err(failure) if place.is_beyond(&failure) => unreached.push(place),
            Err(failure) => failed.push((format!("{} is left out", place.agent), failure)),
        }
    }
    if !unreached.is_empty() {
        failed.push(("left out".to_owned(), beyond(&unreached)));
    }
    if answers.is_empty() && !failed.is_empty() {
        return Err(failed.swap_remove(0).1);
    }
    for (who, failure) in failed {
        output::note(&format!("mesh: {who}: {}", failure.message));
    }
    Ok(answers)
}

impl Place {
    /// An agent at the address that was named for it.
    pub(super) fn told(agent: AgentId, endpoint: String) -> Self {
        Self { agent, endpoint, is_told: true }
    }

    /// An agent where it is registered.
    pub(super) fn registered(card: &Card) -> Self {
        Self { agent: card.agent_id.clone(), endpoint: card.endpoint.clone(), is_told: false }
    }

    /// `failure`, which it was asked with; if nobody answered where it is registered, with what to do about it.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match self.is_beyond(&failure) {
            true => beyond(&[self]),
            false => failure,
        }
    }

    /// Whether the registry named an address where nobody answers from here.
    pub(super) fn is_beyond(&self, failure: &Failure) -> bool {
        failure.exit == Exit::Unreachable && !self.is_told
    }
}

/// Nobody answers where these are registered.
pub(super) fn beyond(places: &[&Place]) -> Failure {
    let first: Vec<_> =
        places.iter().take(NAMED).map(|place| format!("{} ({})", place.agent, place.endpoint)).collect();
    let more = places.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!(
        "no answer from {}{more} at the registered address; what can only be reached elsewhere from here, as a container's \
         published port, is named with --at URL or MESH_AT",
        first.join(", ")
    );
    Failure::new(Exit::Unreachable, message)
}
