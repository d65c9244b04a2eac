//! Runs a process of the mesh as the command line and the files configure it, until it is stopped.

use super::{
    AgentSpec, NodeSetup, RunningNode,
    advertise::AdvertiseConfig,
    card_retry::PendingCard,
    exit_on_store_failure,
    foreign_agents::ForeignAgents,
    replica,
    shutdown::SHUTDOWN_MARGIN,
    start,
    team_watch::{TeamChange, TeamSource, TeamWatch},
};
use crate::{
    brain::{
        Brain,
        a2a::{A2aBrain, A2aBrainConfig},
        exec::{BrainRights, access::BrainAccessCell},
        http::{HttpBrain, HttpBrainConfig},
        llm::{
            cassette::{Cassette, CassetteMode},
            tool_server::ToolServerTransport,
        },
        peer::{PeerBrain, process::PeerProcess},
        server_log::ServerLog,
    },
    config::{AgentDefinition, BrainConfig, Team},
    data_dir,
    http::edge::IssuedTokens,
    os_user::OsUser,
    outbox::{
        a2a::callbacks::CallbackRegistry,
        outbound_client::{OutboundClient, OutboundLimits},
    },
    private_dir,
    services::ServiceLocation,
    signing_keys::SigningKeys,
    start_error::StartError,
    telemetry::{
        Telemetry, TelemetrySettingsError,
        capture::{Capture, CaptureLevel, of_variable},
        otel_settings::TelemetrySettings,
        print_line,
    },
    tool_login::ToolLogins,
    workspace::{WorkspaceHost, WorkspaceRights},
};
use anyhow::Context as _;
use engine::settings::AgentSettings;
use protocol::{ids::AgentId, signature::Secret};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use serde_json::json;
use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use store::{
    SharedStore,
    embedded::{self, OpenError, StoreGauge},
    memory,
};
use tracing::Level;

/// The configuration of a process.
#[derive(Debug, Clone)]
pub struct ProcessConfig {
    pub listen: IpAddr,
    /// Under which names others reach it.
    pub advertise: AdvertiseConfig,
    /// The port of the registry and the board, if they run here. Agents get the next free ports from it on. 0 takes any
    /// free ports.
    pub port: u16,
    /// The data directory; a replica has a directory of its own in it.
    pub data: PathBuf,
    /// The directory of the mesh: that of `data`, or the one in which all its processes have theirs.
    pub mesh_dir: PathBuf,
    /// Whether it is one of several replicas of an agent, which share `data`.
    pub is_replica: bool,
    /// How long running work may take after a stop signal.
    pub grace: Duration,
    /// When the process is killed after a stop signal, if known.
    pub kill_timeout: Option<Duration>,
    /// The file of the join secret.
    pub join: PathBuf,
    /// The file of the person's token, which the registry makes.
    pub token: PathBuf,
    /// Whether the store is in memory only.
    pub is_in_memory: bool,
    /// The agents and the mesh's settings.
    pub team: Team,
    /// How much content traces contain.
    pub capture: CaptureLevel,
    /// What becomes of the calls of models.
    pub cassette: CassetteMode,
    pub registry: Option<ServiceLocation>,
    pub board: ServiceLocation,
    /// Where the team is read again, if its agents follow changes of their files.
    pub source: Option<TeamSource>,
    /// What a person is told to do when the mesh runs, if it is a whole one.
    pub next_steps: Option<NextSteps>,
}

/// What a person may do when the mesh runs.
#[derive(Debug, Clone)]
pub struct NextSteps {
    /// The address that commands need not name.
    pub default_url: &'static str,
    /// The flag of the person's token, if commands do not find it.
    pub token: String,
    /// The command that gives an agent something to do, if there is one.
    pub ask: Option<String>,
}

