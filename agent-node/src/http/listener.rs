//! The address of a listener of this process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The local address of the listener that accepted a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenerAddress(pub(crate) SocketAddr);

/// The base URL of a listener of this process, from this process.
pub(crate) fn own_url(listener: SocketAddr) -> String {
    let ip = match listener.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    format!("http://{}", SocketAddr::new(ip, listener.port()))
}
