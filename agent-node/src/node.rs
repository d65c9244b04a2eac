//! The composition root of a node: store, registry, board, agents, and the HTTP server in front of them.

pub mod advertise;
mod agent_ports;
mod arbiter_pool;
mod board_publisher;
pub mod card_retry;
mod directory_sync;
mod foreign_agents;
mod grpc_port;
mod health_checks;
pub mod key_sync;
mod own_endpoints;
pub mod process;
mod public_urls;
mod registration;
mod reload;
mod replica;
mod setup;
mod shutdown;
mod taken_requests;
pub mod team_watch;
pub mod token_sync;
mod unreachable_reports;

pub use setup::{AgentSpec, NodeSetup};

use crate::{
    agent::{AgentActor, AgentParts, AgentStatus, StartRetentionSweep},
    artifacts::{ShownFiles, sweep_files},
    brain::{PeerSummary, exec::access::BrainAccess, session_work::SessionWork},
    callers::Callers,
    clock::NodeClock,
    http::{
        a2a::{self, facade::AgentFacade},
        console as console_routes,
        drain::DrainSignal,
        edge::{Auth, ConsoleSessions, Edge, HttpServerConfig},
        hosted_peer::HostedPeer,
        key_rotation::CardSigner,
        listener::own_url,
        mcp,
        mcp_endpoint::McpEndpoint,
        node_state::{HostedAgent, LocalServices, NodeState},
        openapi,
        registry_calls::RegistryCalls,
        routes,
        running_card::RunningCard,
        server::server,
    },
    inbox::LocalAgents,
    outbox::{
        Transports,
        a2a::remote_task_store::RemoteTaskStore,
        webhooks::{Pusher, inbox::InboxWebhook},
    },
    peers::Peers,
    schedules::{ScheduleParts, Schedules},
    services::{self, ServiceLocation},
    shared_cell::SharedCell,
    start_error::StartError,
    telemetry::Telemetry,
};
use actix::{Actor, Addr};
use actix_web::{dev::ServerHandle, web};
use advertise::AdvertiseConfig;
use anyhow::Context as _;
use arbiter_pool::ArbiterPool;
use blackboard::{
    board::{Board, BoardClock, BoardConfig, BoardStores},
    client::{Backoff, Blackboard},
};
use board_publisher::BoardPublisher;
use engine::settings::Quota;
use protocol::{
    a2a::agent_policy::CallerSchemes,
    card::Card,
    ids::AgentId,
    principal::Principal,
    problem::{Problem, Reason},
    time::NodeTime,
};
use registration::{OwnKeys, RegistrationTask};
use registry::{
    client::Registry,
    registrar::{Clocks, SupervisedRegistry},
};
use reload::{MakeSessionWork, ReloadableAgent, engine_config};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};
use store::{SharedStore, owned_store::OwnedStore};
use transport::http_client::{HttpClient, HttpClientLimits, Signer};
use transport::resource::registered;

/// A running process.
pub struct RunningNode {
    /// The address of the registry and the board, if they run here.
    pub services: Option<SocketAddr>,
    pub agents: BTreeMap<AgentId, SocketAddr>,
    /// The address of the gRPC listener, if there is one.
    pub grpc: Option<SocketAddr>,
    advertise: AdvertiseConfig,
    handle: ServerHandle,
    grpc_server: Option<grpc_port::GrpcServer>,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
    registrations: Vec<RegistrationTask>,
    statuses: Vec<Arc<AgentStatus>>,
    actors: Vec<Addr<AgentActor>>,
    arbiters: ArbiterPool,
    pushers: Vec<Addr<Pusher>>,
    reloadable: BTreeMap<AgentId, ReloadableAgent>,
    telemetry: Telemetry,
    drain: DrainSignal,
}

