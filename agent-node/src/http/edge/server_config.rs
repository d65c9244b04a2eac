//! Configuration of an HTTP server.

use super::{identity::Auth, origin::BrowserOrigin, stream_limit::StreamLimit};
use crate::{
    http::{connections::ConnectionLimits, drain::DrainSignal},
    telemetry::Telemetry,
};
use protocol::limits::Limits;
use std::time::Duration;
use store::SharedBlobs;

/// The settings of one HTTP server and its edge.
#[derive(Clone)]
pub struct HttpServerConfig {
    /// Limits of requests. A rate of 0 means no limit.
    pub limits: Limits,
    pub auth: Auth,
    /// The limit of open streams per principal.
    pub streams: StreamLimit,
    /// Ends event streams when the node drains.
    pub drain: DrainSignal,
    /// Names accepted in `Host`, beside this machine's own.
    pub hosts: Vec<String>,
    /// Origins of web pages whose requests are taken. They need a credential.
    pub origins: Vec<BrowserOrigin>,
    pub telemetry: Option<Telemetry>,
    /// Number of worker threads.
    pub workers: usize,
    pub connections: ConnectionLimits,
    /// Memory for the bodies of authenticated requests that arrive in several chunks, bytes.
    pub max_buffered_bytes: usize,
    /// How much of that one caller may use.
    pub max_buffered_bytes_per_caller: usize,
    /// The same for requests that need no credential.
    pub max_unproven_bytes: usize,
    /// How much of that one address may use.
    pub max_unproven_bytes_per_address: usize,
    /// Where the files of A2A messages are written as they arrive; without it such a body is as large as any other message.
    pub spool: Option<SharedBlobs>,
    /// Disk for files that are on their way, bytes.
    pub max_spooled_bytes: usize,
    /// How much of that one caller may use.
    pub max_spooled_bytes_per_caller: usize,
    /// How long a body may take before [`HttpServerConfig::min_body_rate`] applies.
    pub body_grace: Duration,
    /// The minimum average speed of a body, bytes per second.
    pub min_body_rate: u64,
    /// How long an idle connection is kept.
    pub keep_alive: Duration,
    /// How long a refused sender's input is read before its connection closes.
    pub linger: Duration,
    /// How long sent bytes may stay unacknowledged (`TCP_USER_TIMEOUT`).
    pub tcp_user_timeout: Duration,
    /// How long requests in flight may take when the server stops.
    pub shutdown: Duration,
}

impl HttpServerConfig {
    /// The default configuration with these limits.
    pub fn new(limits: Limits, auth: Auth) -> Self {
        Self {
            streams: StreamLimit::new(limits.max_readers_per_principal),
            limits,
            auth,
            drain: DrainSignal::default(),
            hosts: Vec::new(),
            origins: Vec::new(),
            telemetry: None,
            workers: 2,
            connections: ConnectionLimits::of_process(),
            max_buffered_bytes: 64 * 1024 * 1024,
            max_buffered_bytes_per_caller: 32 * 1024 * 1024,
            max_unproven_bytes: 32 * 1024 * 1024,
            max_unproven_bytes_per_address: 16 * 1024 * 1024,
            spool: None,
            max_spooled_bytes: 1 << 30,
            max_spooled_bytes_per_caller: 256 << 20,
            body_grace: Duration::from_secs(5),
            min_body_rate: 1024,
            keep_alive: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            tcp_user_timeout: Duration::from_secs(20),
            shutdown: Duration::from_secs(25),
        }
    }
}
