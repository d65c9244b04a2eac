//! The agents that a verb queries: the one at `--at`, or all registered ones at their registered addresses.
//!
//! An agent in a container is registered under a name that only its network resolves. From outside it is reached at a
//! published port, which the registry does not know; `--at` names it.

use super::{
    CommonArgs, DEFAULT_URL,
    client::{MeshClient, base_url},
    exit::{CliError, Exit},
    output,
    shell_quote::shell_quoted,
};
use clap::Args;
use futures_util::future::join_all;
use protocol::{card::Card, ids::AgentId};
use registry::entry::entrance;
use serde_json::Value;
use transport::http_client::redact_url;

/// Most agents that an error message names.
const MAX_NAMED: usize = 2;

/// Where to ask, if not at the addresses that agents are registered with.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct AtArgs {
    /// An agent's address as it is reached from here, such as a container's published port: it is asked, instead of those that are registered.
    #[arg(long, env = "MESH_AT", hide_env_values = true, global = true, value_name = "URL", value_parser = base_url)]
    at: Option<String>,
}

/// An agent and its base URL.
#[derive(Clone)]
pub(super) struct AgentEndpoint {
    pub(super) agent: AgentId,
    pub(super) endpoint: String,
    /// Whether `--at` named the URL.
    pub(super) is_given: bool,
}

impl AtArgs {
    pub(super) fn base(&self) -> Option<String> {
        self.at.clone()
    }

    /// The flags that make a suggested command use the same address and token, quoted for a shell: `--at`, or a `--url` that is
    /// not the default, and `--token`. Passwords are removed.
    pub(super) fn repeat_flag(&self, common: &CommonArgs) -> String {
        let at = match &self.at {
            Some(at) => format!(" --at {}", shell_quoted(&redact_url(at))),
            None if common.url != DEFAULT_URL => format!(" --url {}", shell_quoted(&redact_url(&common.url))),
            None => String::new(),
        };
        let token = common.token.as_ref().map(|file| file.display().to_string());
        at + &token.map(|file| format!(" --token {}", shell_quoted(&file))).unwrap_or_default()
    }

    pub(super) async fn endpoints(&self, client: &MeshClient) -> Result<Vec<AgentEndpoint>, CliError> {
        if let Some(at) = self.base() {
            let agent = client.card_at(&at).await?.agent_id;
            return Ok(vec![AgentEndpoint::given(agent, at)]);
        }
        Ok(client.agents(None).await?.iter().map(|entry| AgentEndpoint::registered(&entry.card)).collect())
    }
}

/// The agent to ask: the one of `--at` or the one named, or the mesh's entrance.
pub(super) async fn recipient(
    client: &MeshClient,
    at: &AtArgs,
    to: Option<&str>,
) -> Result<AgentEndpoint, CliError> {
    if let Some(at) = at.base() {
        let agent = match to {
            Some(name) => {
                AgentId::parse(name).map_err(|error| CliError::new(Exit::Usage, error.to_string()))?
            }
            None => client.card_at(&at).await?.agent_id,
        };
        return Ok(AgentEndpoint::given(agent, at));
    }
    if let Some(name) = to {
        return Ok(AgentEndpoint::registered(client.card_of(name).await?.as_ref()));
    }
    let agents = client.agents(None).await?;
    match entrance(&agents) {
        Some(entry) => Ok(AgentEndpoint::registered(&entry.card)),
        None => Err(CliError::new(
            Exit::Refused,
            format!("no agent is registered at {}", redact_url(&client.url)),
        )),
    }
}

/// Says which registered agents are not among the live ones that a verb queries; `None` if there are none.
pub(super) async fn not_asked(client: &MeshClient) -> Option<String> {
    // The answers of the live agents count without it.
    let gone = client.gone_agents().await.ok()?;
    let named =
        gone.iter().take(MAX_NAMED).map(|entry| format!("{} ({})", entry.id(), entry.state.for_people()));
    let named = named.collect::<Vec<_>>().join(", ");
    (!gone.is_empty()).then(|| format!("not asked: {named}{}", and_more(gone.len())))
}

/// How many of `count` agents are beyond those that are named.
fn and_more(count: usize) -> String {
    let more = count.saturating_sub(MAX_NAMED);
    if more > 0 { format!(" and {more} more") } else { String::new() }
}

/// Sends `GET path` to each of `endpoints`.
pub(super) async fn get_each<'a>(
    client: &MeshClient,
    endpoints: &'a [AgentEndpoint],
    path: &str,
) -> Vec<(&'a AgentEndpoint, Result<Value, CliError>)> {
    let requests = endpoints.iter().map(|endpoint| client.get::<Value>(&endpoint.endpoint, path));
    endpoints.iter().zip(join_all(requests).await).collect()
}

/// The successful answers to `GET path`. Notes each failed agent; fails if every agent failed.
pub(super) async fn get_all<'a>(
    client: &MeshClient,
    endpoints: &'a [AgentEndpoint],
    path: &str,
) -> Result<Vec<(&'a AgentId, Value)>, CliError> {
    let (mut answers, mut failed, mut unreachable) = (Vec::new(), Vec::new(), Vec::new());
    for (endpoint, answer) in get_each(client, endpoints, path).await {
        match answer {
            Ok(answer) => answers.push((&endpoint.agent, answer)),
            Err(failure) if endpoint.is_given => return Err(failure),
            Err(failure) if endpoint.is_unreachable_address(&failure) => unreachable.push(endpoint),
            Err(failure) => failed.push((format!("{} is left out", endpoint.agent), failure)),
        }
    }
    if !unreachable.is_empty() {
        failed.push(("left out".to_owned(), unreachable_error(&unreachable)));
    }
    if answers.is_empty() && !failed.is_empty() {
        return Err(failed.swap_remove(0).1);
    }
    for (who, failure) in failed {
        output::note(&format!("mesh: {who}: {}", failure.message));
    }
    Ok(answers)
}

impl AgentEndpoint {
    pub(super) fn given(agent: AgentId, endpoint: String) -> Self {
        Self { agent, endpoint, is_given: true }
    }

    pub(super) fn registered(card: &Card) -> Self {
        Self { agent: card.agent_id.clone(), endpoint: card.endpoint.clone(), is_given: false }
    }

    /// `failure` of a request to this agent; names `--at` as the remedy if the registered address does not answer.
    pub(super) fn explain(&self, failure: CliError) -> CliError {
        match self.is_unreachable_address(&failure) {
            true => unreachable_error(&[self]),
            false => failure,
        }
    }

    /// Whether the registered address does not answer from here.
    pub(super) fn is_unreachable_address(&self, failure: &CliError) -> bool {
        failure.exit == Exit::Unreachable && !self.is_given
    }
}

/// The error for agents whose registered addresses do not answer.
pub(super) fn unreachable_error(endpoints: &[&AgentEndpoint]) -> CliError {
    let first: Vec<_> = endpoints
        .iter()
        .take(MAX_NAMED)
        .map(|endpoint| format!("{} ({})", endpoint.agent, endpoint.endpoint))
        .collect();
    let more = and_more(endpoints.len());
    let message = format!(
        "no answer from {}{more} at the registered address; what can only be reached elsewhere from here, as a container's \
         published port, is named with --at URL or MESH_AT",
        first.join(", ")
    );
    CliError::new(Exit::Unreachable, message)
}
