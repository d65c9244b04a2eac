//! The port: connections come in, each speaks HTTP/2, and all end when the node leaves.

use super::gate::{self, Door};
use crate::http::{
    edge::Edge,
    routes::Node,
    server::{no_http2, watch_peer},
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
    sync::{Semaphore, watch},
    time::timeout,
};

/// What a client that speaks HTTP/2 says first (RFC 9113 §3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Threads that serve calls: actix has its own, which take nothing that moves between threads.
const THREADS: usize = 2;
/// How much of a message may be on its way before it is read.
const WINDOW: u32 = 512 * 1024;
/// How often a peer is asked whether it is still there, and how long it may take to say so.
const PING: Duration = Duration::from_secs(15);
/// How long nobody is let in after the system had nothing left to let them in with.
const BREATH: Duration = Duration::from_millis(100);

/// A node's gRPC at work.
pub struct Server {
    leaving: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

impl Server {
    /// Takes calls from `listener` for the agents of `node`, behind its `edge`; for `first` where none is named.
    pub fn start(
        listener: std::net::TcpListener,
        node: Arc<Node>,
        edge: Edge,
        first: AgentId,
    ) -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("grpc").enable_all().build()?;
        listener.set_nonblocking(true)?;
        let (leaving, hears) = watch::channel(false);
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let door = Door { node, edge, first, leaving: hears };
        runtime.spawn(accept(listener, door));
        Ok(Self { leaving, runtime: Some(runtime) })
    }

    /// Takes nothing more, ends the streams, and lets calls finish for as long as `patience`.
    pub async fn stop(self, patience: Duration) {
        self.leaving.send_replace(true);
        if timeout(patience, self.leaving.closed()).await.is_err() {
            tracing::debug!("calls were cut off: the node leaves");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(listener: TcpListener, mut door: Door) {
    let front = door.edge.front();
    let places = Arc::new(Semaphore::new(front.workers * front.max_connections));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = gate::leaves(&mut door.leaving) => return,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection can't be taken");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!("as many connections as there may be: one more is closed");
            continue;
        };
        let door = door.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(socket, peer, door).await {
                tracing::debug!(%error, %peer, "a connection ended");
            }
            drop(place);
        });
    }
}

async fn serve(mut socket: TcpStream, peer: SocketAddr, door: Door) -> Result<(), hyper::Error> {
    watch_peer(&socket, door.edge.front().tcp_user_timeout);
    let head = Duration::from_millis(door.edge.front().limits.head_ms);
    if !matches!(timeout(head, greeted(&mut socket)).await, Ok(Ok(true))) {
        // Whether it is heard is the peer's business.
        let _ = timeout(head, turn_away(socket)).await;
        return Ok(());
    }
    let from: IpAddr = peer.ip();
    let mut leaving = door.leaving.clone();
    let (rest, answers) = socket.into_split();
    let io = TokioIo::new(tokio::io::join(PREFACE.chain(rest), answers));
    let service = service_fn(move |request| gate::answer(door.clone(), from, request));
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
        () = gate::leaves(&mut leaving) => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// Says why not, and listens until the peer has heard it: closing on what is unread would take the words back.
async fn turn_away(mut socket: TcpStream) -> io::Result<()> {
    socket.write_all(&no_http2()).await?;
    socket.shutdown().await?;
    tokio::io::copy(&mut socket, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Whether the peer begins as one that speaks HTTP/2.
async fn greeted(socket: &mut TcpStream) -> io::Result<bool> {
    let mut heard = [0; PREFACE.len()];
    let mut so_far = 0;
    while so_far < heard.len() {
        let read = socket.read(&mut heard[so_far..]).await?;
        so_far += read;
        if read == 0 || heard[..so_far] != PREFACE[..so_far] {
            return Ok(false);
        }
    }
    Ok(true)
}