impl NextSteps {
    /// What to print if the mesh is at `base`.
    fn lines(&self, base: &str) -> impl Iterator<Item = String> {
        let url = if base == self.default_url { String::new() } else { format!(" --url {base}") };
        let console =
            format!("mesh: the console is at {base}; `mesh console{url}{}` opens it signed in", self.token);
        let ask = self.ask.as_ref().map(|ask| format!("mesh: next, in another terminal: {ask}{url}"));
        std::iter::once(console).chain(ask)
    }
}

/// Makes agents as their files say.
struct AgentFactory {
    config: ProcessConfig,
    capture: Capture,
    cassette: Option<Cassette>,
    store: SharedStore,
    hooks: CallbackRegistry,
    outside: OutboundClient,
    logins: ToolLogins,
}

impl AgentFactory {
    async fn make(&self) -> anyhow::Result<Vec<AgentSpec>> {
        let clients = (&self.outside, &self.logins);
        agent_specs(&self.config, &self.capture, self.cassette.as_ref(), &self.store, &self.hooks, clients)
            .await
    }

    /// Has the running agents go on as `changed` says. One that can't be made goes on as it was.
    async fn reload(&self, changed: Vec<AgentDefinition>, node: &RunningNode) {
        for agent in changed {
            let id = agent.id.clone();
            let team = Team { agents: vec![agent], ..self.config.team.clone() };
            let alone = Self {
                config: ProcessConfig { team, ..self.config.clone() },
                capture: self.capture.clone(),
                cassette: self.cassette.clone(),
                store: self.store.clone(),
                hooks: self.hooks.clone(),
                outside: self.outside.clone(),
                logins: self.logins.clone(),
            };
            let reloaded = match alone.make().await.map(|mut specs| specs.pop()) {
                Ok(Some(spec)) => node.reload(&spec).await,
                Ok(None) => Ok(()),
                Err(why) => Err(why),
            };
            match reloaded {
                Ok(()) => {
                    print_line(Level::INFO, &format!("mesh: the files of {id} have changed: it starts again"))
                }
                Err(why) => print_line(Level::WARN, &format!("mesh: {id} goes on as before: {why:#}")),
            }
        }
    }
}

/// Follows the files of the team for ever.
async fn follow_files(watch: Option<TeamWatch>, factory: &AgentFactory, node: &RunningNode) {
    let Some(mut watch) = watch else { return std::future::pending().await };
    loop {
        for change in watch.next().await {
            match change {
                TeamChange::Agents(changed) => factory.reload(changed, node).await,
                TeamChange::NeedsRestart(what) => print_line(
                    Level::WARN,
                    &format!("mesh: {what} changed: that counts when `mesh up` is started again"),
                ),
                TeamChange::Fault(fault) => {
                    print_line(Level::WARN, &format!("mesh: the agents go on as before: {fault}"));
                }
            }
        }
    }
}