/// How long a start waits for the first snapshot of the directory.
const FIRST_SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts everything. Returns once it listens and every local agent is registered, or after [`FIRST_SNAPSHOT_TIMEOUT`].
pub async fn start(mut setup: NodeSetup) -> anyhow::Result<RunningNode> {
    let public_urls = public_urls::give(&mut setup)?;
    let limits = Arc::new(setup.mesh.limits.clone());
    let keys = setup.own_keys()?;
    let has_services =
        setup.registry == Some(ServiceLocation::Local) || setup.board == ServiceLocation::Local;
    let services = has_services.then(|| listen(setup.listen, setup.port)).transpose()?;
    let grpc = grpc_port::listen(&setup)?;
    let first_agent_port = match setup.port {
        0 => 0,
        port => port.saturating_add(u16::from(has_services)),
    };
    let listeners = agent_ports::listen(setup.listen, first_agent_port, &setup.agents)?;
    let agents: BTreeMap<_, _> = listeners.iter().map(|(id, _, address)| (id.clone(), *address)).collect();

    let owned = |owner: &str| -> SharedStore { Arc::new(OwnedStore::new(setup.store.clone(), owner)) };
    let mut base = NodeTime::default();
    for spec in &setup.agents {
        let newest = engine::newest_time(owned(spec.id.as_str()).as_ref(), &spec.id);
        base = base.max(newest.with_context(|| format!("the journal of {} can't be read", spec.id))?);
    }
    let clock = NodeClock::starting_at(base);
    let wire = HttpClient::new(None, HttpClientLimits::default())
        .map_err(|problem| anyhow::anyhow!(problem.message))?;
    let signed = |id: &AgentId, away: Reason| {
        wire.signing_as(Signer { keys: keys.clone(), me: id.clone() }).with_unreachable_reason(away)
    };

    let cannot_start =
        |service| move |problem: Problem| StartError::ServiceStore { service, why: problem.message };
    let board_here = match setup.board {
        ServiceLocation::Local => {
            let config = BoardConfig {
                max_signal_bytes: setup.mesh.limits.max_signal_bytes,
                keep_ms: setup.mesh.limits.keep_signals_ms,
                keep_bytes: setup.mesh.limits.keep_signal_bytes,
                keep_entries_ms: setup.mesh.limits.keep_entries_ms,
                keep_entry_changes_ms: setup.mesh.limits.keep_entry_changes_ms,
                keep_session_entries_ms: setup.mesh.limits.keep_tasks_ms,
                max_entries_per_author: setup.mesh.limits.max_entries_per_author,
                ..setup.mesh.board.clone()
            };
            let signals = owned("board");
            let spaces = setup
                .space_store
                .clone()
                .map_or_else(|| signals.clone(), |store| Arc::new(OwnedStore::new(store, "board")));
            let started = Board::start(
                BoardStores { signals, spaces },
                config,
                BoardClock::new(move || clock.node(), move || clock.wall()),
            );
            Some(started.map_err(cannot_start("blackboard"))?)
        }
        ServiceLocation::Remote(_) | ServiceLocation::FromRegistry => None,
    };
    let service_locator =
        Arc::new(services::ServiceLocator::new(setup.registry.clone(), setup.board.clone(), &wire));
    let board_for = |id: &AgentId| match (&board_here, &setup.board) {
        (Some(board), _) => Blackboard::local(board.clone()),
        (None, ServiceLocation::Remote(_) | ServiceLocation::FromRegistry) => {
            let wire = signed(id, Reason::BlackboardUnavailable);
            Blackboard::remote(service_locator.board_base(), move |_| wire.clone(), Backoff::default())
        }
        (None, ServiceLocation::Local) => unreachable!("a local board has started"),
    };
    let registry_id = AgentId::parse("registry")?;
    let registry_actor = match setup.registry {
        Some(ServiceLocation::Local) => {
            let publisher =
                BoardPublisher(board_for(&registry_id), Principal::of_signer(registry_id.clone()));
            let clocks =
                Clocks { node: Arc::new(move || clock.node()), wall: Arc::new(move || clock.wall()) };
            let (config, store) = (setup.mesh.registry.clone(), owned("registry"));
            let started = SupervisedRegistry::start(config, store, Arc::new(publisher), clocks, keys.clone());
            Some(started.map_err(cannot_start("registry"))?)
        }
        Some(ServiceLocation::Remote(_) | ServiceLocation::FromRegistry) | None => None,
    };
    let registry_for = |id: &AgentId| match (&registry_actor, &setup.registry) {
        (Some(actor), _) => Some(Registry::local(actor.clone())),
        (None, Some(ServiceLocation::Remote(url))) => {
            Some(Registry::remote(url, signed(id, Reason::RegistryUnavailable)))
        }
        (None, _) => None,
    };

    let first_agent = setup.agents.first().map_or(&registry_id, |spec| &spec.id);
    service_locator.check_join_secret(registry_for(first_agent), board_for(first_agent)).await?;

    let own_keys = OwnKeys { keys: keys.clone(), key_files: setup.keys.clone() };
    let introductions = setup.agents.iter().filter_map(|spec| {
        let (own_keys, registry) = (&own_keys, registry_for(&spec.id)?);
        Some(async move { own_keys.introduce(&spec.id, &registry).await })
    });
    futures_util::future::try_join_all(introductions).await?;

    let wires = (
        signed(first_agent, Reason::RegistryUnavailable),
        signed(&registry_id, Reason::BlackboardUnavailable),
    );
    let as_registry = wires.1.clone();
    token_sync::start(setup.registry.as_ref(), &service_locator, wires, &setup.tokens);
    let registry_client = (setup.registry.as_ref(), registry_for(first_agent));
    let keys_wake = key_sync::start(registry_client, &service_locator, as_registry, &keys);

    let outside = &setup.outside;
    // Whoever is the local user of a mesh that only this machine reaches can call this machine without it.
    let callbacks = match setup.listen.is_loopback() {
        true => outside.with_loopback()?,
        false => outside.clone(),
    };
    let peers = Arc::new(Peers::default());
    let locals = Arc::new(LocalAgents::default());
    let callers = Callers::new(&setup.mesh.callers);
    let schemes = CallerSchemes { needed: !setup.listen.is_loopback(), ..callers.schemes() };
    let mut arbiters = ArbiterPool::for_agents(setup.agents.len());
    let mut local = BTreeMap::new();
    let mut registrations = Vec::new();
    let mut reloadable = BTreeMap::new();
    let mesh_quotas: Arc<[Quota]> = setup.mesh.quotas.clone().into();
    for spec in &setup.agents {
        let address = agents.get(&spec.id).context("every agent has a listener")?;
        let endpoint = setup.advertise.endpoint(*address);
        let card = SharedCell::new(Card {
            waits_for: spec.waits_for(),
            ..spec.settings.card(spec.id.clone(), endpoint, setup.mesh.limits.clone())
        });
        let me = SharedCell::new(PeerSummary::from(card.get().as_ref()));
        let status = Arc::new(AgentStatus::default());
        let key = keys.own_signing_key(spec.id.as_str()).context("every agent has a key")?;
        let store = owned(spec.id.as_str());
        let transports = Transports {
            locals: locals.clone(),
            peers: peers.clone(),
            wire: signed(&spec.id, Reason::RecipientUnreachable),
            board: board_for(&spec.id),
            limits: limits.clone(),
            telemetry: setup.telemetry.clone(),
            sent: status.sent.clone(),
            store: store.clone(),
            clock,
        };
        let wire = transports.wire.clone();
        let (keyring, hooks, host) = (
            setup.mesh.keyring.clone(),
            setup.hooks.clone(),
            RemoteTaskStore::of_host(spec.id.clone(), store.clone()),
        );
        let (of_sessions, shown_me) = (outside.clone(), me.clone());
        let session_work: MakeSessionWork = Arc::new(move |spec: &AgentSpec| {
            Arc::new(SessionWork::new(
                of_sessions.clone(),
                keyring.clone(),
                hooks.clone(),
                host.clone(),
                shown_me.clone(),
                spec.brain.clone(),
                spec.workspaces.0.clone(),
            ))
        });
        let parts = AgentParts {
            config: engine_config(spec, card.get(), (&limits, &setup.mesh.auction, &mesh_quotas)),
            brain: spec.brain.clone(),
            checker: Arc::new(spec.acceptance.checker.clone()),
            session_work: session_work(spec),
            workspaces: spec.workspaces.1.clone(),
            store: store.clone(),
            clock,
            transports,
            telemetry: setup.telemetry.clone(),
            status: status.clone(),
            fatal: Arc::new(exit_on_store_failure),
        };
        let issuer = spec.settings.a2a.base_url(&card.get()).to_owned();
        let access = BrainAccess::new(own_url(*address)).signing(keys.clone(), issuer);
        setup.tokens.add_brain(access.digest(), spec.id.clone());
        drop(spec.access.set(access.clone()));
        let actor = arbiters.start(parts);
        spawn_sweep_timer(&actor, &limits, (store.clone(), spec.id.clone()));
        status.set_waits_for(spec.waits_for());
        status.set_brain(spec.brain.clone());
        if let Some(digest) = setup.keys.peer_token(&spec.id)?.filter(|_| spec.peer.is_some()) {
            setup.tokens.set_peer(digest, spec.id.clone());
        }
        let schedules = ScheduleParts {
            me: spec.id.clone(),
            store: store.clone(),
            inbox: actor.clone().recipient(),
            status: status.clone(),
            clock,
            callers: callers.clone(),
            ack: limits.ack(),
        };
        let schedules = Schedules::start(schedules, &spec.schedules).await;
        let schedules = schedules.with_context(|| format!("the schedules of {} can't be read", spec.id))?;
        let registry = registry_for(&spec.id);
        let seal = setup.keys.seal(&spec.id, &key)?;
        let clients = (outside.clone(), callbacks.clone());
        let files = ShownFiles::new(&store, &spec.id, spec.settings.a2a.base_url(&card.get()));
        let pusher = Pusher::new(files, clients, seal.clone()).start();
        if let Some(url) = &setup.mesh.inbox_webhook {
            let webhook = InboxWebhook::new(url.clone(), outside.clone(), setup.telemetry.capture().clone());
            webhook.follow(spec.id.clone(), store.clone(), spec.settings.a2a.base_url(&card.get()));
        }
        let interface = grpc.as_ref().and_then(|(_, address)| grpc_port::interface(&setup, *address, spec));
        let facade = SharedCell::new(AgentFacade::new(
            &card.get(),
            spec.settings.a2a.clone(),
            schemes,
            interface.clone(),
            &key,
        ));
        let outside = outside.clone();
        let (id, key) = (spec.id.clone(), SharedCell::new(key));
        let registration = registry.clone().map(|registry| {
            let card_signer = CardSigner { key: key.clone(), facade: facade.clone() };
            let status = (status.clone(), clock);
            RegistrationTask::spawn(registry, card.clone(), status, own_keys.clone(), card_signer)
        });
        let wake = registration.as_ref().map(RegistrationTask::wake_signal);
        registrations.extend(registration);
        let running_card = RunningCard {
            actor: actor.clone(),
            card: card.clone(),
            status: status.clone(),
            key: key.clone(),
            facade: facade.clone(),
            me,
            schemes,
            interface,
            wake,
        };
        let (limits, auction) = (limits.clone(), setup.mesh.auction.clone());
        let (card, actor) = (running_card.card.clone(), running_card.actor.clone());
        let running = ReloadableAgent {
            card: running_card.clone(),
            access,
            limits,
            auction,
            mesh_quotas: mesh_quotas.clone(),
            session_work,
        };
        reloadable.insert(spec.id.clone(), running);
        let peer = match (&spec.peer, &spec.pending_card) {
            (Some(brain), _) => Some(HostedPeer::start(brain.clone(), spec.settings.clone(), running_card)),
            (None, Some(pending)) => {
                card_retry::spawn(pending.clone(), spec.settings.clone(), running_card);
                None
            }
            (None, None) => None,
        };
        let hosted = HostedAgent {
            id,
            actor,
            store,
            wire,
            card,
            status,
            key,
            seal,
            registry,
            board: board_for(&spec.id),
            facade,
            pusher,
            outside,
            callbacks: callbacks.clone(),
            schedules,
            triggers: spec.triggers.clone(),
            peer,
        };
        local.insert(spec.id.clone(), hosted);
    }
    if let Some(first) = setup.agents.first()
        && let Some(registry) = registry_for(&first.id)
    {
        let grace_period = setup.mesh.registry.grace_period();
        directory_sync::spawn(registry, peers.clone(), (keys.clone(), keys_wake), grace_period);
        let registries = local.keys().filter_map(|id| Some((id.clone(), registry_for(id)?))).collect();
        unreachable_reports::spawn(
            registries,
            &peers,
            Duration::from_millis(setup.mesh.registry.heartbeat_ms),
        );
        let ids: Vec<_> = agents.keys().cloned().collect();
        peers.wait_for_agents(&ids, FIRST_SNAPSHOT_TIMEOUT).await;
    }

    let statuses = local.values().map(|local| local.status.clone()).collect();
    let actors = local.values().map(|local| local.actor.clone()).collect();
    let pushers = local.values().map(|local| local.pusher.clone()).collect();
    let console = ConsoleSessions::default();
    let auth = Auth::new(keys.clone())
        .with_local_callers(setup.advertise.callers())
        .with_metrics_callers(setup.advertise.metrics_callers())
        .with_trusted_proxies(setup.advertise.trusted_proxies())
        .with_public_urls(public_urls.clone())
        .with_callers(callers)
        .with_tokens(setup.tokens.clone())
        .with_console(console.clone())
        .with_taken_requests(taken_requests::open(setup.requests.as_deref())?);
    let telemetry = Some(setup.telemetry.clone());
    let server_config = HttpServerConfig {
        spool: Some(setup.store.blobs()),
        hosts: setup.advertise.names(setup.listen, &public_urls),
        origins: setup.advertise.origins.clone(),
        telemetry,
        shutdown: shutdown::RESPONSE_TIMEOUT,
        ..HttpServerConfig::new(setup.mesh.limits.clone(), auth)
    };
    let (streams, drain) = (server_config.streams.clone(), server_config.drain.clone());
    let edge = Edge::new(server_config);
    let own_addresses: Vec<_> = agents
        .values()
        .chain(services.iter().map(|(_, address)| address))
        .chain(grpc.iter().map(|(_, address)| address))
        .copied()
        .collect();
    outside.refuse_endpoints(own_endpoints::of_mesh(
        (&setup.advertise, &public_urls),
        own_addresses,
        peers.clone(),
        service_locator.clone(),
    ));
    if let Some((_, _, address)) = listeners.first() {
        let public = setup.agents.first().and_then(|first| first.settings.a2a.public_url.clone());
        setup.hooks.set_base_url(public.unwrap_or_else(|| setup.advertise.endpoint(*address)));
    }
    let registry_calls = registry_actor.as_ref().map(|_| signed(&registry_id, Reason::RecipientUnreachable));
    let board_elsewhere = board_here.is_none().then(|| {
        let wire = signed(&registry_id, Reason::BlackboardUnavailable);
        Blackboard::remote(service_locator.board_base(), move |by| wire.acting_for(by), Backoff::default())
    });
    let node = NodeState {
        by_port: listeners.iter().map(|(id, _, address)| (address.port(), id.clone())).collect(),
        connections: edge.connections().clone(),
        artifact_quota: Default::default(),
        streams,
        tokens: setup.tokens.clone(),
        console,
        bulk_runs: Default::default(),
        registry_calls: registry_calls.map(|wire| RegistryCalls::new(wire, board_elsewhere)),
        public_urls,
        approvers: setup.mesh.approvers.clone(),
        keys: keys.clone(),
        key_files: setup.keys.clone(),
        rotation: Default::default(),
        told_cursor: Default::default(),
        registry: registry_actor.clone(),
        drain: drain.clone(),
        services: service_locator.clone(),
        openapi: Default::default(),
        was_ready: Default::default(),
        checks: health_checks::checks(&setup, &board_for, &registry_for, &registry_id),
        agents: local,
        peers,
        locals,
        limits,
        clock,
        telemetry: setup.telemetry.clone(),
        local_services: LocalServices {
            board: board_here.clone(),
            registry: registry_actor.clone().map(Registry::local),
            store: setup.gauge.clone(),
            stores: [Some(&setup.store), setup.space_store.as_ref()].into_iter().flatten().cloned().collect(),
        },
        hooks: setup.hooks.clone(),
        logins: setup.logins.clone(),
        mcp: McpEndpoint::new(&setup.mesh.limits).map_err(|problem| anyhow::anyhow!(problem.message))?,
    };
    let has_agents = !node.agents.is_empty();
    let data = web::Data::new(node);
    let document_of = data.clone();
    let (grpc, grpc_server) = match (grpc, setup.agents.first()) {
        (Some((listener, address)), Some(first)) => {
            let server = grpc_port::GrpcServer::start(
                listener,
                data.clone().into_inner(),
                edge.clone(),
                first.id.clone(),
            );
            (Some(address), Some(server.context("gRPC can't start")?))
        }
        (_, _) => (None, None),
    };
    let (registry_service, board_service) = (registry_actor.clone(), board_here.clone());
    let configure = move |config: &mut web::ServiceConfig| {
        config.app_data(data.clone());
        // Routes are tried in order, so the most frequent ones come first.
        if has_agents {
            config.configure(routes::messages).configure(a2a::rpc);
        }
        config.configure(routes::process).configure(console_routes::routes);
        if has_agents {
            config.configure(routes::agents).configure(a2a::routes).configure(mcp::routes);
        }
        if let Some(registry) = &registry_service {
            config
                .app_data(web::Data::new(registry.clone()))
                .configure(registry::http::routes)
                .configure(routes::registry_secrets);
        }
        if let Some(board) = &board_service {
            config
                .app_data(web::Data::new(board.clone()))
                .configure(blackboard::http::routes)
                .configure(routes::board_secrets);
        }
    };
    let served = openapi::all_routes(registered(configure.clone()));
    drop(document_of.openapi.set(openapi::document(&served)));
    if setup.telemetry.metric_interval().is_some() {
        let node = document_of.clone();
        actix::spawn(async move { routes::metrics::send_at_intervals(&node).await });
    }
    let advertise = setup.advertise;
    let services_address = services.as_ref().map(|(_, address)| *address);
    let sockets = services.into_iter().map(|(listener, _)| listener);
    let sockets = sockets.chain(listeners.into_iter().map(|(_, listener, _)| listener)).collect();
    let server = server(sockets, edge, configure).context("the server can't start")?;
    let handle = server.handle();
    let server = actix::spawn(server);
    let telemetry = setup.telemetry.clone();
    Ok(RunningNode {
        services: services_address,
        agents,
        grpc,
        advertise,
        handle,
        grpc_server,
        server,
        registrations,
        statuses,
        actors,
        arbiters,
        pushers,
        reloadable,
        telemetry,
        drain,
    })
}

