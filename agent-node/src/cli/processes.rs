//! The verbs that run a process: `up`, `node`, `registry`, `blackboard`.

use super::{
    client::base_url,
    data_dir_args::{DataDirArgs, ProcessRole},
    exit::{CliError, Exit},
    listen_args::{ListenArgs, port},
    parsing,
    shell_quote::shell_quoted,
};
use crate::telemetry::{TelemetrySettingsError, capture::CaptureLevel, print_line};
use crate::{
    brain::llm::cassette::{CassetteError, CassetteMode},
    config::{ConfigErrors, ConfigFault, DemoOfModels, ParameterValue, ProviderKeys, Team, TimingPreset},
    data_dir,
    demo::models,
    node::{
        process::{NextSteps, ProcessConfig, run},
        team_watch::TeamSource,
    },
    services::ServiceLocation,
    start_error::StartError,
};
use clap::{Args, Parser, ValueEnum};
use engine::settings::Openness;
use protocol::bid::Eta;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};
use store::{self, embedded::OpenError};
use tracing::Level;

/// What every process is told.
#[derive(Debug, Clone, Args)]
pub(super) struct ProcessArgs {
    #[command(flatten)]
    listening: ListenArgs,
    #[command(flatten)]
    place: DataDirArgs,
    /// The file of the join secret, made at first; if not given, `join` in ~/.mesh/<name>, or in --data's directory.
    #[arg(long, env = "MESH_JOIN")]
    join: Option<PathBuf>,
    /// The store: `embedded` keeps data on disk, `memory` loses it at the end.
    #[arg(long, env = "MESH_STORE", value_parser = ["embedded", "memory"], default_value = "embedded")]
    store: String,
    /// How much content traces contain: none, its shape, or all of it without this process's secrets.
    #[arg(long, value_enum, env = "MESH_CAPTURE", default_value_t)]
    capture: CaptureLevel,
    /// The timing preset: `default`, or `fast` for tests: quick heartbeats and retries, long leases.
    #[arg(long, env = "MESH_PROFILE", value_enum, default_value = "default")]
    profile: TimingPreset,
    /// How long running work may take after a stop signal; the rest is handed back, or resumes at the next start.
    #[arg(long, env = "MESH_GRACE", value_parser = Eta::parse, default_value = "25s")]
    grace: Eta,
    /// When the process is killed after a stop signal, as compose's `stop_grace_period`; warns if `--grace` leaves no time to shut down.
    #[arg(long, env = "MESH_STOP_GRACE", value_parser = Eta::parse, value_name = "TIME")]
    stop_grace: Option<Eta>,
}

/// What a process with agents is told.
#[derive(Debug, Clone, Args)]
pub(super) struct AgentArgs {
    /// The port for A2A over gRPC; 0 takes any free port, none if given neither here nor in the file
    #[arg(long, env = "MESH_GRPC_PORT", value_parser = port)]
    grpc_port: Option<u16>,
    /// A cassette to which each call of a model is appended.
    #[arg(long, value_name = "FILE", env = "MESH_RECORD", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// A cassette that answers instead of models; no key of a provider is needed.
    #[arg(long, value_name = "FILE", env = "MESH_REPLAY")]
    replay: Option<PathBuf>,
}

/// Values of the parameters of team files.
#[derive(Debug, Clone, Args)]
pub(super) struct ParameterArgs {
    /// The value of a parameter that the files declare; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", requires = "files")]
    pub(super) set: Vec<ParameterValue>,
}

/// `mesh up`.
#[derive(Debug, Args)]
pub(super) struct UpArgs {
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    agents: AgentArgs,
    /// The port of the registry and the blackboard; agents get the next free ones after it. 0 takes any free ports.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// What the demo team thinks with, if no file is given.
    #[arg(long, value_enum, default_value_t, value_name = "BRAINS", conflicts_with = "files")]
    demo: DemoBrains,
    /// The model of `--demo models`, such as anthropic/claude-sonnet-4-5; if not given, one of the provider whose key is set, else answers that people wrote are replayed.
    #[arg(long, value_name = "MODEL", env = "MESH_MODEL")]
    model: Option<String>,
    /// The base URL of that model's server; the provider's own if not given.
    #[arg(long, value_name = "URL", env = "MESH_MODEL_URL", hide_env_values = true)]
    model_url: Option<String>,
    /// Restart agents whose files change: the configuration, or the program of a brain.
    #[arg(long, requires = "files")]
    watch: bool,
    #[command(flatten)]
    set: ParameterArgs,
    /// Agents and terms, as YAML.
    files: Vec<PathBuf>,
}

