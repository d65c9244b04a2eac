//! The settings of one HTTP server and its edge.

use super::{identity::Auth, readers::Readers};
use crate::{http::leaving::Leaving, telemetry::Telemetry};
use protocol::limits::Limits;
use std::{sync::Arc, time::Duration};

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
