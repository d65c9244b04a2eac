//! One HTTP server: listeners, workers, the edge, and whatever routes its caller joins to it.

mod joint;
mod last_words;

pub(crate) use last_words::no_http2;
pub(super) mod line;

use super::edge::Edge;
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
use protocol::problem::{Problem, Reason};
use socket2::{SockRef, TcpKeepalive};
use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

/// actix's own timers count from a clock that is read every 500 ms; shorter ones would fire before their time.
const CLOCK_STEP: Duration = Duration::from_secs(1);

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