/// Runs the process until SIGTERM or SIGINT, then drains it; a second signal ends it at once.
pub async fn run(mut config: ProcessConfig) -> anyhow::Result<()> {
    hide_from_own_user();
    if let Err(error) = child_process::raise_open_files() {
        print_line(Level::WARN, &format!("mesh: the limit of open files is not raised: {error}"));
    }
    let _replica_lock = match config.is_replica {
        true => Some(replica::claim(&mut config.team, &mut config.data)?),
        false => None,
    };
    let (data, grace) = (config.data.clone(), config.grace);
    if let Some(kill_timeout) = config.kill_timeout
        && kill_timeout < grace + SHUTDOWN_MARGIN
    {
        let (given, needed) = (kill_timeout.as_secs(), (grace + SHUTDOWN_MARGIN).as_secs());
        print_line(
            Level::WARN,
            &format!(
                "mesh: MESH_STOP_GRACE kills the process {given} s after a stop signal, but MESH_GRACE and the shutdown take up to \
                 {needed} s"
            ),
        );
    }
    let services = match (&config.registry, &config.board) {
        (Some(ServiceLocation::Local), ServiceLocation::Local) => "registry and blackboard",
        (_, ServiceLocation::Local) => "blackboard",
        (_, ServiceLocation::Remote(_) | ServiceLocation::FromRegistry) => "registry",
    };
    let mut signals = StopSignals::listen()?;
    let is_new_secret = !config.join.exists();
    let secret = join_secret(&config)?;
    data_dir::create(&data)?;
    let (store, gauge) = open_store(&config, &data)?;
    let space_store = match config.board {
        ServiceLocation::Local => Some(open_store(&config, &data.join(data_dir::SPACES))?.0),
        ServiceLocation::Remote(_) | ServiceLocation::FromRegistry => None,
    };
    let next_steps = config.next_steps.clone();
    let watch = config.source.clone().map(|source| TeamWatch::new(source, config.team.clone()));
    let (running, factory) = tokio::select! {
        running = open(config, (secret, is_new_secret), (store, space_store), gauge) => running?,
        () = signals.next() => return Ok(()),
    };
    let description = running.describe();
    std::fs::write(data.join("run.json.new"), description.to_string())
        .and_then(|()| std::fs::rename(data.join("run.json.new"), data.join("run.json")))
        .map_err(|source| OpenError::Io { dir: data.clone(), source })
        .with_context(|| format!("{} can't be written", data.join("run.json").display()))?;
    announce(&running, services);
    if let (Some(next), Some(address)) = (next_steps, running.services) {
        next.lines(&local_url(address)).for_each(|line| print_line(Level::INFO, &line));
    }
    tokio::select! {
        () = signals.next() => {}
        () = follow_files(watch, &factory, &running) => {}
    }
    print_line(Level::INFO, &"mesh: leaving; once more to leave at once");
    let outcome = tokio::select! {
        () = running.stop(grace) => Ok(()),
        () = signals.next() => Err(anyhow::anyhow!("left at once; what was not finished goes on at the next start")),
    };
    drop(std::fs::remove_file(data.join("run.json")));
    outcome
}

/// Makes this process's memory and environment unreadable for other processes of its user, such as brains (prctl(2)).
fn hide_from_own_user() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        print_line(
            Level::WARN,
            &format!("mesh: brains of the same user can read this process's memory: {error}"),
        );
    }
}

fn join_secret(config: &ProcessConfig) -> anyhow::Result<Secret> {
    if !config.listen.is_loopback() {
        return Ok(data_dir::read_shared_secret(&config.join, config.listen)?);
    }
    data_dir::create(&config.data)?;
    Ok(data_dir::read_or_create_secret(&config.join)?)
}

/// Opens the store in `dir`, which is created. The process ends if the store fails.
fn open_store(config: &ProcessConfig, dir: &Path) -> anyhow::Result<(SharedStore, Option<StoreGauge>)> {
    if config.is_in_memory {
        return Ok((memory::new(), None));
    }
    data_dir::create(dir)?;
    let (store, gauge) = embedded::open_with_gauge(dir, embedded::StoreOptions::default())?;
    let failing = gauge.clone();
    actix::spawn(
        async move { exit_on_store_failure(&format!("the store failed: {}", failing.failed().await)) },
    );
    Ok((store, Some(gauge)))
}

