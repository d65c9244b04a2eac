//! The port: accepts connections, speaks HTTP/2 on each, and ends all of them when the node drains.
//!
//! hyper serves the connections instead of `tonic::transport::Server`, which has neither a time limit for a connection's
//! first bytes nor an answer for a client that speaks HTTP/1. The node promises both.

use super::{
    call::{CallContext, answer, drains},
    frame_limit::FrameLimit,
};
use crate::http::{
    connections::ConnectionGuard,
    edge::Edge,
    node_state::NodeState,
    server::{http2_required, set_socket_options},
};
use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use protocol::{
    a2a::limits::{MAX_GRPC_CALLS, MAX_GRPC_HEAD},
    ids::AgentId,
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    sync::watch,
    time::timeout,
};

/// The first bytes of a client that speaks HTTP/2 (RFC 9113 §3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Threads that serve calls: hyper's services must be `Send`, and actix's threads run what is not.
const THREADS: usize = 2;
/// Flow-control window: bytes that may be on their way before they are read.
const WINDOW: u32 = 512 * 1024;
/// Interval and timeout of keep-alive pings.
const PING: Duration = Duration::from_secs(15);
/// Pause after an accept failed, which means that the process is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The gRPC server of a node.
pub struct GrpcServer {
    draining: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

impl GrpcServer {
    /// Serves calls on `listener` for the agents of `node`, behind its `edge`; a call without a tenant is for `first`.
    pub fn start(
        listener: std::net::TcpListener,
        node: Arc<NodeState>,
        edge: Edge,
        first: AgentId,
    ) -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("grpc").enable_all().build()?;
        listener.set_nonblocking(true)?;
        let (draining, receiver) = watch::channel(false);
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let context = CallContext { node, edge, first, draining: receiver };
        runtime.spawn(accept(listener, context));
        Ok(Self { draining, runtime: Some(runtime) })
    }

    /// Accepts no more calls, ends the streams, and waits for open calls for up to `grace`.
    pub async fn stop(self, grace: Duration) {
        self.draining.send_replace(true);
        if timeout(grace, self.draining.closed()).await.is_err() {
            tracing::debug!("calls were cut off at the end of the grace period");
        }
    }
}

impl Drop for GrpcServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, mut context: CallContext) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drains(&mut context.draining) => return,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection can't be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(admitted) = context.edge.connections().admit(peer.ip()) else {
            tracing::debug!(%peer, "the limit of connections is reached; a new one is closed");
            continue;
        };
        let context = context.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(socket, peer, Arc::new(admitted), context).await {
                tracing::debug!(%error, %peer, "a connection ended");
            }
        });
    }
}

async fn serve(
    mut socket: TcpStream,
    peer: SocketAddr,
    admitted: Arc<ConnectionGuard>,
    context: CallContext,
) -> Result<(), hyper::Error> {
    set_socket_options(&socket, context.edge.config().tcp_user_timeout);
    let head = Duration::from_millis(context.edge.config().limits.head_ms);
    if !matches!(timeout(head, reads_preface(&mut socket)).await, Ok(Ok(true))) {
        // The peer may be gone; it is closed either way.
        let _ = timeout(head, refuse(socket)).await;
        return Ok(());
    }
    let from: IpAddr = peer.ip();
    let mut draining = context.draining.clone();
    let (idle, open) = (context.edge.config().keep_alive, admitted.connection().clone());
    let (rest, answers) = socket.into_split();
    let io = TokioIo::new(tokio::io::join(PREFACE.chain(FrameLimit::new(rest)), answers));
    let service = service_fn(move |request| answer(context.clone(), from, admitted.clone(), request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_GRPC_CALLS as u32)
        .max_header_list_size(MAX_GRPC_HEAD as u32)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = &mut connection => return ended,
        () = open.evicted() => return Ok(()),
        () = open.idle(idle) => connection.as_mut().graceful_shutdown(),
        () = drains(&mut draining) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        ended = connection => ended,
        () = open.evicted() => Ok(()),
    }
}

/// Writes the refusal and reads until the peer closes: closing with unread input would reset the connection and lose the
/// answer.
async fn refuse(mut socket: TcpStream) -> io::Result<()> {
    socket.write_all(&http2_required()).await?;
    socket.shutdown().await?;
    tokio::io::copy(&mut socket, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Whether the peer's first bytes are the preface of HTTP/2.
async fn reads_preface(socket: &mut TcpStream) -> io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    let mut length = 0;
    while length < first.len() {
        let read = socket.read(&mut first[length..]).await?;
        length += read;
        if read == 0 || first[..length] != PREFACE[..length] {
            return Ok(false);
        }
    }
    Ok(true)
}
