//! The verbs that run a process: `up`, `node`, `registry`, `blackboard`.

use super::exit::{Exit, Failure};
use crate::{
    config::{BadConfig, Profile, Team},
    node::{
        Service,
        plan::{Plan, run},
    },
};
use anyhow::Context as _;
use blackboard::store::embedded::OpenError;
use clap::Args;
use protocol::ids::AgentId;
use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    process::ExitCode,
};

/// Where a mesh's data lies.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// The name of the mesh: its data lies in ~/.mesh/<name>.
    #[arg(long, default_value = "default")]
    name: String,
    /// Where the data lies, instead.
    #[arg(long, env = "MESH_DATA")]
    data: Option<PathBuf>,
}

/// What every process is told.
#[derive(Debug, Args)]
pub(super) struct Process {
    /// The address to listen on; loopback only.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    #[command(flatten)]
    place: Place,
    /// The file of the join secret; `join` in the data directory if not given, made at first.
    #[arg(long, env = "MESH_JOIN")]
    join: Option<PathBuf>,
    /// Where records lie: `embedded` survives everything, `memory` is gone at the end.
    #[arg(long, value_parser = ["embedded", "memory"], default_value = "embedded")]
    store: String,
    /// Where times start from.
    #[arg(long, value_enum, default_value = "default")]
    profile: Profile,
}

/// `mesh up`.
#[derive(Debug, Args)]
pub(super) struct Up {
    #[command(flatten)]
    process: Process,
    /// The port of the registry and the blackboard; agents follow from 8001. 0 takes any free ports.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Agents and terms, as YAML.
    files: Vec<PathBuf>,
}

impl Default for Up {
    fn default() -> Self {
        let process = Process {
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            place: Place {
                name: "default".to_owned(),
                data: std::env::var_os("MESH_DATA").map(PathBuf::from),
            },
            join: std::env::var_os("MESH_JOIN").map(PathBuf::from),
            store: "embedded".to_owned(),
            profile: Profile::Default,
        };
        Self { process, port: 8000, files: Vec::new() }
    }
}

/// `mesh node`.
#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[command(flatten)]
    process: Process,
    /// The registry's base URL.
    #[arg(long, env = "MESH_REGISTRY", default_value = "http://127.0.0.1:8000")]
    registry: String,
    /// The blackboard's base URL.
    #[arg(long, env = "MESH_BOARD", default_value = "http://127.0.0.1:8000")]
    board: String,
    /// 0 lets agents without a port take any free one, instead of one from 8001 on.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Agents and terms, as YAML.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// `mesh registry`.
#[derive(Debug, Args)]
pub(super) struct RegistryArgs {
    #[command(flatten)]
    process: Process,
    /// The blackboard's base URL.
    #[arg(long, env = "MESH_BOARD", default_value = "http://127.0.0.1:7999")]
    board: String,
    /// The port to listen at.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Terms, as YAML.
    files: Vec<PathBuf>,
}

/// `mesh blackboard`.
#[derive(Debug, Args)]
pub(super) struct BlackboardArgs {
    #[command(flatten)]
    process: Process,
    /// The port to listen at.
    #[arg(long, default_value_t = 7999)]
    port: u16,
    /// Terms, as YAML.
    files: Vec<PathBuf>,
}

pub(super) fn up(up: Up) -> ExitCode {
    let files = up.files;
    serve(up.process, up.port, Some(Service::Here), Service::Here, |profile| match files.is_empty() {
        true => Team::demo(profile),
        false => Team::load(&files, profile),
    })
}

pub(super) fn node(node: NodeArgs) -> ExitCode {
    let (registry, board) = (Service::At(base(node.registry)), Service::At(base(node.board)));
    serve(node.process, node.port, Some(registry), board, |profile| Team::load(&node.files, profile))
}

pub(super) fn registry(args: RegistryArgs) -> ExitCode {
    let board = Service::At(base(args.board));
    serve(args.process, args.port, Some(Service::Here), board, |profile| terms(&args.files, profile))
}

pub(super) fn blackboard(args: BlackboardArgs) -> ExitCode {
    serve(args.process, args.port, None, Service::Here, |profile| terms(&args.files, profile))
}

/// The terms in `files`, without their agents.
fn terms(files: &[PathBuf], profile: Profile) -> Result<Team, BadConfig> {
    let team = Team::load(files, profile)?;
    Ok(Team { agents: Vec::new(), ..team })
}

fn base(url: String) -> String {
    url.trim_end_matches('/').to_owned()
}

fn serve(
    process: Process,
    port: u16,
    registry: Option<Service>,
    board: Service,
    team: impl FnOnce(Profile) -> Result<Team, BadConfig>,
) -> ExitCode {
    let ended = (|| {
        let team = team(process.profile)?;
        let data = process.place.dir()?;
        let plan = Plan {
            listen: process.listen,
            port,
            data,
            join: process.join,
            forgets: process.store == "memory",
            team,
            registry,
            board,
        };
        actix::System::new().block_on(run(plan))
    })();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => Failure::new(exit(&error), format!("{error:#}")).report(),
    }
}

fn exit(error: &anyhow::Error) -> Exit {
    if error.is::<BadConfig>() {
        return Exit::Config;
    }
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::Held { .. }) => Exit::Held,
        Some(OpenError::Newer { .. }) => Exit::Newer,
        Some(OpenError::Damaged { .. } | OpenError::Io { .. }) => Exit::Store,
        None => Exit::Failed,
    }
}

impl Place {
    /// The directory.
    pub(super) fn dir(&self) -> anyhow::Result<PathBuf> {
        if let Some(data) = &self.data {
            return Ok(data.clone());
        }
        let name =
            AgentId::parse(&self.name).with_context(|| format!("--name {:?} names no mesh", self.name))?;
        let home = std::env::var_os("HOME")
            .filter(|home| !home.is_empty())
            .context("HOME is not set; say --data")?;
        Ok(PathBuf::from(home).join(".mesh").join(name.as_str()))
    }
}
