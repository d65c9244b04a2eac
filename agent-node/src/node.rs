//! The one place where parts are chosen and joined: store, registry, board, agents, and the server before them.

mod arbiters;
mod calls;
mod checks;
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
mod setup;

pub use services::Service;
pub use setup::{Seat, Setup};

use crate::{
    agent::{AgentActor, AgentParts, AgentStatus, StartRetentionSweep},
    brain::{PeerSummary, coordinator::Coordinator},
    clock::Clock,
    http::{
        a2a::{self, face::Face, listed::Listed},
        edge::{Auth, Callers, Edge, Front},
        leaving::Leaving,
        node_state::{HostedAgent, Looked, Node},
        routes,
        server::server,
    },
    inbox::Locals,
    latest::Latest,
    outbox::{
        Transports,
        outbound_client::{self, OutboundClient},
        webhooks::{Pusher, Seal},
    },
    peers::Peers,
    telemetry::Telemetry,
};
use actix::{Actor, Addr};
use actix_web::{dev::ServerHandle, web};
use anyhow::Context as _;
use arbiters::Arbiters;
use blackboard::{
    board::{Board, BoardConfig, Clock as BoardClock},
    client::{Backoff, Blackboard},
    store::{Shared, owned::Owned},
    wire::{Wire, WireLimits},
};
use late::Late;
use presence::Presence;
use protocol::{
    a2a::agent_policy::CallerSchemes,
    ids::AgentId,
    principal::Principal,
    problem::Reason,
    signal::Signal,
    signature::{Signer, Verifier},
    time::NodeTime,
};
use reach::Reach;
use registry::{
    client::Registry,
    registrar::{Clocks, Keeper, Publish},
};
use services::NotStarted;
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

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
    statuses: Vec<Arc<AgentStatus>>,
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
        let newest = engine::newest_time(owned(seat.id.as_str()).as_ref(), &seat.id);
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
    let services_known = Arc::new(services::Known::new(setup.registry.clone(), setup.board.clone(), &wire));
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

    let outside =
        OutboundClient::new(setup.outside.clone(), outbound_client::OutboundLimits::for_node(&setup.limits))
            .map_err(|error| anyhow::anyhow!("the client for the outside can't start: {error}"))?;
    let peers = Arc::new(Peers::default());
    let locals = Arc::new(Locals::default());
    let callers = Callers::new(&setup.callers);
    let schemes = CallerSchemes { needed: !setup.listen.is_loopback(), ..callers.schemes() };
    let mut arbiters = Arbiters::for_agents(setup.seats.len());
    let mut local = BTreeMap::new();
    let mut presences = Vec::new();
    for seat in &setup.seats {
        let address = agents.get(&seat.id).context("every seat has a listener")?;
        let card = Latest::new(setup::card(seat, setup.reach.endpoint(*address), &setup.limits));
        let me = Latest::new(PeerSummary {
            agent_id: seat.id.clone(),
            description: seat.description.clone(),
            skills: seat.skills.clone(),
        });
        let status = Arc::new(AgentStatus::default());
        let key = keys.get(&seat.id).context("every seat has a key")?.clone();
        let store = owned(seat.id.as_str());
        let transports = Transports {
            locals: locals.clone(),
            peers: peers.clone(),
            wire: signed(&seat.id, Reason::Overloaded),
            board: board_for(&seat.id),
            limits: limits.clone(),
            telemetry: setup.telemetry.clone(),
        };
        let wire = transports.wire.clone();
        let parts = AgentParts {
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
            transports,
            limits: limits.clone(),
            subscribe: seat.subscribe.clone(),
            auction: setup.auction.clone(),
            timeouts: setup.patience,
            telemetry: setup.telemetry.clone(),
            is_direct: seat.a2a.direct,
            status: status.clone(),
            fatal: Arc::new(die),
        };
        let actor = arbiters.start(parts);
        sweep_now_and_then(&actor, limits.sweep());
        if let Some(waits) = &seat.waits {
            status.set_waits_for(Some(waits.why.clone()));
        }
        let presence =
            registry_for(&seat.id).map(|registry| Presence::keep(registry, card.clone(), status.clone()));
        let nudge = presence.as_ref().map(Presence::nudge);
        presences.extend(presence);
        let seal = Seal::of(&key);
        let pusher = Pusher::new(seat.id.clone(), store.clone(), outside.clone(), seal).start();
        let interface = grpc.as_ref().map(|(_, address)| calls::interface(&setup, *address, &seat.id));
        let face = Latest::new(Face::new(&card.get(), seat.a2a.clone(), schemes, interface.clone(), &key));
        let outside = outside.clone();
        let (id, listed) = (seat.id.clone(), Listed::default());
        let one = HostedAgent { id, actor, store, wire, card, status, key, face, pusher, outside, listed };
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

    let statuses = local.values().map(|local| local.status.clone()).collect();
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
        setup.hooks.set_base_url(setup.reach.endpoint(*address));
    }
    let node = Node {
        by_port: listeners.iter().map(|(id, _, address)| (address.port(), id.clone())).collect(),
        readers,
        leaving: leaving.clone(),
        services: services_known.clone(),
        was_ready: Default::default(),
        checks: checks::checks(&setup, &board_for, &registry_for, &registry_id),
        agents: local,
        peers,
        locals,
        limits,
        clock,
        telemetry: setup.telemetry.clone(),
        looked: Looked {
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
        statuses,
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

fn sweep_now_and_then(actor: &Addr<AgentActor>, every: Duration) {
    let actor = actor.clone();
    actix::spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            if actor.send(StartRetentionSweep).await.is_err() {
                return;
            }
        }
    });
}

/// The store has failed: nothing more is acknowledged, and a restart recovers what is true.
fn die(why: &str) {
    tracing::error!("{why}");
    crate::telemetry::print_line(tracing::Level::ERROR, &format!("mesh: {why}"));
    std::process::exit(74);
}

#[cfg(test)]
mod tests;
