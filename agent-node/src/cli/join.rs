//! `mesh join`: a foreign A2A agent becomes a peer, by the URL of its card.

use super::{
    client::base_url,
    exit::{Exit, Failure},
    serve::{Part, Process, serve},
};
use crate::{
    brain::a2a::A2aBrainConfig,
    brain::a2a::{slug, truncate},
    config::{AgentConfig, BadConfig, BrainConfig, Fault, MeshConfig, Profile, Team},
    node::Service,
    outbox::{
        a2a::{
            card_fetch::{FetchedCard, fetch},
            credentials::{SchemeCredentials, SecretString},
        },
        outbound_client::OutboundClient,
    },
};
use blackboard::wire::shown;
use clap::Args;
use protocol::{
    a2a::remote_task::RemoteTaskLimits,
    address_policy::{AddressPolicy, IpNetwork},
    bid::{Cost, Eta},
    card::BidTerms,
    ids::AgentId,
};
use std::{path::Path, process::ExitCode};

#[derive(Debug, Args)]
pub(super) struct Join {
    /// The URL of its card; of a host, its well-known place is meant.
    card: String,
    /// Its id in the mesh; made of its name if not given.
    #[arg(long = "as", value_name = "AGENT")]
    id: Option<AgentId>,
    /// What a task costs, in the mesh's own unit.
    #[arg(long, default_value_t = 0.0)]
    cost: f64,
    /// How long a task takes, for its bids.
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
    allow: Vec<IpNetwork>,
    /// The registry's base URL.
    #[arg(long, env = "MESH_REGISTRY", hide_env_values = true, value_parser = base_url, default_value = "http://127.0.0.1:8000")]
    registry: String,
    /// The blackboard's base URL; if not given, the registry says where it is.
    #[arg(long, env = "MESH_BOARD", hide_env_values = true, value_parser = base_url)]
    board: Option<String>,
    /// 0 takes any free port, instead of one from 8001 on.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    #[command(flatten)]
    process: Process,
}

pub(super) fn join(join: Join) -> ExitCode {
    match named(&join) {
        Ok((id, description)) => {
            let registry = Service::At(join.registry.clone());
            let board = join.board.clone().map_or(Service::Told, Service::At);
            let (part, port) = (Part::Of(format!("join-{id}")), join.port);
            let team = |profile: Profile| team(&join, id.clone(), description, profile);
            serve(join.process.clone(), part, port, Some(registry), board, team)
        }
        Err(failure) => failure.report(),
    }
}

/// Its id, and what it says of itself.
fn named(join: &Join) -> Result<(AgentId, String), Failure> {
    let refused = |what: String| Failure::new(Exit::Refused, what);
    let outside = OutboundClient::new(AddressPolicy { allow: join.allow.clone() }, Default::default())
        .map_err(|error| refused(error.to_string()))?;
    let found: Result<FetchedCard, String> = actix::System::new().block_on(fetch(&outside, &join.card));
    let found = found.map_err(|why| {
        let hint = if why.contains("lets it be called") { "; here, --allow NET does" } else { "" };
        refused(format!("the card at {} can't be had: {why}{hint}", shown(&join.card)))
    })?;
    let vetted = found
        .validate(&outside)
        .map_err(|against| refused(format!("{} can't be used: {}", shown(&found.url), against.join("; "))))?;
    super::output::note(&format!("mesh: {}: {}", vetted.card.name, found.signature));
    let id = match &join.id {
        Some(id) => id.clone(),
        None => AgentId::parse(&slug(&vetted.card.name))
            .map_err(|_| refused(format!("{:?} makes no id; say --as AGENT", vetted.card.name)))?,
    };
    if id.is_reserved() {
        return Err(refused(format!("{id} is a service's name and no agent's; say --as AGENT")));
    }
    Ok((id, truncate(&vetted.card.description)))
}

fn team(join: &Join, id: AgentId, description: String, profile: Profile) -> Result<Team, BadConfig> {
    let fault = |what: String| BadConfig(vec![Fault::of_file(Path::new("mesh join"), what)]);
    let mut credentials = SchemeCredentials::default();
    for credential in &join.credential {
        let (scheme, variable) =
            credential.split_once('=').ok_or_else(|| fault("--credential is SCHEME=VARIABLE".to_owned()))?;
        let secret =
            std::env::var(variable).map_err(|_| fault(format!("--credential: {variable} is not set")))?;
        credentials.0.insert(scheme.to_owned(), SecretString::new(secret));
    }
    let cost = Cost::new(join.cost).ok_or_else(|| fault(format!("--cost: {} is no cost", join.cost)))?;
    let bounds = RemoteTaskLimits::default();
    let agent = AgentConfig {
        id,
        description,
        skills: Vec::new(),
        brain: BrainConfig::Foreign(A2aBrainConfig {
            card: join.card.clone(),
            mode: None,
            credentials,
            bounds,
        }),
        terms: BidTerms { cost, eta: join.eta, max_parallel: join.max_parallel.max(1) },
        subscribe: Vec::new(),
        open: false,
        role: None,
        a2a: Default::default(),
        port: None,
    };
    let mesh = MeshConfig { outside: AddressPolicy { allow: join.allow.clone() }, ..MeshConfig::of(profile) };
    Ok(Team { agents: vec![agent], mesh })
}
