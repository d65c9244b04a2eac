//! The node's gRPC listener.

use super::NodeSetup;
use protocol::{
    a2a::{
        card::{AgentInterface, GRPC},
        version::VERSION,
    },
    ids::AgentId,
};
use std::net::{SocketAddr, TcpListener};

pub(super) use crate::grpc::GrpcServer;

/// Binds the gRPC port of `setup`; `None` if there is none or the node has no agents.
pub(super) fn listen(setup: &NodeSetup) -> anyhow::Result<Option<(TcpListener, SocketAddr)>> {
    let Some(port) = setup.mesh.grpc_port.filter(|_| !setup.agents.is_empty()) else { return Ok(None) };
    super::listen(setup.listen, port).map(Some)
}

/// The gRPC interface in the card of `agent`. If several agents share the port, its tenant names the agent.
pub(super) fn interface(setup: &NodeSetup, address: SocketAddr, agent: &AgentId) -> AgentInterface {
    AgentInterface {
        url: setup.advertise.authority(address),
        protocol_binding: GRPC.to_owned(),
        tenant: (setup.agents.len() > 1).then(|| agent.to_string()),
        protocol_version: VERSION.to_owned(),
    }
}