/// What the demo team thinks with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum DemoBrains {
    /// Programs, which need no model.
    #[default]
    Scripted,
    /// A language model.
    Models,
}

impl AgentArgs {
    /// `team` with the flags applied, which take precedence over the file.
    fn apply_to(&self, mut team: Team) -> (Team, CassetteMode) {
        team.mesh.grpc_port = self.grpc_port.or(team.mesh.grpc_port);
        let cassette = match (&self.record, &self.replay) {
            (_, Some(path)) => CassetteMode::Replay(path.clone()),
            (Some(path), None) => CassetteMode::Record(path.clone()),
            (None, None) => CassetteMode::Off,
        };
        (team, cassette)
    }

    fn keys(&self) -> ProviderKeys {
        if self.replay.is_some() { ProviderKeys::Unused } else { ProviderKeys::Required }
    }
}

impl UpArgs {
    fn demo_of_models(&self, preset: TimingPreset) -> Result<(Team, CassetteMode), ConfigErrors> {
        let (model, url) = (self.model.as_deref(), self.model_url.as_deref());
        let demo = DemoOfModels::new(model, url, preset, self.agents.keys())?;
        let (team, cassette) = self.agents.apply_to(demo.team);
        match (&cassette, &demo.model) {
            (CassetteMode::Record(path), None) => {
                let what = "there is no model to record: MESH_MODEL or the key of a provider names one";
                return Err(ConfigErrors(vec![ConfigFault::of_file(path, what.to_owned())]));
            }
            (CassetteMode::Replay(_), _) => return Ok((team, cassette)),
            (CassetteMode::Off | CassetteMode::Record(_) | CassetteMode::Included { .. }, _) => {}
        }
        print_line(Level::INFO, &format!("mesh: {}", models::notice(demo.model.as_deref())));
        let cassette = if cassette == CassetteMode::Off { demo.cassette } else { cassette };
        Ok((team, cassette))
    }

    /// The arguments of `mesh` without a verb: defaults and environment variables.
    pub(super) fn from_environment() -> Result<Self, ExitCode> {
        #[derive(Parser)]
        struct UpCommand {
            #[command(flatten)]
            up: UpArgs,
        }
        parsing::parse_from(vec!["mesh".into()]).map(|UpCommand { up }| up)
    }
}

/// `mesh node`.
#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    agents: AgentArgs,
    /// The registry's base URL; if not given, that of `--url`.
    #[arg(long, env = "MESH_REGISTRY", hide_env_values = true, value_parser = base_url)]
    registry: Option<String>,
    /// The blackboard's base URL; if not given, the registry names it.
    #[arg(long, env = "MESH_BOARD", hide_env_values = true, value_parser = base_url)]
    board: Option<String>,
    /// Be one of several of the file's one agent: with the first free `<data>/<agent>-<n>`, which is its id.
    #[arg(long)]
    replica: bool,
    /// Agents without a port get the next free ones from this on. 0 takes any free ports.
    #[arg(long, default_value_t = 8001)]
    port: u16,
    #[command(flatten)]
    set: ParameterArgs,
    /// Agents and terms, as YAML.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// `mesh registry`.
#[derive(Debug, Args)]
pub(super) struct RegistryArgs {
    #[command(flatten)]
    process: ProcessArgs,
    /// The blackboard's base URL.
    #[arg(long, env = "MESH_BOARD", hide_env_values = true, value_parser = base_url, default_value = "http://127.0.0.1:7999")]
    board: String,
    /// The port to listen on.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    #[command(flatten)]
    set: ParameterArgs,
    /// Terms, as YAML.
    files: Vec<PathBuf>,
}

/// `mesh blackboard`.
#[derive(Debug, Args)]
pub(super) struct BlackboardArgs {
    #[command(flatten)]
    process: ProcessArgs,
    /// The port to listen on.
    #[arg(long, default_value_t = 7999)]
    port: u16,
    #[command(flatten)]
    set: ParameterArgs,
    /// Terms, as YAML.
    files: Vec<PathBuf>,
}

pub(super) fn up(up: UpArgs) -> ExitCode {
    let process = up.process.clone();
    let (role, local) = (ProcessRole::Whole, ServiceLocation::Local);
    let source = up.watch.then(|| {
        let (files, agents, set) = (up.files.clone(), up.agents.clone(), up.set.set.clone());
        let preset = process.profile;
        let load = move || {
            let team = Team::load_with(&files, preset, agents.keys(), &set)?;
            Ok(agents.apply_to(team).0)
        };
        TeamSource(Arc::new(load))
    });
    let services = (Some(local.clone()), local);
    let is_demo = up.files.is_empty();
    serve_watching(process, role, up.port, services, (source, is_demo), |preset| match up.demo {
        DemoBrains::Models => up.demo_of_models(preset),
        DemoBrains::Scripted if up.files.is_empty() => Ok(up.agents.apply_to(Team::demo(preset)?)),
        DemoBrains::Scripted => {
            Ok(up.agents.apply_to(Team::load_with(&up.files, preset, up.agents.keys(), &up.set.set)?))
        }
    })
}

