//! The verbs that run a process: `up`, `node`, `registry`, `blackboard`.

use super::{
    client::base_url,
    exit::{Exit, Failure},
    misunderstood,
    reaching::{Reaching, port},
};
use crate::telemetry::{TelemetrySettingsError, capture::CaptureLevel};
use crate::{
    config::{BadConfig, Profile, Team},
    node::{
        Service,
        plan::{Plan, run},
        services::NotStarted,
    },
};
use anyhow::Context as _;
use blackboard::store::embedded::OpenError;
use clap::{Args, Parser};
use protocol::{bid::Eta, ids::AgentId};
use std::{path::PathBuf, process::ExitCode};

/// Where a mesh's data lies.
#[derive(Debug, Clone, Args)]
pub(super) struct Place {
    /// The name of the mesh: its data lies in ~/.mesh/<name>, each separate process's in a directory of its own there.
    #[arg(long, default_value = "default")]
    name: String,
    /// Where the data lies, instead.
    #[arg(long, env = "MESH_DATA")]
    data: Option<PathBuf>,
}

/// What every process is told.
#[derive(Debug, Clone, Args)]
pub(super) struct Process {
    #[command(flatten)]
    reaching: Reaching,
    #[command(flatten)]
    place: Place,
    /// The file of the join secret, made at first; if not given, `join` in ~/.mesh/<name>, or in --data's directory.
    #[arg(long, env = "MESH_JOIN")]
    join: Option<PathBuf>,
    /// Where records lie: `embedded` survives everything, `memory` is gone at the end.
    #[arg(long, env = "MESH_STORE", value_parser = ["embedded", "memory"], default_value = "embedded")]
    store: String,
    /// How much content goes into traces: none, its shape, or all of it without this process's secrets.
    #[arg(long, value_enum, env = "MESH_CAPTURE", default_value_t)]
    capture: CaptureLevel,
    /// Where times start from.
    #[arg(long, env = "MESH_PROFILE", value_enum, default_value = "default")]
    profile: Profile,
    /// How long it finishes what it does when it is told to end; the rest is handed back, or goes on at the next start.
    #[arg(long, env = "MESH_GRACE", value_parser = Eta::parse, default_value = "25s")]
    grace: Eta,
    /// When it is killed if it has not ended by then, as compose's `stop_grace_period`; a `--grace` that leaves no time for goodbyes is warned of.
    #[arg(long, env = "MESH_STOP_GRACE", value_parser = Eta::parse, value_name = "TIME")]
    stop_grace: Option<Eta>,
}

/// What a process with agents is told.
#[derive(Debug, Clone, Args)]
pub(super) struct Agents {
    /// Where its agents take A2A over gRPC; 0 takes any free port, nowhere if not given here or in the file
    #[arg(long, env = "MESH_GRPC_PORT", value_parser = port)]
    grpc_port: Option<u16>,
}

/// `mesh up`.
#[derive(Debug, Args)]
pub(super) struct Up {
    #[command(flatten)]
    process: Process,
    #[command(flatten)]
    agents: Agents,
    /// The port of the registry and the blackboard; agents follow from 8001. 0 takes any free ports.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Agents and terms, as YAML.
    files: Vec<PathBuf>,
}

impl Agents {
    /// `team` as it is told here, which goes before what its file says.
    fn set(&self, team: Result<Team, BadConfig>) -> Result<Team, BadConfig> {
        let mut team = team?;
        team.mesh.grpc_port = self.grpc_port.or(team.mesh.grpc_port);
        Ok(team)
    }
}

impl Up {
    /// What `mesh` without a verb does.
    pub(super) fn usual() -> Result<Self, ExitCode> {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            up: Up,
        }
        misunderstood::parse_from(vec!["mesh".into()]).map(|Line { up }| up)
    }
}

/// `mesh node`.
#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[command(flatten)]
    process: Process,
    #[command(flatten)]
    agents: Agents,
    /// The registry's base URL.
    #[arg(long, env = "MESH_REGISTRY", hide_env_values = true, value_parser = base_url, default_value = "http://127.0.0.1:8000")]
    registry: String,
    /// The blackboard's base URL; if not given, the registry says where it is.
    #[arg(long, env = "MESH_BOARD", hide_env_values = true, value_parser = base_url)]
    board: Option<String>,
    /// Be one of several of the file's one agent: with the first free `<data>/<agent>-<n>`, which is its id.
    #[arg(long)]
    replica: bool,
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
    #[arg(long, env = "MESH_BOARD", hide_env_values = true, value_parser = base_url, default_value = "http://127.0.0.1:7999")]
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
    let at = Part::Whole;
    let agents = up.agents;
    serve(up.process, at, up.port, Some(Service::Here), Service::Here, |profile| {
        agents.set(match files.is_empty() {
            true => Team::demo(profile),
            false => Team::load(&files, profile),
        })
    })
}

