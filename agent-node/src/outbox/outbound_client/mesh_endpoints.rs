//! The endpoints of the mesh, which calls for the outside never go to (DESIGN §8).

use reqwest::Url;
use std::{
    collections::BTreeSet,
    fmt,
    net::IpAddr,
    sync::{Arc, OnceLock},
};

/// Lists the base URLs of the agents, the registry and the board.
type ListEndpoints = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// The endpoints of the mesh, empty until they are set. Every clone shares them.
#[derive(Clone, Default)]
pub(super) struct MeshEndpoints(Arc<OnceLock<ListEndpoints>>);

impl MeshEndpoints {
    /// Sets the list, once.
    pub(super) fn set(&self, list: ListEndpoints) {
        drop(self.0.set(list));
    }

    /// Whether `url` names the host and port of an endpoint.
    pub(super) fn names(&self, url: &Url) -> bool {
        let Some(named) = HostAndPort::of(url) else { return false };
        self.with_port(named.port).any(|endpoint| endpoint.host == named.host)
    }

    /// Whether `url` leads to the address and port of an endpoint under another name.
    pub(super) async fn lead_to(&self, url: &Url) -> bool {
        let Some(named) = HostAndPort::of(url) else { return false };
        let endpoints: Vec<_> = self.with_port(named.port).collect();
        if endpoints.is_empty() {
            return false;
        }
        let called = named.addresses().await;
        for endpoint in endpoints {
            if !called.is_disjoint(&endpoint.addresses().await) {
                return true;
            }
        }
        false
    }

    fn with_port(&self, port: u16) -> impl Iterator<Item = HostAndPort> {
        let endpoints = self.0.get().map(|list| list()).unwrap_or_default();
        let parsed = endpoints.into_iter().filter_map(|url| HostAndPort::of(&Url::parse(&url).ok()?));
        parsed.filter(move |endpoint| endpoint.port == port)
    }
}

impl fmt::Debug for MeshEndpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeshEndpoints")
    }
}

/// Host and port of a URL. Every loopback host is `localhost`.
#[derive(Debug, PartialEq, Eq)]
struct HostAndPort {
    host: String,
    port: u16,
}

impl HostAndPort {
    fn of(url: &Url) -> Option<Self> {
        let host = url.host_str()?.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
        let host = if host.parse().is_ok_and(is_own_address) { "localhost".to_owned() } else { host };
        Some(Self { host, port: url.port_or_known_default()? })
    }

    /// The addresses that the host resolves to; every loopback address is the same.
    async fn addresses(&self) -> BTreeSet<IpAddr> {
        let found = tokio::net::lookup_host((&*self.host, self.port)).await.into_iter().flatten();
        let one_loopback =
            |ip| if is_own_address(ip) { IpAddr::from([127, 0, 0, 1]) } else { ip.to_canonical() };
        found.map(|address| one_loopback(address.ip())).collect()
    }
}

/// Whether `ip` is loopback, or the unspecified address, which connects to loopback.
fn is_own_address(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[tokio::test]
    async fn an_endpoint_is_recognized_under_every_name_of_its_host() {
        let mesh = MeshEndpoints::default();
        assert!(!mesh.names(&url("http://127.0.0.1:8001")), "nothing is known yet");
        mesh.set(Box::new(|| vec!["http://127.0.0.1:8001".into(), "https://node-1.example".into()]));
        for named in [
            "http://localhost:8001/x",
            "http://[::1]:8001/a2a/messages",
            "http://127.0.0.2:8001",
            "http://[::ffff:127.0.0.1]:8001",
            "http://0.0.0.0:8001",
            "https://NODE-1.example:443/hook",
            "https://node-1.example./hook",
        ] {
            assert!(mesh.names(&url(named)), "{named}");
        }
        for other in ["http://127.0.0.1:8002", "http://node-1.example/", "https://node-2.example/"] {
            assert!(!mesh.names(&url(other)) && !mesh.lead_to(&url(other)).await, "{other}");
        }
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_an_endpoint_leads_to_it() {
        let mesh = MeshEndpoints::default();
        mesh.set(Box::new(|| vec!["http://localhost:8001".into()]));
        assert!(mesh.lead_to(&url("http://127.0.0.1:8001/")).await);
        assert!(mesh.lead_to(&url("http://[::1]:8001/")).await);
        assert!(!mesh.lead_to(&url("http://192.0.2.1:8001/")).await);
    }
}
