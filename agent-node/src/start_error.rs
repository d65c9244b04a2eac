//! Why a process does not start, for its exit code.

use protocol::ids::AgentId;
use std::{net::IpAddr, path::PathBuf};

/// The start errors that have an exit code of their own.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or the process may not listen on it.
    #[error(
        "port {port} on {ip} can't be listened on (--port, or an agent's own `port`, says another; 0 is any free one)"
    )]
    Port { ip: IpAddr, port: u16, source: std::io::Error },
    /// A process that listens beyond loopback needs a join secret that exists.
    #[error(
        "--listen {listen} reaches beyond this machine, which needs a join secret that the whole mesh shares, and {} is not \
         there: make it once with `mesh join-secret --init FILE`, and name it with --join FILE or MESH_JOIN",
        file.display()
    )]
    JoinSecretRequired {
        listen: IpAddr,
        /// The expected file of the secret.
        file: PathBuf,
    },
    /// The file of the join secret is invalid or can't be read.
    #[error("the join secret {}: {why}", file.display())]
    BadJoinSecret { file: PathBuf, why: String },
    /// The file of the person's token is invalid, can't be read or can't be written.
    #[error("the person's token {}: {why}", file.display())]
    BadToken { file: PathBuf, why: String },
    /// The file of the join secret can't be written.
    #[error("the join secret {} can't be made", file.display())]
    JoinSecretNotMade { file: PathBuf, source: std::io::Error },
    /// The store of the registry or the board can't be used.
    #[error("the {service} can't start: {why}")]
    ServiceStore { service: &'static str, why: String },
    /// The file of an agent's signing key is invalid or can't be read.
    #[error("the key of {agent}, {}: {why}", file.display())]
    BadAgentKey { agent: AgentId, file: PathBuf, why: String },
    /// A brain can't run with the rights that its configuration asks for.
    #[error("the brain of {agent}: {why}")]
    BrainRights { agent: AgentId, why: String },
    /// The process at the registry's URL is no registry.
    #[error(
        "what listens at {at} is no registry: --registry (MESH_REGISTRY) wants the base URL of `mesh registry` or `mesh up`{}",
        known.as_ref().map(|known| format!("; that of this mesh is at {known}")).unwrap_or_default()
    )]
    NotARegistry {
        at: String,
        /// The registry's URL according to that process.
        known: Option<String>,
    },
    /// The registry has pinned another key for an agent of this process.
    #[error("{message}")]
    KeyRefused {
        /// The registry's message, which names the remedy.
        message: String,
    },
    /// A service refuses this process's join secret.
    #[error(
        "{at} does not take this process's join secret; --join names the file that all of a mesh share ({message})"
    )]
    JoinSecretRefused { at: String, message: String },
}
