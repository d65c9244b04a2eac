//! The listeners of a node's agents.

use super::AgentSpec;
use crate::start_error::StartError;
use protocol::ids::AgentId;
use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener},
};

/// Listens for every agent. An agent without a port gets the next free one from `first` on, or any if `first` is 0.
pub(super) fn listen(
    ip: IpAddr,
    first: u16,
    agents: &[AgentSpec],
) -> anyhow::Result<Vec<(AgentId, TcpListener, SocketAddr)>> {
    let is_given = |port: &u16| agents.iter().any(|agent| agent.port == Some(*port));
    let mut ports = (first..=u16::MAX).filter(|port| !is_given(port));
    let mut next_free = || loop {
        let none_left = || StartError::Port { ip, port: first, source: io::ErrorKind::AddrInUse.into() };
        match super::listen(ip, ports.next().ok_or_else(none_left)?) {
            Err(error) if is_taken(&error) => {}
            listening => return listening,
        }
    };
    let mut listeners = Vec::new();
    for agent in agents {
        let (listener, address) = match (agent.port, first) {
            (Some(port), _) => super::listen(ip, port)?,
            (None, 0) => super::listen(ip, 0)?,
            (None, _) => next_free()?,
        };
        listeners.push((agent.id.clone(), listener, address));
    }
    Ok(listeners)
}

fn is_taken(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StartError::Port { source, .. }) if source.kind() == io::ErrorKind::AddrInUse)
}
