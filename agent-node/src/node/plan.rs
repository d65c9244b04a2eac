//! What a process is asked to be: the words of the command line and the files, before anything is opened.

use super::{
    Running, Seat, Service, Setup,
    foreign::Abroad,
    home,
    late::{Learnt, Waits},
    leave::GOODBYES,
    reach::Reach,
    replica,
    services::NotStarted,
    start,
};
use crate::{
    brain::{
        Brain,
        a2a::{A2aBrain, A2aBrainConfig},
    },
    config::{AgentConfig, BrainConfig, Team},
    outbox::{
        a2a::callbacks::CallbackRegistry,
        outbound_client::{OutboundClient, OutboundLimits},
    },
    telemetry::{
        Telemetry, TelemetrySettingsError,
        capture::{Capture, CaptureLevel, of_variable},
        otel_settings::TelemetrySettings,
        print_line,
    },
};
use anyhow::Context as _;
use blackboard::store::{Shared, embedded, memory};
use protocol::a2a::agent_policy::AgentPolicy;
use serde_json::json;
use std::{
    collections::BTreeSet,
    future::Future,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tracing::Level;

/// The first port that agents listen at when nobody says otherwise (DESIGN §12).
pub const FIRST_AGENT_PORT: u16 = 8001;

/// A process, as it was asked for.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The address to listen on.
    pub listen: IpAddr,
    /// How others reach it there.
    pub reach: Reach,
    /// The port of the registry and the board; 0 takes any free one, for agents without a port too.
    pub port: u16,
    /// Where its data lies; a replica's, in a directory of its own there.
    pub data: PathBuf,
    /// Whether it is one of several of the same agent, which share `data`.
    pub is_replica: bool,
    /// How long it finishes what it does when it is told to end.
    pub grace: Duration,
    /// When it is killed after that, if anybody said so.
    pub killed_after: Option<Duration>,
    /// The file of the join secret.
    pub join: PathBuf,
    /// Whether everything is forgotten at the end.
    pub forgets: bool,
    /// The agents and the terms.
    pub team: Team,
    /// How much content goes into traces.
    pub capture: CaptureLevel,
    /// The registry, for a process that has anything to do with one.
    pub registry: Option<Service>,
    /// The board.
    pub board: Service,
}

/// Runs the process until it is told to stop (SIGTERM, SIGINT), then lets it finish what it does.
pub async fn run(mut plan: Plan) -> anyhow::Result<()> {
    let _slot = if plan.is_replica { Some(replica::take(&mut plan)?) } else { None };
    let (data, grace) = (plan.data.clone(), plan.grace);
    if let Some(killed_after) = plan.killed_after
        && killed_after < grace + GOODBYES
    {
        let (given, needed) = (killed_after.as_secs(), (grace + GOODBYES).as_secs());
        print_line(
            Level::WARN,
            &format!(
                "mesh: it is killed {given} s after it is told to end (MESH_STOP_GRACE), which is no time for MESH_GRACE and \
                 goodbyes: {needed} s are"
            ),
        );
    }
    let services = match (&plan.registry, &plan.board) {
        (Some(Service::Here), Service::Here) => "registry and blackboard",
        (_, Service::Here) => "blackboard",
        (_, Service::At(_) | Service::Told) => "registry",
    };
    let mut ends = Ends::listen()?;
    let running = tokio::select! {
        running = open(plan) => running?,
        () = ends.next() => return Ok(()),
    };
    let described = running.described();
    std::fs::write(data.join("run.json.new"), described.to_string())
        .and_then(|()| std::fs::rename(data.join("run.json.new"), data.join("run.json")))
        .with_context(|| format!("{} can't be written", data.join("run.json").display()))?;
    announce(&running, services);
    ends.next().await;
    print_line(Level::INFO, &"mesh: leaving; once more to leave at once");
    let left = tokio::select! {
        () = running.stop(grace) => Ok(()),
        () = ends.next() => Err(anyhow::anyhow!("left at once; what was not finished goes on at the next start")),
    };
    drop(std::fs::remove_file(data.join("run.json")));
    left
}

