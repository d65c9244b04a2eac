//! The words of the command line for where a process listens and how others reach it there.

use crate::{
    http::edge::LocalCaller,
    node::reach::{Host, Reach},
};
use clap::Args;
use std::{
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

/// Where a process listens, and how others reach it there.
#[derive(Debug, Clone, Args)]
pub(super) struct Reaching {
    /// The address to listen on; beyond loopback a join secret must be there.
    #[arg(long, env = "MESH_LISTEN", value_parser = address, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(super) listen: IpAddr,
    /// The name or address others are told; if not given, the one listened on, or this machine's name if that is all.
    #[arg(long, env = "MESH_ADVERTISE", value_name = "HOST")]
    advertise: Option<Host>,
    /// Further names it may be called by, beside those it is told to others under, which are for signed calls.
    #[arg(long, env = "MESH_HOSTS", value_name = "HOST,…", default_value = "", hide_default_value = true)]
    hosts: List<Host>,
    /// From where calls need no credential, beside loopback: `gateway` (of the container's network), addresses, networks.
    #[arg(
        long,
        env = "MESH_LOCAL_CALLERS",
        value_name = "FROM,…",
        default_value = "",
        hide_default_value = true
    )]
    local_callers: List<LocalCaller>,
    /// From where `GET /metrics` needs no credential: addresses and networks, such as that of a Prometheus in a container.
    #[arg(
        long,
        env = "MESH_METRICS_CALLERS",
        value_name = "FROM,…",
        default_value = "",
        hide_default_value = true
    )]
    metrics_callers: List<LocalCaller>,
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "an address like 127.0.0.1, 0.0.0.0 or ::1 is wanted".to_owned())
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "a port from 0 to 65535 is wanted".to_owned())
}

impl Reaching {
    /// The same for the node.
    pub(super) fn reach(self) -> Reach {
        let Self { advertise, hosts, local_callers, metrics_callers, .. } = self;
        Reach {
            advertise,
            hosts: hosts.0,
            local_callers: local_callers.0,
            metrics_callers: metrics_callers.0,
        }
    }
}

/// Several of a kind, with commas between them; a variable that is set to nothing is none.
#[derive(Debug, Clone)]
struct List<T>(Vec<T>);

impl<T: FromStr> FromStr for List<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}