async fn open(
    config: ProcessConfig,
    (secret, is_new_secret): (Secret, bool),
    (store, space_store): (SharedStore, Option<SharedStore>),
    gauge: Option<StoreGauge>,
) -> anyhow::Result<(RunningNode, AgentFactory)> {
    let hooks = CallbackRegistry::default();
    let tokens = IssuedTokens::default();
    if config.registry == Some(ServiceLocation::Local) {
        let token = data_dir::read_or_create_token(&config.token)?;
        tokens.own_person(&token);
    }
    let outside = OutboundClient::new(
        config.team.mesh.outside.clone(),
        OutboundLimits::for_node(&config.team.mesh.limits),
    )?;
    let settings = TelemetrySettings::from_env().map_err(TelemetrySettingsError)?;
    let capture = Capture::new(config.capture, secrets(&config, &settings));
    let cassette = Cassette::open(&config.cassette, capture.clone())?;
    if let Some(cassette) = &cassette {
        print_line(Level::INFO, &format!("mesh: {cassette}"));
    }
    let logins = ToolLogins::new(config.data.join("logins"), outside.clone());
    let factory = AgentFactory {
        config: config.clone(),
        capture: capture.clone(),
        cassette,
        store: store.clone(),
        hooks: hooks.clone(),
        outside: outside.clone(),
        logins: logins.clone(),
    };
    let agents = factory.make().await?;
    // Also without a store on disk: others have pinned them.
    let ids = config.team.agents.iter().map(|definition| &definition.id);
    let keys = SigningKeys::of_mesh(config.data.join("keys"), &config.mesh_dir, ids);
    let telemetry = telemetry(&config, &settings, capture)?;
    let requests = (!config.is_in_memory).then(|| config.data.join("requests"));
    let (mesh, join) = (config.team.mesh, config.join);
    let started = start(NodeSetup {
        listen: config.listen,
        advertise: config.advertise,
        port: config.port,
        registry: config.registry,
        board: config.board,
        agents,
        store,
        space_store,
        secret,
        outside,
        logins,
        keys,
        requests,
        hooks,
        telemetry,
        tokens,
        mesh,
        gauge,
    })
    .await
    .map_err(|error| match error.downcast_ref::<StartError>() {
        Some(StartError::JoinSecretRefused { .. }) if is_new_secret => {
            // No process of the mesh has this secret. It is no use at the next start.
            let removed = match std::fs::remove_file(&join) {
                Ok(()) => "and was removed again".to_owned(),
                Err(error) => format!("and can't be removed: {error}"),
            };
            error.context(format!(
                "there was no {}, so a new secret was made in it, which is not that of the mesh, {removed}",
                join.display()
            ))
        }
        Some(StartError::JoinSecretRefused { .. }) => {
            error.context(format!("{} is not its secret", join.display()))
        }
        Some(_) | None => error,
    });
    Ok((started?, factory))
}

/// Telemetry as the environment configures it (`OTEL_*`). With one agent, the service name is the agent's id.
fn telemetry(
    config: &ProcessConfig,
    settings: &TelemetrySettings,
    capture: Capture,
) -> anyhow::Result<Telemetry> {
    settings.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let service = match config.team.agents.as_slice() {
        [agent] => agent.id.as_str(),
        [] if config.registry == Some(ServiceLocation::Local) => "registry",
        [] => "blackboard",
        [_, _, ..] => "mesh",
    };
    Ok(Telemetry::start(settings, capture, service).map_err(TelemetrySettingsError)?)
}

/// The secrets of this process, which are masked in traces and cassettes.
fn secrets(config: &ProcessConfig, settings: &TelemetrySettings) -> Vec<String> {
    let variables = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
    let of_environment = variables.flat_map(|(name, value)| of_variable(&name, &value));
    let agents = config.team.agents.iter();
    let of_agents =
        agents.clone().flat_map(|agent| agent.brain.secrets().into_iter().chain(agent.accept.secrets()));
    let triggers = agents.flat_map(|agent| agent.triggers.values());
    let of_triggers = triggers.flat_map(|trigger| trigger.secrets().map(str::to_owned));
    let callers = config.team.mesh.callers.iter().map(|caller| caller.credential.secret().to_owned());
    let of_export = settings.backends().flat_map(|backend| backend.headers.values().cloned());
    let join_secret = std::fs::read_to_string(&config.join).ok().map(|text| text.trim().to_owned());
    let outside = config.team.mesh.keyring.secrets().map(str::to_owned);
    let inbox = config.team.mesh.inbox_webhook.iter().map(|url| url.expose().to_owned());
    let services = [config.registry.as_ref(), Some(&config.board)].into_iter().flatten();
    let urls = services.filter_map(|service| match service {
        ServiceLocation::Remote(url) => Some(of_variable("", url)),
        ServiceLocation::Local | ServiceLocation::FromRegistry => None,
    });
    of_environment
        .chain(of_export)
        .chain(urls.flatten())
        .chain(join_secret)
        .chain(of_agents)
        .chain(of_triggers)
        .chain(callers)
        .chain(outside)
        .chain(inbox)
        .collect()
}