/// `url` is that of `--url`.
pub(super) fn node(node: NodeArgs, url: &str) -> ExitCode {
    let registry = ServiceLocation::Remote(node.registry.unwrap_or_else(|| url.to_owned()));
    let board = node.board.map_or(ServiceLocation::FromRegistry, ServiceLocation::Remote);
    let stem = node.files.first().and_then(|file| file.file_stem()).unwrap_or_default();
    let name = format!("node-{}", stem.to_string_lossy());
    let role = if node.replica { ProcessRole::Replica(name) } else { ProcessRole::Separate(name) };
    serve(node.process, role, node.port, Some(registry), board, |preset| {
        Ok(node.agents.apply_to(Team::load_with(&node.files, preset, node.agents.keys(), &node.set.set)?))
    })
}

pub(super) fn registry(args: RegistryArgs) -> ExitCode {
    let board = ServiceLocation::Remote(args.board);
    let role = ProcessRole::Separate("registry".to_owned());
    serve(args.process, role, args.port, Some(ServiceLocation::Local), board, |preset| {
        mesh_settings(&args.files, &args.set, preset)
    })
}

pub(super) fn blackboard(args: BlackboardArgs) -> ExitCode {
    let role = ProcessRole::Separate("blackboard".to_owned());
    serve(args.process, role, args.port, None, ServiceLocation::Local, |preset| {
        mesh_settings(&args.files, &args.set, preset)
    })
}

/// The team of `files` without its agents.
fn mesh_settings(
    files: &[PathBuf],
    set: &ParameterArgs,
    preset: TimingPreset,
) -> Result<(Team, CassetteMode), ConfigErrors> {
    let team = Team::load_with(files, preset, ProviderKeys::Required, &set.set)?;
    Ok((Team { agents: Vec::new(), ..team }, CassetteMode::Off))
}

pub(super) fn serve(
    process: ProcessArgs,
    role: ProcessRole,
    port: u16,
    registry: Option<ServiceLocation>,
    board: ServiceLocation,
    team: impl FnOnce(TimingPreset) -> Result<(Team, CassetteMode), ConfigErrors>,
) -> ExitCode {
    serve_watching(process, role, port, (registry, board), (None, false), team)
}

/// The same; agents follow changes of their files if there is a `source`. `is_demo` says that the team is that of the demo.
fn serve_watching(
    process: ProcessArgs,
    role: ProcessRole,
    port: u16,
    (registry, board): (Option<ServiceLocation>, ServiceLocation),
    (source, is_demo): (Option<TeamSource>, bool),
    team: impl FnOnce(TimingPreset) -> Result<(Team, CassetteMode), ConfigErrors>,
) -> ExitCode {
    let outcome = (|| {
        let (team, cassette) = team(process.profile)?;
        let is_replica = matches!(role, ProcessRole::Replica(_));
        let is_whole = matches!(role, ProcessRole::Whole);
        let (data, common) = process.place.dirs(role)?;
        let next_steps = is_whole.then(|| NextSteps {
            default_url: super::DEFAULT_URL,
            token: token_flag(&common),
            ask: ask_command(&team, is_demo),
        });
        let config = ProcessConfig {
            listen: process.listening.listen,
            advertise: process.listening.advertise(),
            port,
            data,
            mesh_dir: common.clone(),
            is_replica,
            grace: process.grace.duration(),
            kill_timeout: process.stop_grace.map(|timeout| timeout.duration()),
            token: common.join(data_dir::TOKEN),
            join: process.join.unwrap_or_else(|| common.join("join")),
            is_in_memory: process.store == "memory",
            team,
            capture: process.capture,
            cassette,
            registry,
            board,
            source,
            next_steps,
        };
        actix::System::new().block_on(async {
            let outcome = run(config).await;
            // Without this an actor that has not run yet would start in its drop, outside of the runtime.
            tokio::task::yield_now().await;
            outcome
        })
    })();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let exit = exit_of(&error);
            let remedy = if exit == Exit::Held { HELD } else { "" };
            CliError::new(exit, format!("{error:#}{remedy}")).report()
        }
    }
}

