//! The flags for the listen address and the advertised names of a process.

use crate::{
    http::{edge::BrowserOrigin, local_callers::LocalCaller},
    node::advertise::{AdvertiseConfig, GrpcTarget, UrlHost},
    public_url::PublicUrl,
};
use clap::Args;
use std::{
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
};

/// Where a process listens, and how others reach it there.
#[derive(Debug, Clone, Args)]
pub(super) struct ListenArgs {
    /// The address to listen on; beyond loopback a join secret must be there.
    #[arg(long, env = "MESH_LISTEN", value_parser = address, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(super) listen: IpAddr,
    /// The name or address to advertise; if not given, the listen address, or this machine's name if that is unspecified.
    #[arg(long, env = "MESH_ADVERTISE", value_name = "HOST")]
    advertise: Option<UrlHost>,
    /// Further host names to accept, beside the advertised one; a call by such a name needs a credential or a signature.
    #[arg(long, env = "MESH_HOSTS", value_name = "HOST,…", default_value = "", hide_default_value = true)]
    hosts: CommaList<UrlHost>,
    /// Origins of web pages whose requests are taken, with a credential: https://app.example, …
    #[arg(
        long,
        env = "MESH_ORIGINS",
        value_name = "ORIGIN,…",
        default_value = "",
        hide_default_value = true
    )]
    origins: CommaList<BrowserOrigin>,
    /// Sources of calls that need no credential if they name localhost, beside loopback: `gateway` (of the container's network), addresses, networks.
    #[arg(
        long,
        env = "MESH_LOCAL_CALLERS",
        value_name = "FROM,…",
        default_value = "",
        hide_default_value = true
    )]
    local_callers: CommaList<LocalCaller>,
    /// Sources that may read `GET /metrics` without a credential: addresses and networks, such as that of a Prometheus in a container.
    #[arg(
        long,
        env = "MESH_METRICS_CALLERS",
        value_name = "FROM,…",
        default_value = "",
        hide_default_value = true
    )]
    metrics_callers: CommaList<LocalCaller>,
    /// The URL under which clients outside the mesh reach its agents through a proxy: https://mesh.example.com/agents. With several agents each is below it, by its id; peers never use it.
    #[arg(long, env = "MESH_PUBLIC_URL", value_name = "URL")]
    public_url: Option<PublicUrl>,
    /// Where clients outside the mesh reach gRPC: grpc.example.com:443. Without it a card with a public URL does not name gRPC.
    #[arg(long, env = "MESH_PUBLIC_GRPC", value_name = "HOST:PORT")]
    public_grpc: Option<GrpcTarget>,
    /// Proxies whose X-Forwarded-For is believed, so that limits count their clients and not them: `gateway`, addresses, networks.
    #[arg(
        long,
        env = "MESH_TRUSTED_PROXIES",
        value_name = "FROM,…",
        default_value = "",
        hide_default_value = true
    )]
    trusted_proxies: CommaList<LocalCaller>,
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "an address like 127.0.0.1, 0.0.0.0 or ::1 is wanted".to_owned())
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "a port from 0 to 65535 is wanted".to_owned())
}

impl ListenArgs {
    /// The node's configuration from these flags.
    pub(super) fn advertise(self) -> AdvertiseConfig {
        let Self {
            advertise, hosts, origins, local_callers, metrics_callers, public_url, public_grpc, ..
        } = self;
        AdvertiseConfig {
            advertise,
            hosts: hosts.0,
            origins: origins.0,
            local_callers: local_callers.0,
            metrics_callers: metrics_callers.0,
            public_url,
            public_grpc,
            trusted_proxies: self.trusted_proxies.0,
        }
    }
}

/// Values separated by commas; an empty text is an empty list.
#[derive(Debug, Clone)]
struct CommaList<T>(Vec<T>);

impl<T: FromStr> FromStr for CommaList<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}