pub(super) fn node(node: NodeArgs) -> ExitCode {
    let registry = Service::At(node.registry);
    let board = node.board.map_or(Service::Told, Service::At);
    let stem = node.files.first().and_then(|file| file.file_stem()).unwrap_or_default();
    let name = format!("node-{}", stem.to_string_lossy());
    let part = if node.replica { Part::OneOf(name) } else { Part::Of(name) };
    serve(node.process, part, node.port, Some(registry), board, |profile| {
        node.agents.set(Team::load(&node.files, profile))
    })
}

pub(super) fn registry(args: RegistryArgs) -> ExitCode {
    let board = Service::At(args.board);
    let part = Part::Of("registry".to_owned());
    serve(args.process, part, args.port, Some(Service::Here), board, |profile| terms(&args.files, profile))
}

pub(super) fn blackboard(args: BlackboardArgs) -> ExitCode {
    let part = Part::Of("blackboard".to_owned());
    serve(args.process, part, args.port, None, Service::Here, |profile| terms(&args.files, profile))
}

/// The terms in `files`, without their agents.
fn terms(files: &[PathBuf], profile: Profile) -> Result<Team, BadConfig> {
    let team = Team::load(files, profile)?;
    Ok(Team { agents: Vec::new(), ..team })
}

pub(super) fn serve(
    process: Process,
    part: Part,
    port: u16,
    registry: Option<Service>,
    board: Service,
    team: impl FnOnce(Profile) -> Result<Team, BadConfig>,
) -> ExitCode {
    let ended = (|| {
        let team = team(process.profile)?;
        let is_replica = matches!(part, Part::OneOf(_));
        let (data, common) = process.place.dirs(part)?;
        let plan = Plan {
            listen: process.reaching.listen,
            reach: process.reaching.reach(),
            port,
            data,
            is_replica,
            grace: process.grace.duration(),
            killed_after: process.stop_grace.map(|time| time.duration()),
            join: process.join.unwrap_or_else(|| common.join("join")),
            forgets: process.store == "memory",
            team,
            capture: process.capture,
            registry,
            board,
        };
        actix::System::new().block_on(async {
            let ended = run(plan).await;
            // An actor that was started and never ran would start when it is dropped, where nothing runs any more.
            tokio::task::yield_now().await;
            ended
        })
    })();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => Failure::new(exit(&error), format!("{error:#}")).report(),
    }
}

fn exit(error: &anyhow::Error) -> Exit {
    if error.is::<BadConfig>() || error.is::<TelemetrySettingsError>() {
        return Exit::Config;
    }
    if let Some(not) = error.downcast_ref::<NotStarted>() {
        return match not {
            NotStarted::Port { .. } => Exit::Port,
            NotStarted::NoRegistry { .. } => Exit::Config,
            NotStarted::NoKey { .. } => Exit::Store,
            NotStarted::Beyond { .. } | NotStarted::NoSecret { .. } | NotStarted::ForeignSecret { .. } => {
                Exit::Secret
            }
        };
    }
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::Held { .. }) => Exit::Held,
        Some(OpenError::OtherFormat { .. }) => Exit::OtherFormat,
        Some(OpenError::Damaged { .. } | OpenError::Foreign { .. } | OpenError::Io { .. }) => Exit::Store,
        None => Exit::Failed,
    }
}

/// Which part of a mesh a process is.
pub(super) enum Part {
    /// All of it: its data lies directly in the mesh's directory.
    Whole,
    /// One that has a directory of that name there.
    Of(String),
    /// One of several that share such a directory.
    OneOf(String),
}

impl Place {
    /// Where a process keeps its data, and where what it shares with the mesh's other processes lies.
    fn dirs(&self, part: Part) -> anyhow::Result<(PathBuf, PathBuf)> {
        let dir = self.dir()?;
        Ok(match part {
            Part::Of(name) | Part::OneOf(name) if self.data.is_none() => (dir.join(name), dir),
            Part::Of(_) | Part::OneOf(_) | Part::Whole => (dir.clone(), dir),
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn parsed<T: Args + FromArgMatches>(words: &[&str]) -> T {
        #[derive(Parser)]
        struct Line<T: Args> {
            #[command(flatten)]
            verb: T,
        }
        let words = std::iter::once("mesh").chain(words.iter().copied());
        Line::<T>::try_parse_from(words).unwrap().verb
    }

    #[test]
    fn separate_processes_that_are_told_nothing_find_each_other() {
        let registry: RegistryArgs = parsed(&[]);
        let board: BlackboardArgs = parsed(&[]);
        let node: NodeArgs = parsed(&["team.yaml"]);
        assert_eq!(registry.board, format!("http://127.0.0.1:{}", board.port));
        assert_eq!(node.registry, format!("http://127.0.0.1:{}", registry.port));
        assert_eq!(node.board, None, "the registry says where it is");
        let dirs = |process: &Process, part: &str| process.place.dirs(Part::Of(part.to_owned())).unwrap();
        let (one, other) = (dirs(&registry.process, "registry"), dirs(&board.process, "blackboard"));
        assert_ne!(one.0, other.0);
        assert_eq!(one.1, other.1, "they share what lies there: the secret");
    }
}