/// The flag that commands need to find the person's token in `dir`; none in ~/.mesh, where they look.
fn token_flag(dir: &Path) -> String {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".mesh"));
    match dir.parent() == home.as_deref() {
        true => String::new(),
        false => format!(" --token {}", shell_quoted(&dir.join(data_dir::TOKEN).display().to_string())),
    }
}

/// A command that gives the team something to do: what its entrance takes without a capability, or else a capability of it.
fn ask_command(team: &Team, is_demo: bool) -> Option<String> {
    let entrance = team.agents.iter().find(|agent| agent.settings.entrance).or(team.agents.first())?;
    let what = if is_demo { DEMO_TASK } else { "What can you do?" };
    let skills = entrance.settings.skills.as_slice();
    match (entrance.settings.open, skills) {
        (Openness::Closed, []) => None,
        (Openness::Closed, [skill, _, ..]) => Some(format!("mesh ask \"{what}\" --capability {}", skill.id)),
        _ => Some(format!("mesh ask \"{what}\"")),
    }
}

/// What the demo team can do.
const DEMO_TASK: &str = "A library: books (title, isbn, year:int) and members (name, email)";

/// What to do if another process has the data directory.
const HELD: &str =
    "; stop it, or let agents join it with `mesh node FILE`; `--name other --port 8100` starts another mesh";

/// Whether a cause is that the store failed, or that the device is full.
fn is_store_failure(cause: &(dyn std::error::Error + 'static)) -> bool {
    let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    cause.is::<store::Error>() || io == Some(std::io::ErrorKind::StorageFull)
}

fn exit_of(error: &anyhow::Error) -> Exit {
    if error.is::<ConfigErrors>() || error.is::<TelemetrySettingsError>() || error.is::<CassetteError>() {
        return Exit::Config;
    }
    if let Some(start_error) = error.downcast_ref::<StartError>() {
        return match start_error {
            StartError::Port { .. } => Exit::Port,
            StartError::NotARegistry { .. } | StartError::BrainRights { .. } => Exit::Config,
            StartError::BadAgentKey { .. }
            | StartError::JoinSecretNotMade { .. }
            | StartError::ServiceStore { .. } => Exit::Store,
            _ => Exit::Secret,
        };
    }
    match error.downcast_ref::<OpenError>() {
        Some(error) => exit_of_open(error),
        None if error.chain().any(is_store_failure) => Exit::Store,
        None => Exit::Failed,
    }
}

/// The exit code for a store that can't be opened.
pub(super) fn exit_of_open(error: &OpenError) -> Exit {
    match error {
        OpenError::Held { .. } => Exit::Held,
        OpenError::OtherFormat { .. } => Exit::OtherFormat,
        OpenError::Damaged { .. }
        | OpenError::LostCommits { .. }
        | OpenError::Foreign { .. }
        | OpenError::Io { .. } => Exit::Store,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn parsed<T: Args + FromArgMatches>(words: &[&str]) -> T {
        #[derive(Parser)]
        struct TestCommand<T: Args> {
            #[command(flatten)]
            verb: T,
        }
        let words = std::iter::once("mesh").chain(words.iter().copied());
        TestCommand::<T>::try_parse_from(words).unwrap().verb
    }

    #[test]
    fn separate_processes_find_each_other_by_their_defaults() {
        let registry: RegistryArgs = parsed(&[]);
        let board: BlackboardArgs = parsed(&[]);
        let node: NodeArgs = parsed(&["team.yaml"]);
        assert_eq!(registry.board, format!("http://127.0.0.1:{}", board.port));
        assert_eq!(node.registry, None, "it is where --url says");
        assert_eq!(crate::cli::DEFAULT_URL, format!("http://127.0.0.1:{}", registry.port));
        assert_eq!(node.board, None, "the registry knows the board");
        let dirs = |process: &ProcessArgs, name: &str| {
            process.place.dirs(ProcessRole::Separate(name.to_owned())).unwrap()
        };
        let (one, other) = (dirs(&registry.process, "registry"), dirs(&board.process, "blackboard"));
        assert_ne!(one.0, other.0);
        assert_eq!(one.1, other.1, "they share the directory of the join secret");
    }

    #[test]
    fn a_start_without_room_or_with_a_failed_store_ends_with_74() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let closed = store::Error::Closed("it failed".to_owned());
        for error in
            [anyhow::Error::from(full), anyhow::Error::from(closed).context("the journal can't be read")]
        {
            assert_eq!(exit_of(&error), Exit::Store, "{error:#}");
        }
        assert_eq!(exit_of(&anyhow::anyhow!("something else")), Exit::Failed);
    }
}