/// Lossy, as a secret that is not UTF-8 can't appear in a text.
fn lossy(text: std::ffi::OsString) -> String {
    text.to_string_lossy().into_owned()
}

async fn agent_specs(
    config: &ProcessConfig,
    capture: &Capture,
    cassette: Option<&Cassette>,
    store: &SharedStore,
    hooks: &CallbackRegistry,
    (outside, logins): (&OutboundClient, &ToolLogins),
) -> anyhow::Result<Vec<AgentSpec>> {
    let card_dir = (!config.is_in_memory).then(|| config.data.join("cards"));
    let keyring = config.team.mesh.keyring.clone();
    let foreign_agents = Arc::new(ForeignAgents {
        outside: outside.clone(),
        store: store.clone(),
        hooks: hooks.clone(),
        keyring,
        card_dir,
    });
    let mut agents = Vec::new();
    for agent in &config.team.agents {
        let what = || format!("the brain of {}", agent.id);
        let (mut settings, mut pending_card, mut peer) = (agent.settings.clone(), None, None);
        let access = BrainAccessCell::default();
        let brain: Arc<dyn Brain> = match &agent.brain {
            BrainConfig::Foreign(config) => {
                let foreign = foreign_agents.set_up(agent, config).await.with_context(what)?;
                settings = foreign.settings;
                pending_card = foreign
                    .missing_card
                    .map(|why| retry_card(why, &foreign_agents, agent, config, foreign.brain.clone()));
                Arc::new(foreign.brain)
            }
            BrainConfig::Http(service) => {
                outside.check_resolved(&service.url).await.with_context(what)?;
                Arc::new(Arc::new(HttpBrain::new(service.clone(), outside.clone(), access.clone())))
            }
            BrainConfig::Peer => {
                let heartbeat = Duration::from_millis(config.team.mesh.registry.heartbeat_ms);
                let unset = HttpBrainConfig { url: String::new(), headers: Default::default(), secret: None };
                let http = HttpBrain::new(unset, outside.with_loopback()?, access.clone());
                let brain = PeerBrain::new(PeerProcess::new(heartbeat), http, access.clone());
                Arc::new(peer.insert(Arc::new(brain)).clone())
            }
            own => {
                let rights = match own {
                    BrainConfig::Exec { .. } | BrainConfig::Llm(_) => {
                        let log = ServerLog { agent: agent.id.to_string(), capture: capture.clone() };
                        let access = access.clone();
                        add_logins(logins, agent).with_context(what)?;
                        let logins = Some(logins.clone());
                        BrainRights { access, log, logins, ..brain_rights(own, &agent.id, &config.data)? }
                    }
                    _ => BrainRights::default(),
                };
                own.brain(&rights, cassette).with_context(what)?
            }
        };
        let rights = match agent.accept.has_commands() {
            true => {
                BrainRights { access: access.clone(), ..brain_rights(&agent.brain, &agent.id, &config.data)? }
            }
            false => BrainRights::default(),
        };
        agents.push(AgentSpec {
            id: agent.id.clone(),
            acceptance: agent.accept.acceptance(&rights),
            settings,
            brain,
            port: agent.port,
            schedules: agent.schedules.clone(),
            triggers: Arc::new(agent.triggers.clone()),
            workspaces: workspaces(agent, &config.data).with_context(what)?,
            pending_card,
            peer,
            access,
        });
    }
    Ok(agents)
}

