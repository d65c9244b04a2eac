//! The one place where parts are chosen and joined: store, registry, board, agents, and the server before them.

mod calls;
mod follow;
mod foreign;
pub mod home;
pub mod keys;
pub mod late;
mod leave;
mod missed;
pub mod plan;
mod presence;
pub mod reach;
mod replica;
pub mod services;

use crate::{
    agent::{AgentActor, Parts, Pulse, Sweep, newest_time},
    brain::{Brain, PeerSkill, coordinator::Coordinator},
    clock::Clock,
    http::{
        a2a::{self, Face},
        edge::{Auth, Caller, Callers, Edge},
        leaving::Leaving,
        routes::{self, Local, Node, health::OWN_CHECK},
        server::{Front, server},
    },
    latest::Latest,
    outbox::{
        Ways,
        outside::{self, Outside},
        webhooks::{Pusher, Seal},
    },
    peers::{Locals, Peers},
    telemetry::Telemetry,
};
use actix::{Actor, Addr};
use actix_web::{dev::ServerHandle, web};
use anyhow::Context as _;
use blackboard::{
    board::{Board, BoardConfig, Clock as BoardClock},
    client::{Backoff, Blackboard},
    store::{Shared, owned::Owned, probe::Probe},
    wire::{Wire, WireLimits},
};
use late::Late;
use presence::Presence;
use protocol::{
    a2a::terms::{Schemes, Terms as A2aTerms},
    card::{Card, Skill, Terms},
    coordination::{contract_net::Auction, delegation::Patience},
    ids::AgentId,
    limits::Limits,
    principal::Principal,
    problem::Reason,
    signal::Signal,
    signature::{Secret, Signer, Verifier},
    time::NodeTime,
};
use reach::Reach;
use registry::{
    client::Registry,
    config::Config as RegistryConfig,
    registrar::{Clocks, Keeper, Publish},
};
use services::NotStarted;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

/// Where a service is: in this process, or somewhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Service {
    /// In this process.
    Here,
    /// At this base URL.
    At(String),
    /// Wherever the registry says, once it can be asked. A board only.
    Told,
}

/// One agent to run.
#[derive(Clone)]
pub struct Seat {
    /// Its id.
    pub id: AgentId,
    /// One sentence about it.
    pub description: String,
    /// What it can do.
    pub skills: Vec<Skill>,
    /// Whether it takes requests that name no capability.
    pub open: bool,
    /// What it offers to A2A clients.
    pub a2a: A2aTerms,
    /// On what terms it works.
    pub terms: Terms,
    /// Types of signals it reacts to, each exact or ending in `*`.
    pub subscribe: Vec<String>,
    /// Who thinks for it.
    pub brain: Arc<dyn Brain>,
    /// Where it listens; 0 takes any free port.
    pub port: u16,
    /// What it waits for before it knows what it can do, if it does.
    pub waits: Option<late::Waits>,
}

/// Everything a process is made of.
pub struct Setup {
    /// The address to listen on.
    pub listen: IpAddr,
    /// How others reach it there.
    pub reach: Reach,
    /// The port of the registry and the board, if they are here; 0 takes any free one.
    pub port: u16,
    /// The registry; `None` for a process without agents that is no registry itself.
    pub registry: Option<Service>,
    /// The board.
    pub board: Service,
    /// The agents.
    pub seats: Vec<Seat>,
    /// The store.
    pub store: Shared,
    /// What proves that an agent is one of the mesh.
    pub secret: Secret,
    /// What every agent takes.
    pub limits: Limits,
    /// How work is given away.
    pub auction: Auction,
    /// How long agents wait for what they asked.
    pub patience: Patience,
    /// The registry's timing.
    pub registry_config: RegistryConfig,
    /// The board's timing and limits.
    pub board_config: BoardConfig,
    /// Where calls beyond the mesh may go.
    pub outside: protocol::outside::Rules,
    /// Where agents keep the keys they sign their cards with.
    pub keys: keys::Keys,
    /// How full the store is, if that can be told.
    pub gauge: Option<blackboard::store::embedded::Gauge>,
    /// Where foreign agents call back.
    pub hooks: crate::outbox::a2a::hooks::Hooks,
    /// What foreign agents are shown as proof of who calls.
    pub keyring: crate::outbox::a2a::credentials::Keyring,
    /// What tells of all this to whoever watches.
    pub telemetry: Telemetry,
    /// Users who prove who they are.
    pub callers: Vec<Caller>,
    /// The port where its agents take A2A over gRPC, if they do; 0 takes any free one.
    pub grpc: Option<u16>,
}

