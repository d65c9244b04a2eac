//! `mesh join`: runs an agent for a foreign A2A agent, given the URL of its card.

use super::{
    client::base_url,
    data_dir_args::ProcessRole,
    exit::{CliError, Exit},
    processes::{ProcessArgs, serve},
};
use crate::{
    brain::a2a::{A2aBrainConfig, slug, truncate},
    brain::llm::cassette::CassetteMode,
    config::{AgentDefinition, BrainConfig, ConfigErrors, ConfigFault, MeshConfig, Team, TimingPreset},
    outbox::{
        a2a::{
            card_fetch::{FetchedCard, fetch},
            credentials::{SchemeCredentials, SecretString},
        },
        outbound_client::OutboundClient,
    },
    services::ServiceLocation,
};
use clap::Args;
use engine::settings::{AgentSettings, BidSettings};
use protocol::{
    a2a::remote_task::RemoteTaskLimits,
    address_policy::{AddressPolicy, AllowedTarget},
    bid::{Cost, Eta},
    ids::AgentId,
};
use std::{path::Path, process::ExitCode};
use transport::http_client::redact_url;

#[derive(Debug, Args)]
pub(super) struct JoinArgs {
    /// The URL of the agent or of its card: tried are the URL, `/.well-known/agent-card.json` below it, and that of its host.
    card: String,
    /// The agent's id in the mesh; derived from its name if not given.
    #[arg(long = "as", value_name = "AGENT")]
    id: Option<AgentId>,
    /// What a task costs, in the mesh's own unit.
    #[arg(long, default_value_t = 0.0)]
    cost: f64,
    /// How long a task takes, for bids.
    #[arg(long, value_parser = Eta::parse, default_value = "1m")]
    eta: Eta,
    /// Tasks at once.
    #[arg(long, default_value_t = 4)]
    max_parallel: u32,
    /// A credential: the card's name for the scheme, and the environment variable that holds the secret.
    #[arg(long, value_name = "SCHEME=VARIABLE")]
    credential: Vec<String>,
    /// Addresses that may be called though they are not public, and without TLS.
    #[arg(long, value_name = "NET", env = "MESH_OUTSIDE_ALLOW", value_delimiter = ',')]
    allow: Vec<AllowedTarget>,
    /// The registry's base URL; if not given, that of `--url`.
    #[arg(long, env = "MESH_REGISTRY", hide_env_values = true, value_parser = base_url)]
    registry: Option<String>,
    /// The blackboard's base URL; if not given, the registry names it.
    #[arg(long, env = "MESH_BOARD", hide_env_values = true, value_parser = base_url)]
    board: Option<String>,
    /// The port, or the next free one. 0 takes any free port.
    #[arg(long, default_value_t = 8001)]
    port: u16,
    #[command(flatten)]
    process: ProcessArgs,
}

/// `url` is that of `--url`.
pub(super) fn join(join: JoinArgs, url: &str) -> ExitCode {
    match foreign_agent(&join) {
        Ok((id, description, card)) => {
            let join = JoinArgs { card, ..join };
            let registry = join.registry.clone().unwrap_or_else(|| url.to_owned());
            let registry = ServiceLocation::Remote(registry);
            let board = join.board.clone().map_or(ServiceLocation::FromRegistry, ServiceLocation::Remote);
            let (role, port) = (ProcessRole::Separate(format!("join-{id}")), join.port);
            let team = |preset: TimingPreset| {
                let team = team(&join, id.clone(), description, preset)?;
                Ok((team, CassetteMode::Off))
            };
            serve(join.process.clone(), role, port, Some(registry), board, team)
        }
        Err(failure) => failure.report(),
    }
}

/// The agent's id and description, from the command line and the foreign card, and the URL where that was found.
fn foreign_agent(join: &JoinArgs) -> Result<(AgentId, String, String), CliError> {
    let refused = |what: String| CliError::new(Exit::Refused, what);
    let outside = OutboundClient::new(AddressPolicy { allow: join.allow.clone() }, Default::default())
        .map_err(|error| refused(error.to_string()))?;
    let found: Result<FetchedCard, String> = actix::System::new().block_on(fetch(&outside, &join.card));
    let found = found.map_err(|why| {
        let hint = if why.contains("lets it be called") { "; here, --allow NET does" } else { "" };
        refused(format!("the card at {} can't be had: {why}{hint}", redact_url(&join.card)))
    })?;
    let validated = found.validate(&outside).map_err(|faults| {
        refused(format!("{} can't be used: {}", redact_url(&found.url), faults.join("; ")))
    })?;
    super::output::note(&format!("mesh: {}: {}", validated.card.name, found.signature));
    let id = match &join.id {
        Some(id) => id.clone(),
        None => AgentId::parse(&slug(&validated.card.name))
            .map_err(|_| refused(format!("{:?} makes no id; say --as AGENT", validated.card.name)))?,
    };
    if id.is_reserved() {
        return Err(refused(format!("{id} is a service's name and no agent's; say --as AGENT")));
    }
    Ok((id, truncate(&validated.card.description), found.url))
}

fn team(
    join: &JoinArgs,
    id: AgentId,
    description: String,
    preset: TimingPreset,
) -> Result<Team, ConfigErrors> {
    let fault = |what: String| ConfigErrors(vec![ConfigFault::of_file(Path::new("mesh join"), what)]);
    let mut credentials = SchemeCredentials::default();
    for credential in &join.credential {
        let (scheme, variable) =
            credential.split_once('=').ok_or_else(|| fault("--credential is SCHEME=VARIABLE".to_owned()))?;
        let secret =
            std::env::var(variable).map_err(|_| fault(format!("--credential: {variable} is not set")))?;
        credentials.0.insert(scheme.to_owned(), SecretString::new(secret));
    }
    let cost = Cost::new(join.cost).ok_or_else(|| fault(format!("--cost: {} is no cost", join.cost)))?;
    let bid = BidSettings {
        cost: Some(cost),
        eta: Some(join.eta),
        max_parallel: Some(join.max_parallel.max(1)),
        ..BidSettings::default()
    };
    let bounds = RemoteTaskLimits::default();
    let agent = AgentDefinition {
        id,
        settings: AgentSettings { description, bid, ..AgentSettings::default() },
        brain: BrainConfig::Foreign(A2aBrainConfig {
            card: join.card.clone(),
            mode: None,
            credentials,
            bounds,
        }),
        accept: Default::default(),
        workspaces: Default::default(),
        schedules: Default::default(),
        triggers: Default::default(),
        port: None,
    };
    let mesh = MeshConfig { outside: AddressPolicy { allow: join.allow.clone() }, ..MeshConfig::of(preset) };
    Ok(Team { agents: vec![agent], mesh, parameters: Default::default() })
}
