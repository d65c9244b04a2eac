//! The node's port for A2A over gRPC.

use super::Setup;
use protocol::{
    a2a::{
        card::{AgentInterface, GRPC},
        version::VERSION,
    },
    ids::AgentId,
};
use std::net::{SocketAddr, TcpListener};

pub(super) use crate::grpc::GrpcServer;

/// The port that `setup` asks for.
pub(super) fn listen(setup: &Setup) -> anyhow::Result<Option<(TcpListener, SocketAddr)>> {
    let Some(port) = setup.grpc.filter(|_| !setup.seats.is_empty()) else { return Ok(None) };
    super::listen(setup.listen, port).map(Some)
}

/// What the card of `agent` says of the port at `address`: where several share it, a call names whom it means.
pub(super) fn interface(setup: &Setup, address: SocketAddr, agent: &AgentId) -> AgentInterface {
    AgentInterface {
        url: setup.reach.authority(address),
        protocol_binding: GRPC.to_owned(),
        tenant: (setup.seats.len() > 1).then(|| agent.to_string()),
        protocol_version: VERSION.to_owned(),
    }
}