/// A process at work.
pub struct Running {
    /// Where the registry and the board are.
    pub services: Option<SocketAddr>,
    /// Where each agent is.
    pub agents: BTreeMap<AgentId, SocketAddr>,
    /// Where they take gRPC.
    pub grpc: Option<SocketAddr>,
    reach: Reach,
    handle: ServerHandle,
    calls: Option<calls::Server>,
    ended: tokio::task::JoinHandle<std::io::Result<()>>,
    presences: Vec<Presence>,
    pulses: Vec<Arc<Pulse>>,
    actors: Vec<Addr<AgentActor>>,
    pushers: Vec<Addr<Pusher>>,
    telemetry: Telemetry,
    leaving: Leaving,
}

struct ToBoard(Blackboard, Principal);

impl Publish for ToBoard {
    fn publish(
        &self,
        signal: Signal,
    ) -> std::pin::Pin<Box<dyn std::future::Future<Output = Result<(), protocol::problem::Problem>> + Send>>
    {
        let (board, by) = (self.0.clone(), self.1.clone());
        Box::pin(async move { board.publish(&by, signal).await.map(|_| ()) })
    }
}

/// How long a start waits for the first view of the directory.
const FIRST_VIEW: Duration = Duration::from_secs(5);

/// Starts everything and returns once it listens and every local agent is registered or known to be waiting.
pub async fn start(setup: Setup) -> anyhow::Result<Running> {
    let limits = Arc::new(setup.limits.clone());
    let key = |seat: &Seat| Ok((seat.id.clone(), setup.keys.of(&seat.id)?));
    let keys: BTreeMap<_, _> = setup.seats.iter().map(key).collect::<anyhow::Result<_>>()?;
    let has_services = setup.registry == Some(Service::Here) || setup.board == Service::Here;
    let services = has_services.then(|| listen(setup.listen, setup.port)).transpose()?;
    let mut listeners = Vec::new();
    for seat in &setup.seats {
        let (listener, address) = listen(setup.listen, seat.port)?;
        listeners.push((seat.id.clone(), listener, address));
    }
    let grpc = calls::listen(&setup)?;
    let agents: BTreeMap<_, _> = listeners.iter().map(|(id, _, address)| (id.clone(), *address)).collect();

    let owned = |owner: &str| -> Shared { Arc::new(Owned::new(setup.store.clone(), owner)) };
    let mut base = NodeTime::default();
    for seat in &setup.seats {
        let newest = newest_time(owned(seat.id.as_str()).as_ref(), &seat.id);
        base = base.max(newest.with_context(|| format!("the journal of {} can't be read", seat.id))?);
    }
    let clock = Clock::from(base);
    let wire = Wire::new(None, WireLimits::default()).map_err(|problem| anyhow::anyhow!(problem.message))?;
    let signed = |id: &AgentId, away: Reason| {
        wire.signing_as(Signer::new(setup.secret.clone(), id.clone())).unreachable_is(away)
    };

    let board_here = match setup.board {
        Service::Here => {
            let config = BoardConfig {
                max_signal_bytes: setup.limits.max_signal_bytes,
                keep_ms: setup.limits.keep_signals_ms,
                keep_bytes: setup.limits.keep_signal_bytes,
                ..setup.board_config.clone()
            };
            let started = Board::start(
                owned("board"),
                config,
                BoardClock::new(move || clock.node(), move || clock.wall()),
            );
            Some(
                started
                    .map_err(|problem| anyhow::anyhow!("the blackboard can't start: {}", problem.message))?,
            )
        }
        Service::At(_) | Service::Told => None,
    };
    let services_known = Arc::new(services::Known::new(&setup, &wire));
    let board_for = |id: &AgentId| match (&board_here, &setup.board) {
        (Some(board), _) => Blackboard::local(board.clone()),
        (None, Service::At(_) | Service::Told) => {
            let wire = signed(id, Reason::BlackboardUnavailable);
            Blackboard::remote(services_known.board_base(), move |_| wire.clone(), Backoff::default())
        }
        (None, Service::Here) => unreachable!("a board that is here has started"),
    };
    let registry_id = AgentId::parse("registry")?;
    let registry_actor = match setup.registry {
        Some(Service::Here) => {
            let to_board = ToBoard(board_for(&registry_id), Principal::Agent(registry_id.clone()));
            let clocks =
                Clocks { node: Arc::new(move || clock.node()), wall: Arc::new(move || clock.wall()) };
            let (config, store) = (setup.registry_config.clone(), owned("registry"));
            let started = Keeper::start(config, store, Arc::new(to_board), clocks);
            Some(
                started
                    .map_err(|problem| anyhow::anyhow!("the registry can't start: {}", problem.message))?,
            )
        }
        Some(Service::At(_) | Service::Told) | None => None,
    };
    let registry_for = |id: &AgentId| match (&registry_actor, &setup.registry) {
        (Some(actor), _) => Some(Registry::local(actor.clone())),
        (None, Some(Service::At(url))) => {
            Some(Registry::remote(url, signed(id, Reason::RegistryUnavailable)))
        }
        (None, _) => None,
    };

    let speaker = setup.seats.first().map_or(&registry_id, |seat| &seat.id);
    services_known.accept(registry_for(speaker), board_for(speaker)).await?;

    let outside = Outside::new(setup.outside.clone(), outside::Bounds::of(&setup.limits))
        .map_err(|error| anyhow::anyhow!("the client for the outside can't start: {error}"))?;
    let peers = Arc::new(Peers::default());
    let locals = Arc::new(Locals::default());
    let callers = Callers::new(&setup.callers);
    let schemes = Schemes { needed: !setup.listen.is_loopback(), ..callers.schemes() };
    let mut local = BTreeMap::new();
    let mut presences = Vec::new();
    for seat in &setup.seats {
        let address = agents.get(&seat.id).context("every seat has a listener")?;
        let card = Latest::new(card(seat, setup.reach.endpoint(*address), &setup.limits));
        let me = Latest::new(PeerSkill {
            agent_id: seat.id.clone(),
            description: seat.description.clone(),
            skills: seat.skills.clone(),
        });
        let pulse = Arc::new(Pulse::default());
        let key = keys.get(&seat.id).context("every seat has a key")?.clone();
        let store = owned(seat.id.as_str());
        let ways = Ways {
            locals: locals.clone(),
            peers: peers.clone(),
            wire: signed(&seat.id, Reason::Overloaded),
            board: board_for(&seat.id),
            outside: outside.clone(),
            limits: limits.clone(),
            telemetry: setup.telemetry.clone(),
        };
        let wire = ways.wire.clone();
        let parts = Parts {
            card: card.get(),
            brain: seat.brain.clone(),
            coordinator: Arc::new(Coordinator::new(
                outside.clone(),
                setup.keyring.clone(),
                setup.hooks.clone(),
                Some(store.clone()),
                me.clone(),
            )),
            store: store.clone(),
            clock,
            ways,
            limits: limits.clone(),
            subscribe: seat.subscribe.clone(),
            auction: setup.auction.clone(),
            patience: setup.patience,
            telemetry: setup.telemetry.clone(),
            is_direct: seat.a2a.direct,
            pulse: pulse.clone(),
            fatal: Arc::new(die),
        };
        let actor = AgentActor::new(parts).start();
        sweep_now_and_then(&actor, limits.sweep());
        if let Some(waits) = &seat.waits {
            pulse.wait(Some(waits.why.clone()));
        }
        let presence =
            registry_for(&seat.id).map(|registry| Presence::keep(registry, card.clone(), pulse.clone()));
        let nudge = presence.as_ref().map(Presence::nudge);
        presences.extend(presence);
        let seal = Seal::of(&key);
        let pusher = Pusher::new(seat.id.clone(), store.clone(), outside.clone(), seal).start();
        let interface = grpc.as_ref().map(|(_, address)| calls::interface(&setup, *address, &seat.id));
        let face = Latest::new(Face::new(&card.get(), seat.a2a.clone(), schemes, interface.clone(), &key));
        let outside = outside.clone();
        let (id, listed) = (seat.id.clone(), a2a::Listed::default());
        let one = Local { id, actor, store, wire, card, pulse, key, face, pusher, outside, listed };
        if let Some(waits) = seat.waits.clone() {
            Late { local: one.clone(), me, schemes, interface, nudge }.wait(waits);
        }
        local.insert(seat.id.clone(), one);
    }
    if let Some(first) = setup.seats.first()
        && let Some(registry) = registry_for(&first.id)
    {
        follow::keep(registry, peers.clone(), setup.registry_config.grace());
        let registries = local.keys().filter_map(|id| Some((id.clone(), registry_for(id)?))).collect();
        missed::report(registries, &peers, Duration::from_millis(setup.registry_config.heartbeat_ms));
        let ids: Vec<_> = agents.keys().cloned().collect();
        peers.first_view(&ids, FIRST_VIEW).await;
    }

    let pulses = local.values().map(|local| local.pulse.clone()).collect();
    let actors = local.values().map(|local| local.actor.clone()).collect();
    let pushers = local.values().map(|local| local.pusher.clone()).collect();
    let serves = {
        let ids: Vec<_> = local.keys().cloned().collect();
        let (registry_here, board_here) = (registry_actor.is_some(), board_here.is_some());
        move |name: &str| {
            ids.iter().any(|id| id.as_str() == name)
                || registry_here && name == "registry"
                || board_here && name == "board"
        }
    };
    let auth = Auth::new(Verifier::new(setup.secret.clone(), None), serves)
        .with_local_callers(setup.reach.callers())
        .with_watchers(setup.reach.watchers())
        .with_user_hosts(setup.reach.user_names(setup.listen))
        .with_callers(callers);
    let hosts = setup.reach.names(setup.listen);
    let meters = Some(setup.telemetry.clone());
    let front = Front { hosts, meters, shutdown: leave::ANSWERS, ..Front::new(setup.limits.clone(), auth) };
    let (readers, leaving) = (front.readers.clone(), front.leaving.clone());
    let edge = Edge::new(front);
    if let Some((_, _, address)) = listeners.first() {
        setup.hooks.listen_at(setup.reach.endpoint(*address));
    }
    let node = Node {
        by_port: listeners.iter().map(|(id, _, address)| (address.port(), id.clone())).collect(),
        readers,
        leaving: leaving.clone(),
        services: services_known.clone(),
        was_ready: Default::default(),
        checks: checks(&setup, &board_for, &registry_for, &registry_id),
        agents: local,
        peers,
        locals,
        limits,
        clock,
        telemetry: setup.telemetry.clone(),
        looked: routes::metrics::Looked {
            board: board_here.clone(),
            registry: registry_actor.clone().map(Registry::local),
            store: setup.gauge.clone(),
        },
        hooks: setup.hooks.clone(),
    };
    let has_agents = !node.agents.is_empty();
    let data = web::Data::new(node);
    let (grpc, calls) = match (grpc, setup.seats.first()) {
        (Some((listener, address)), Some(first)) => {
            let calls =
                calls::Server::start(listener, data.clone().into_inner(), edge.clone(), first.id.clone());
            (Some(address), Some(calls.context("gRPC can't start")?))
        }
        (_, _) => (None, None),
    };
    let (registry_service, board_service) = (registry_actor.clone(), board_here.clone());
    let configure = move |config: &mut web::ServiceConfig| {
        config.app_data(data.clone());
        // A request is held against one route after the other: what is asked for most comes first.
        if has_agents {
            config.configure(routes::messages).configure(a2a::rpc);
        }
        config.configure(routes::process);
        if has_agents {
            config.configure(routes::agents).configure(a2a::routes);
        }
        if let Some(registry) = &registry_service {
            config.app_data(web::Data::new(registry.clone())).configure(registry::http::routes);
        }
        if let Some(board) = &board_service {
            config.app_data(web::Data::new(board.clone())).configure(blackboard::http::routes);
        }
    };
    let reach = setup.reach;
    let services_at = services.as_ref().map(|(_, address)| *address);
    let sockets = services.into_iter().map(|(listener, _)| listener);
    let sockets = sockets.chain(listeners.into_iter().map(|(_, listener, _)| listener)).collect();
    let server = server(sockets, edge, configure).context("the server can't start")?;
    let handle = server.handle();
    let ended = actix::spawn(server);
    let telemetry = setup.telemetry.clone();
    Ok(Running {
        services: services_at,
        agents,
        grpc,
        reach,
        handle,
        calls,
        ended,
        presences,
        pulses,
        actors,
        pushers,
        telemetry,
        leaving,
    })
}

