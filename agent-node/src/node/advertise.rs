//! The names under which others reach a process, and the networks from which calls need no credential.

use crate::{
    http::{
        edge::{BrowserOrigin, PublicUrls},
        local_callers::{LocalCaller, LocalCallers},
    },
    public_url::PublicUrl,
};
use reqwest::Url;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    str::FromStr,
};

/// The advertised name of a process and its trusted networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdvertiseConfig {
    /// The advertised name or address. Default: the listen address, or this machine's name if that is unspecified.
    pub advertise: Option<UrlHost>,
    /// Further accepted `Host` names.
    pub hosts: Vec<UrlHost>,
    /// Sources of calls that need no credential, beside loopback.
    pub local_callers: Vec<LocalCaller>,
    /// Origins of web pages whose requests are taken, with a credential.
    pub origins: Vec<BrowserOrigin>,
    /// Sources that may read `/metrics` without a credential.
    pub metrics_callers: Vec<LocalCaller>,
    /// The base URL of its agents for clients outside the mesh.
    pub public_url: Option<PublicUrl>,
    /// Where these clients reach it by gRPC.
    pub public_grpc: Option<GrpcTarget>,
    /// Proxies that say for whom they pass a request on.
    pub trusted_proxies: Vec<LocalCaller>,
}

/// Where A2A clients reach gRPC: `HOST:PORT`, or a URL with `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcTarget {
    pub(super) text: String,
    /// Without the port.
    host: String,
}

impl FromStr for GrpcTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let has_scheme = text.contains("://");
        let url = Url::parse(&if has_scheme { text.to_owned() } else { format!("https://{text}") }).ok();
        let is_target = |url: &Url| {
            let names_port =
                url.port_or_known_default().is_some_and(|port| text.ends_with(&format!(":{port}")));
            ["http", "https"].contains(&url.scheme())
                && (has_scheme || names_port)
                && url.username().is_empty()
                && url.password().is_none()
                && url.path() == "/"
                && url.query().is_none()
        };
        let host = url.filter(is_target).and_then(|url| Some(url.host_str()?.to_owned()));
        match host {
            Some(host) => Ok(Self { text: text.trim_end_matches('/').to_owned(), host }),
            None => Err(format!(
                "{text:?} is no place of gRPC like grpc.example.com:443 or https://grpc.example.com"
            )),
        }
    }
}

/// The host part of a URL: a name or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlHost(String);

impl FromStr for UrlHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::from(address));
        }
        let url = Url::parse(&format!("http://{text}/")).ok();
        let is_bare = |url: &Url| url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(text));
        match url.filter(is_bare) {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err(format!("{text:?} is no name or address of a host (no port, no path)")),
        }
    }
}

impl From<Ipv4Addr> for UrlHost {
    fn from(address: Ipv4Addr) -> Self {
        IpAddr::V4(address).into()
    }
}

impl From<IpAddr> for UrlHost {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self(address.to_string()),
            IpAddr::V6(address) => Self(format!("[{address}]")),
        }
    }
}

impl AdvertiseConfig {
    /// The advertised base URL of a listener at `address`.
    pub(super) fn endpoint(&self, address: SocketAddr) -> String {
        format!("http://{}", self.authority(address))
    }

    /// The advertised host and port of a listener at `address`.
    pub(super) fn authority(&self, address: SocketAddr) -> String {
        format!("{}:{}", self.advertised_host(address.ip()).0, address.port())
    }

    /// Every accepted `Host` name, beside those of loopback.
    pub(super) fn names(&self, listen: IpAddr, public: &PublicUrls) -> Vec<String> {
        let own = if listen.is_loopback() { Vec::new() } else { vec![this_machine()] };
        let all = self.hosts.iter().cloned().chain([self.advertised_host(listen)]).chain(own);
        let grpc = self.public_grpc.as_ref().map(|grpc| grpc.host.clone());
        let public = public.hosts().map(str::to_owned).chain(grpc);
        all.map(|UrlHost(name)| name).chain(public).collect()
    }

    /// The sources whose calls are the local user's.
    pub(super) fn callers(&self) -> LocalCallers {
        LocalCallers::resolve(&self.local_callers)
    }

    /// The proxies that are believed.
    pub(super) fn trusted_proxies(&self) -> LocalCallers {
        LocalCallers::resolve(&self.trusted_proxies)
    }

    /// The sources that may read `/metrics`.
    pub(super) fn metrics_callers(&self) -> LocalCallers {
        LocalCallers::resolve(&self.metrics_callers)
    }

    fn advertised_host(&self, listen: IpAddr) -> UrlHost {
        match &self.advertise {
            Some(host) => host.clone(),
            None if listen.is_unspecified() => this_machine(),
            None => listen.into(),
        }
    }
}

/// This machine's host name, which in a container resolves in its network; or its address if the name is no valid URL
/// host (a container id of twelve digits parses as a number).
fn this_machine() -> UrlHost {
    let name = rustix::system::uname().nodename().to_string_lossy().parse();
    name.ok().or_else(outward_address).unwrap_or_else(|| Ipv4Addr::LOCALHOST.into())
}

/// The source address of outgoing connections. Connecting a UDP socket sends nothing.
fn outward_address() -> Option<UrlHost> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advertised_address_is_reachable_from_other_machines() {
        let at = |listen: &str, advertise: Option<&str>| {
            let advertise = advertise.map(|host| host.parse().unwrap());
            AdvertiseConfig { advertise, ..AdvertiseConfig::default() }.endpoint(listen.parse().unwrap())
        };
        assert_eq!(at("127.0.0.1:8001", None), "http://127.0.0.1:8001");
        assert_eq!(at("10.1.2.3:8001", None), "http://10.1.2.3:8001");
        assert_eq!(at("[::1]:8001", None), "http://[::1]:8001");
        assert_eq!(at("0.0.0.0:8001", Some("planner")), "http://planner:8001");
        assert_eq!(at("0.0.0.0:8001", Some("fd00::7")), "http://[fd00::7]:8001");
        let own = at("0.0.0.0:8001", None);
        assert!(!own.contains("0.0.0.0") && own.ends_with(":8001"), "{own}");
    }

    #[test]
    fn grpc_is_at_a_host_and_port_or_a_url() {
        for text in
            ["grpc.example.com:443", "https://grpc.example.com", "http://10.0.0.1:9000", "[fd00::7]:9000"]
        {
            text.parse::<GrpcTarget>().unwrap_or_else(|error| panic!("{error}"));
        }
        for text in ["grpc.example.com", "ftp://a:1", "a:1/b", "me:pw@a:1", "", "https://a/b", "a:x"] {
            assert!(text.parse::<GrpcTarget>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_host_is_valid_in_a_url() {
        for text in ["registry", "Node-1.example", "10.0.0.1", "::1", "3f2a9c"] {
            text.parse::<UrlHost>().unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        for text in ["http://registry", "registry:8000", "a/b", "", "a b", "user@host", "a?b", "123456789012"]
        {
            assert!(text.parse::<UrlHost>().is_err(), "{text}");
        }
    }
}