async fn open(plan: Plan) -> anyhow::Result<Running> {
    let secret = match plan.listen.is_loopback() {
        true => home::make(&plan.data).and_then(|()| Ok(home::secret(&plan.join)?))?,
        false => home::shared_secret(&plan.join, plan.listen)?,
    };
    let (store, gauge): (Shared, _) = match plan.forgets {
        true => home::make(&plan.data).map(|()| (memory::new(), None))?,
        false => {
            let (store, gauge) = embedded::open_gauged(&plan.data, embedded::Options::default())?;
            (store, Some(gauge))
        }
    };
    let hooks = CallbackRegistry::default();
    let seats = seats(&plan, &store, &hooks).await?;
    let keys = (!plan.forgets).then(|| plan.data.join("keys"));
    let telemetry = telemetry(&plan, &plan.join)?;
    let (mesh, join) = (plan.team.mesh, plan.join);
    start(Setup {
        listen: plan.listen,
        reach: plan.reach,
        port: plan.port,
        registry: plan.registry,
        board: plan.board,
        seats,
        store,
        secret,
        limits: mesh.limits,
        auction: mesh.auction,
        patience: Default::default(),
        registry_config: mesh.registry,
        board_config: mesh.board,
        outside: mesh.outside,
        keys: super::keys::Keys(keys),
        hooks,
        keyring: mesh.keyring,
        telemetry,
        callers: mesh.callers,
        grpc: mesh.grpc_port,
        gauge,
    })
    .await
    .map_err(|error| match error.downcast_ref::<NotStarted>() {
        Some(NotStarted::ForeignSecret { .. }) => {
            error.context(format!("{} is not its secret", join.display()))
        }
        Some(_) | None => error,
    })
}

/// What the environment asks for (`OTEL_*`). A process with one agent is called by that agent's name.
fn telemetry(plan: &Plan, join: &Path) -> anyhow::Result<Telemetry> {
    let settings = TelemetrySettings::from_env().map_err(TelemetrySettingsError)?;
    settings.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let service = match plan.team.agents.as_slice() {
        [agent] => agent.id.as_str(),
        [] if plan.registry == Some(Service::Here) => "registry",
        [] => "blackboard",
        [_, _, ..] => "mesh",
    };
    let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let named = variables.flat_map(|(name, value)| of_variable(&name, &value));
    let told = plan.team.agents.iter().flat_map(|agent| agent.brain.secrets());
    let callers = plan.team.mesh.callers.iter().map(|caller| caller.credential.secret().to_owned());
    let sent = settings.export.iter().flat_map(|export| export.headers.values().cloned());
    let ours = std::fs::read_to_string(join).ok().map(|text| text.trim().to_owned());
    let outside = plan.team.mesh.keyring.secrets().map(str::to_owned);
    let places = [plan.registry.as_ref(), Some(&plan.board)].into_iter().flatten();
    let places = places.filter_map(|service| match service {
        Service::At(url) => Some(of_variable("", url)),
        Service::Here | Service::Told => None,
    });
    let secrets =
        named.chain(sent).chain(places.flatten()).chain(ours).chain(told).chain(callers).chain(outside);
    let capture = Capture::new(plan.capture, secrets);
    Ok(Telemetry::start(&settings, capture, service).map_err(TelemetrySettingsError)?)
}

/// What is no UTF-8 is no secret that a text could hold.
fn text(text: std::ffi::OsString) -> String {
    text.to_string_lossy().into_owned()
}

