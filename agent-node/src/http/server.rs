//! One HTTP server: listeners, workers, the edge, and the routes that its caller adds.

mod error_response;
mod head_check;
mod shared_service;

pub(crate) use error_response::http2_required;
pub(super) mod connection;

use super::{edge::Edge, listener::ListenerAddress};
use actix_http::HttpService;
use actix_service::{ServiceFactoryExt, fn_service, map_config};
use actix_web::{
    App, HttpRequest,
    dev::{AppConfig, Server},
    rt::net::TcpStream,
    web,
};
use connection::MonitoredStream;
use protocol::problem::{Problem, Reason};
use shared_service::{ServerId, SharedServiceFactory};
use socket2::{SockRef, TcpKeepalive};
use std::{future::ready, net::TcpListener, time::Duration};
use transport::refusal::Refusal;

/// The shortest timeout: actix reads its clock every 500 ms, so a shorter one fires too early.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A server on `listeners`, behind `edge`, with the routes that `configure` adds. It runs when awaited and does not handle
/// signals. A handler is dropped when its client disconnects. `configure` runs once per worker.
pub fn server(
    listeners: Vec<TcpListener>,
    edge: Edge,
    configure: impl Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> std::io::Result<Server> {
    let (config, connections) = (edge.config().clone(), edge.connections().clone());
    let limits = &config.limits;
    let largest = limits.max_artifact_bytes.max(limits.max_body_bytes).max(limits.max_a2a_body_bytes);
    let user_timeout = config.tcp_user_timeout;
    let id = ServerId::new();
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
        .workers(config.workers)
        .max_concurrent_connections(config.connections.max_per_worker(config.workers))
        .disable_signals()
        .shutdown_timeout(config.shutdown.as_secs());
    let head = Duration::from_millis(config.limits.head_ms).max(MIN_TIMEOUT);
    let (idle, linger) = (config.keep_alive.max(MIN_TIMEOUT), config.linger.max(MIN_TIMEOUT));
    let shutdown = server.graceful_shutdown_signal();
    for listener in listeners {
        let (app, shutdown, connections) = (app.clone(), shutdown.clone(), connections.clone());
        let name = format!("http://{}", listener.local_addr()?);
        server = server.listen(name, listener, move || {
            let shutdown = shutdown.clone();
            let http = HttpService::build()
                .graceful_shutdown_signal(move || {
                    let shutdown = shutdown.clone();
                    async move { shutdown.notified().await }
                })
                .keep_alive(idle)
                .client_request_timeout(head)
                .client_disconnect_timeout(linger)
                .h1_allow_half_closed(false)
                .on_connect_ext(move |io: &MonitoredStream, connection| {
                    set_socket_options(io.socket(), user_timeout);
                    connection.insert(io.state());
                    io.socket().local_addr().ok().map(|address| connection.insert(ListenerAddress(address)));
                });
            let app = SharedServiceFactory::new(id, app.clone()).map_err(|error| error.error_response());
            let service = http.h1(map_config(app, |_| AppConfig::default())).map_err(drop).map_init_err(drop);
            let connections = connections.clone();
            let accept = fn_service(move |io: TcpStream| {
                let peer = io.peer_addr().ok();
                let admitted = peer.and_then(|peer| connections.admit(peer.ip()));
                // An error closes the connection.
                let admitted =
                    admitted.map(|admitted| (MonitoredStream::new(io, head, idle, admitted), peer));
                ready(admitted.ok_or(()))
            });
            accept.map_init_err(drop).and_then(service)
        })?;
    }
    Ok(server.run())
}

/// Sets `TCP_NODELAY`, and timeouts that detect a dead peer within seconds instead of hours.
pub(crate) fn set_socket_options(stream: &TcpStream, user_timeout: Duration) {
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
        tracing::debug!(%error, "TCP options can't be set on a connection");
    }
}

fn invalid(location: &str, error: &dyn std::fmt::Display) -> actix_web::Error {
    let text: String = error.to_string().chars().take(300).collect();
    Refusal(Problem::new(Reason::InvalidField, format!("{location}: {text}"))).into()
}

async fn no_route(request: HttpRequest) -> Result<&'static str, Refusal> {
    let path: String = request.path().chars().take(80).collect();
    Err(Problem::new(Reason::RouteNotFound, format!("nothing is at {path:?}")).into())
}
