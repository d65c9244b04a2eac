//! The node's gRPC listener.

use super::{AgentSpec, NodeSetup};
use protocol::a2a::{
    card::{AgentInterface, GRPC},
    version::VERSION,
};
use std::net::{SocketAddr, TcpListener};

pub(super) use crate::grpc::GrpcServer;

/// Binds the gRPC port of `setup`; `None` if there is none or the node has no agents.
pub(super) fn listen(setup: &NodeSetup) -> anyhow::Result<Option<(TcpListener, SocketAddr)>> {
    let Some(port) = setup.mesh.grpc_port.filter(|_| !setup.agents.is_empty()) else { return Ok(None) };
    super::listen(setup.listen, port).map(Some)
}

/// The gRPC interface in the card of `agent`; `None` if the agent has a public URL and gRPC has none. If several agents share the
/// port, its tenant names the agent.
pub(super) fn interface(setup: &NodeSetup, address: SocketAddr, agent: &AgentSpec) -> Option<AgentInterface> {
    let url = match (&setup.advertise.public_grpc, &agent.settings.a2a.public_url) {
        (Some(public), _) => public.text.clone(),
        (None, Some(_)) => return None,
        (None, None) => setup.advertise.authority(address),
    };
    Some(AgentInterface {
        url,
        protocol_binding: GRPC.to_owned(),
        tenant: (setup.agents.len() > 1).then(|| agent.id.to_string()),
        protocol_version: VERSION.to_owned(),
    })
}