/// Adds the tool servers at which `agent` logs in.
fn add_logins(logins: &ToolLogins, agent: &AgentDefinition) -> anyhow::Result<()> {
    let BrainConfig::Llm(config) = &agent.brain else { return Ok(()) };
    for server in &config.tools {
        if let ToolServerTransport::Http { url, login: Some(login), .. } = &server.transport {
            logins.add(&agent.id, &server.name, url, login)?;
        }
    }
    Ok(())
}

/// The rights of the brain `config` of `agent`, whose node has its data in `data`.
fn brain_rights(config: &BrainConfig, agent: &AgentId, data: &Path) -> Result<BrainRights, StartError> {
    let user = match config {
        BrainConfig::Exec { user, .. } => user.as_deref(),
        _ => None,
    };
    let refused = |why| StartError::BrainRights { agent: agent.clone(), why };
    let user = user.map(OsUser::find).transpose().map_err(refused)?;
    let home = private_dir::prepare(agent, data, user.as_ref()).map_err(refused)?;
    Ok(BrainRights { home: Some(home), user, ..BrainRights::default() })
}

/// Where the repositories of sessions are that the agent hosts, and its clones of those that it works in.
fn workspaces(agent: &AgentDefinition, data: &Path) -> Result<(WorkspaceHost, WorkspaceRights), StartError> {
    let user = match &agent.brain {
        BrainConfig::Exec { user, .. } => user.as_deref().map(OsUser::find).transpose(),
        _ => Ok(None),
    };
    let user = user.map_err(|why| StartError::BrainRights { agent: agent.id.clone(), why })?;
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let dir = data.join("workspaces").join(agent.id.as_str());
    Ok((
        WorkspaceHost { repositories: agent.workspaces.clone(), dir },
        WorkspaceRights::new(&agent.id, data, user),
    ))
}

/// The retry of a card that could not be read.
fn retry_card(
    why: String,
    foreign_agents: &Arc<ForeignAgents>,
    agent: &AgentDefinition,
    config: &A2aBrainConfig,
    brain: Arc<A2aBrain>,
) -> PendingCard {
    let (foreign_agents, agent, config) = (foreign_agents.clone(), agent.clone(), config.clone());
    let fetch = move || {
        let (foreign_agents, agent, config) = (foreign_agents.clone(), agent.clone(), config.clone());
        let brain = brain.clone();
        let settings = async move { Ok(foreign_agents.retry(&agent, &config, brain).await?.settings) };
        Box::pin(settings) as Pin<Box<dyn Future<Output = Result<AgentSettings, String>> + Send>>
    };
    PendingCard { why, fetch: Arc::new(fetch) }
}

impl RunningNode {
    /// The content of `run.json`: process id and addresses.
    pub fn describe(&self) -> serde_json::Value {
        let agents: serde_json::Map<_, _> =
            self.agents.iter().map(|(id, address)| (id.to_string(), json!(local_url(*address)))).collect();
        json!({
            "pid": std::process::id(),
            "url": self.services.map(local_url),
            "agents": agents,
            "grpc": self.grpc,
        })
    }
}

/// The base URL of `address` from this machine.
fn local_url(mut address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    format!("http://{address}")
}

fn announce(running: &RunningNode, services: &str) {
    if let Some(address) = running.services {
        print_line(Level::INFO, &format!("mesh: {services} at {}", running.advertise.endpoint(address)));
    }
    if let Some(address) = running.grpc {
        print_line(Level::INFO, &format!("mesh: gRPC at {}", running.advertise.authority(address)));
    }
    if let Some(url) = &running.advertise.public_url {
        print_line(Level::INFO, &format!("mesh: clients are told {}", url.as_str()));
    }
    for (id, address) in &running.agents {
        print_line(Level::INFO, &format!("mesh: {id} at {}", running.advertise.endpoint(*address)));
    }
}

/// SIGTERM and SIGINT; installed before the start, so that a signal during it also deregisters the agents.
struct StopSignals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

impl StopSignals {
    fn listen() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}