fn listen(ip: IpAddr, port: u16) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((ip, port)).map_err(|source| NotStarted::Port { ip, port, source })?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn card(seat: &Seat, endpoint: String, limits: &Limits) -> Card {
    Card {
        agent_id: seat.id.clone(),
        description: seat.description.clone(),
        endpoint,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        skills: seat.skills.clone(),
        open: seat.open,
        subscribe: seat.subscribe.clone(),
        terms: seat.terms.clone(),
        limits: limits.clone(),
        waits_for: seat.waits.as_ref().map(|waits| waits.why.clone()),
    }
}

fn sweep_now_and_then(actor: &Addr<AgentActor>, every: Duration) {
    let actor = actor.clone();
    actix::spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            if actor.send(Sweep).await.is_err() {
                return;
            }
        }
    });
}

/// The store has failed: nothing more is acknowledged, and a restart recovers what is true.
fn die(why: &str) {
    tracing::error!("{why}");
    crate::telemetry::say(tracing::Level::ERROR, &format!("mesh: {why}"));
    std::process::exit(74);
}

fn checks(
    setup: &Setup,
    board_for: &impl Fn(&AgentId) -> Blackboard,
    registry_for: &impl Fn(&AgentId) -> Option<Registry>,
    services: &AgentId,
) -> routes::health::Checks {
    let who = setup.seats.first().map_or(services, |seat| &seat.id);
    let mut checks: routes::health::Checks = Vec::new();
    let (store, probe) = (setup.store.clone(), Probe::new(setup.store.clone()));
    checks.push((
        OWN_CHECK,
        Arc::new(move || {
            let (store, probe) = (store.clone(), probe.clone());
            Box::pin(async move {
                probe.look().await.map_err(|error| error.to_string())?;
                Ok(serde_json::json!({ "revision": store.head(), "generation": store.generation() }))
            })
        }),
    ));
    let (board, by) = (board_for(who), Principal::local_user());
    checks.push((
        "blackboard",
        Arc::new(move || {
            let (board, by) = (board.clone(), by.clone());
            Box::pin(async move {
                match board.snapshot().await {
                    Some(snapshot) => snapshot
                        .map(|snapshot| serde_json::json!(snapshot))
                        .map_err(|problem| problem.message),
                    None => {
                        let page = board
                            .read(&by, &Default::default(), None, 0)
                            .await
                            .map_err(|problem| problem.message)?;
                        Ok(serde_json::json!({ "head": page.next }))
                    }
                }
            })
        }),
    ));
    if let Some(registry) = registry_for(who) {
        checks.push((
            "registry",
            Arc::new(move || {
                let registry = registry.clone();
                Box::pin(async move {
                    let found = registry
                        .find(&registry::entry::Query::default())
                        .await
                        .map_err(|problem| problem.message)?;
                    Ok(serde_json::json!({ "agents": found.len() }))
                })
            }),
        ));
    }
    checks
}

#[cfg(test)]
mod tests;
