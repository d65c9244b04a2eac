//! One HTTP server: listeners, workers, the edge, and whatever routes its caller joins to it.

mod joint;
mod last_words;

#[cfg(feature = "grpc")]
pub(crate) use last_words::no_http2;
pub(super) mod line;

use super::{
    edge::{Auth, Edge, Readers},
    leaving::Leaving,
};
use crate::telemetry::Telemetry;
use actix_http::HttpService;
use actix_service::{ServiceFactoryExt, fn_service, map_config};
use actix_web::{
    App, HttpRequest,
    dev::{AppConfig, Server},
    rt::net::TcpStream,
    web,
};
use blackboard::refusal::Refusal;
use joint::{Group, Joint};
use line::Watched;
use protocol::{
    limits::Limits,
    problem::{Problem, Reason},
};
use socket2::{SockRef, TcpKeepalive};
use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

/// actix's own timers count from a clock that is read every 500 ms; shorter ones would fire before their time.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// How a node faces the world.
#[derive(Debug, Clone)]
pub struct Front {
    /// What it takes. A rate of 0 is no limit.
    pub limits: Limits,
    /// Whom it believes.
    pub auth: Auth,
    /// Who reads how many streams.
    pub readers: Arc<Readers>,
    /// What ends the streams when the node leaves.
    pub leaving: Leaving,
    /// Names it goes by in `Host`, beside this machine's own.
    pub hosts: Vec<String>,
    /// Where refusals are counted.
    pub meters: Option<Telemetry>,
    /// Threads that serve.
    pub workers: usize,
    /// Connections at once, per worker.
    pub max_connections: usize,
    /// Memory that bodies which come in pieces may take together, bytes.
    pub max_buffered_bytes: usize,
    /// How long a body may take before it must have come at [`Front::min_body_rate`].
    pub body_grace: Duration,
    /// The slowest a body may come, bytes a second.
    pub min_body_rate: u64,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    /// How long a refused sender is listened to before its connection closes.
    pub linger: Duration,
    /// How long sent bytes may stay unacknowledged.
    pub tcp_user_timeout: Duration,
    /// How long requests in flight may take when the server stops.
    pub shutdown: Duration,
}

impl Front {
    /// The usual front for these limits.
    pub fn new(limits: Limits, auth: Auth) -> Self {
        Self {
            readers: Readers::new(limits.max_readers_per_principal),
            limits,
            auth,
            leaving: Leaving::default(),
            hosts: Vec::new(),
            meters: None,
            workers: 2,
            max_connections: 10_000,
            max_buffered_bytes: 64 * 1024 * 1024,
            body_grace: Duration::from_secs(5),
            min_body_rate: 1024,
            keep_alive: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            tcp_user_timeout: Duration::from_secs(20),
            shutdown: Duration::from_secs(25),
        }
    }
}

/// A server on `listeners`, behind `edge`, with the routes that `configure` adds. It runs when awaited and leaves signals
/// alone. A handler whose client is gone is dropped. `configure` runs once per worker.
pub fn server(
    listeners: Vec<TcpListener>,
    edge: Edge,
    configure: impl Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> std::io::Result<Server> {
    let front = edge.front().clone();
    let largest = front.limits.max_artifact_bytes.max(front.limits.max_body_bytes);
    let user_timeout = front.tcp_user_timeout;
    let group = Group::new();
    let app = move || {
        App::new()
            .app_data(web::PayloadConfig::new(largest))
            .app_data(web::PathConfig::default().error_handler(|error, _| invalid("path", &error)))
            .app_data(web::QueryConfig::default().error_handler(|error, _| invalid("query", &error)))
            .configure(configure.clone())
            .default_service(web::to(no_route))
            .wrap(edge.clone())
    };
    let mut server = Server::build()
        .workers(front.workers)
        .max_concurrent_connections(front.max_connections)
        .disable_signals()
        .shutdown_timeout(front.shutdown.as_secs());
    let head = Duration::from_millis(front.limits.head_ms).max(CLOCK_STEP);
    let (idle, linger) = (front.keep_alive.max(CLOCK_STEP), front.linger.max(CLOCK_STEP));
    let leaving = server.graceful_shutdown_signal();
    for listener in listeners {
        let (app, leaving) = (app.clone(), leaving.clone());
        let name = format!("http://{}", listener.local_addr()?);
        server = server.listen(name, listener, move || {
            let leaving = leaving.clone();
            let http = HttpService::build()
                .graceful_shutdown_signal(move || {
                    let leaving = leaving.clone();
                    async move { leaving.notified().await }
                })
                .keep_alive(idle)
                .client_request_timeout(head)
                .client_disconnect_timeout(linger)
                .h1_allow_half_closed(false)
                .on_connect_ext(move |io: &Watched, connection| {
                    watch_peer(io.socket(), user_timeout);
                    connection.insert(io.line());
                    io.socket().local_addr().ok().map(|address| connection.insert(Door(address)));
                });
            let app = Joint::new(group, app.clone()).map_err(|error| error.error_response());
            let served = http.h1(map_config(app, |_| AppConfig::default())).map_err(drop).map_init_err(drop);
            let watched = fn_service(move |io: TcpStream| async move {
                let peer = io.peer_addr().ok();
                Ok::<_, ()>((Watched::new(io, head, idle), peer))
            });
            watched.map_init_err(drop).and_then(served)
        })?;
    }
    Ok(server.run())
}

/// Which of a server's sockets a connection came in at.
#[derive(Debug, Clone, Copy)]
pub struct Door(pub SocketAddr);

/// Makes the kernel notice a peer that is gone, within seconds instead of hours.
pub(crate) fn watch_peer(stream: &TcpStream, user_timeout: Duration) {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    let set = socket
        .set_tcp_keepalive(&keepalive)
        .and_then(|()| socket.set_tcp_user_timeout(Some(user_timeout)))
        .and_then(|()| socket.set_tcp_nodelay(true));
    if let Err(error) = set {
        tracing::debug!(%error, "a connection goes without keepalive");
    }
}

fn invalid(place: &str, error: &dyn std::fmt::Display) -> actix_web::Error {
    let said: String = error.to_string().chars().take(300).collect();
    Refusal(Problem::new(Reason::InvalidField, format!("{place}: {said}"))).into()
}

async fn no_route(request: HttpRequest) -> Result<&'static str, Refusal> {
    let path: String = request.path().chars().take(80).collect();
    Err(Problem::new(Reason::RouteNotFound, format!("nothing is at {path:?}")).into())
}