/// Agents without a port take the next one that none of the others has asked for.
async fn seats(plan: &Plan, store: &Shared, hooks: &CallbackRegistry) -> anyhow::Result<Vec<Seat>> {
    let outside = OutboundClient::new(
        plan.team.mesh.outside.clone(),
        OutboundLimits::for_node(&plan.team.mesh.limits),
    )?;
    let cards = (!plan.forgets).then(|| plan.data.join("cards"));
    let keyring = plan.team.mesh.keyring.clone();
    let abroad = Arc::new(Abroad { outside, store: store.clone(), hooks: hooks.clone(), keyring, cards });
    let asked: BTreeSet<u16> =
        plan.team.agents.iter().filter_map(|agent| agent.port).chain([plan.port]).collect();
    let mut free = (FIRST_AGENT_PORT..).filter(|port| !asked.contains(port));
    let mut seats = Vec::new();
    for agent in &plan.team.agents {
        let what = || format!("the brain of {}", agent.id);
        let (mut a2a, mut waits) = (agent.a2a.clone(), None);
        let (brain, description, skills): (Arc<dyn Brain>, _, _) = match &agent.brain {
            BrainConfig::Foreign(config) => {
                let met = abroad.meet(agent, config).await.with_context(what)?;
                a2a = with_modes(a2a, met.modes);
                waits = met.waits.map(|why| waiting(why, &abroad, agent, config, met.brain.clone()));
                (Arc::new(met.brain), met.description, met.skills)
            }
            own @ (BrainConfig::Exec { .. } | BrainConfig::Scripted(_) | BrainConfig::Echo) => {
                (own.brain().with_context(what)?, agent.description.clone(), agent.skills.clone())
            }
        };
        let port = match agent.port {
            Some(port) => port,
            None if plan.port == 0 => 0,
            None => free.next().context("there are more agents than ports")?,
        };
        seats.push(Seat {
            id: agent.id.clone(),
            description,
            skills,
            open: agent.open,
            a2a,
            terms: agent.terms.clone(),
            subscribe: agent.subscribe.clone(),
            brain,
            port,
            waits,
        });
    }
    Ok(seats)
}

/// The media types of a card, where the file says nothing of its own.
fn with_modes(mut a2a: AgentPolicy, modes: Option<(Vec<String>, Vec<String>)>) -> AgentPolicy {
    let usual = AgentPolicy::default();
    if let Some((takes, answers)) = modes {
        if a2a.input_modes == usual.input_modes {
            a2a.input_modes = takes;
        }
        if a2a.output_modes == usual.output_modes {
            a2a.output_modes = answers;
        }
    }
    a2a
}

/// What an agent waits for whose card could not be had.
fn waiting(
    why: String,
    abroad: &Arc<Abroad>,
    agent: &AgentConfig,
    config: &A2aBrainConfig,
    brain: Arc<A2aBrain>,
) -> Waits {
    let (abroad, agent, config) = (abroad.clone(), agent.clone(), config.clone());
    let again = move || {
        let (abroad, agent, config) = (abroad.clone(), agent.clone(), config.clone());
        let brain = brain.clone();
        let learnt = async move {
            let met = abroad.meet_again(&agent, &config, brain).await?;
            let a2a = with_modes(agent.a2a.clone(), met.modes);
            Ok(Learnt { description: met.description, skills: met.skills, a2a })
        };
        Box::pin(learnt) as Pin<Box<dyn Future<Output = Result<Learnt, String>> + Send>>
    };
    Waits { why, again: Arc::new(again) }
}

impl Running {
    /// Where everything is, for whoever starts a process and wants to talk to it.
    pub fn described(&self) -> serde_json::Value {
        let agents: serde_json::Map<_, _> =
            self.agents.iter().map(|(id, address)| (id.to_string(), json!(from_here(*address)))).collect();
        json!({
            "pid": std::process::id(),
            "url": self.services.map(from_here),
            "agents": agents,
            "grpc": self.grpc,
        })
    }
}

/// The base URL under which this machine reaches `address`.
fn from_here(mut address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    format!("http://{address}")
}

fn announce(running: &Running, services: &str) {
    if let Some(address) = running.services {
        print_line(Level::INFO, &format!("mesh: {services} at {}", running.reach.endpoint(address)));
    }
    if let Some(address) = running.grpc {
        print_line(Level::INFO, &format!("mesh: gRPC at {}", running.reach.authority(address)));
    }
    for (id, address) in &running.agents {
        print_line(Level::INFO, &format!("mesh: {id} at {}", running.reach.endpoint(*address)));
    }
}

/// What tells a process to end; heard from the first moment on, so that none goes without a goodbye.
struct Ends(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

impl Ends {
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