impl RunningNode {
    /// The agent of `spec` goes on as that says. Fails if it does not run here.
    pub(crate) async fn reload(&self, spec: &AgentSpec) -> anyhow::Result<()> {
        let running =
            self.reloadable.get(&spec.id).with_context(|| format!("{} does not run here", spec.id))?;
        running.replace(spec).await.with_context(|| format!("{} has stopped", spec.id))
    }
}

fn listen(ip: IpAddr, port: u16) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((ip, port)).map_err(|source| StartError::Port { ip, port, source })?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn spawn_sweep_timer(
    actor: &Addr<AgentActor>,
    limits: &protocol::limits::Limits,
    (store, id): (SharedStore, AgentId),
) {
    let (actor, interval, keep) = (actor.clone(), limits.sweep(), limits.keep_artifacts());
    actix::spawn(async move {
        loop {
            tokio::time::sleep(interval).await;
            sweep_files(store.as_ref(), &id, keep).await;
            if actor.send(StartRetentionSweep).await.is_err() {
                return;
            }
        }
    });
}

/// Ends the process after a failure of the store; a restart recovers the durable state.
fn exit_on_store_failure(why: &str) {
    tracing::error!("{why}");
    crate::telemetry::print_line(tracing::Level::ERROR, &format!("mesh: {why}"));
    std::process::exit(74);
}

#[cfg(test)]
mod tests;
