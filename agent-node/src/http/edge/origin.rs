//! Checks `Host` and `Origin`, against DNS rebinding and cross-site requests; finds what a proxy passes on.

use super::console_access;
use actix_web::{
    dev::ServiceRequest,
    http::header::{self, HeaderValue},
};
use protocol::problem::{Problem, Reason};
use reqwest::Url;
use std::{net::Ipv4Addr, str::FromStr};

/// The origin of web pages whose requests are taken, such as `https://app.example`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserOrigin(String);

impl BrowserOrigin {
    /// Whether it is the value of an `Origin` header.
    pub(super) fn is(&self, header: &HeaderValue) -> bool {
        self.0.as_bytes() == header.as_bytes()
    }
}

impl FromStr for BrowserOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let origin = Url::parse(text)
            .ok()
            .filter(|url| ["http", "https"].contains(&url.scheme()))
            .map(|url| url.origin().ascii_serialization());
        // A browser sends it in this form.
        match origin.filter(|origin| origin == text) {
            Some(origin) => Ok(Self(origin)),
            None => Err(format!(
                "{text:?} is no origin like https://app.example or http://localhost:5173 (no path, no `*`)"
            )),
        }
    }
}

/// Refuses any `Origin` that is not in `origins`, and any host but this machine's names and `names`. The console takes its own
/// origin and no other one.
pub(super) fn check(
    request: &ServiceRequest,
    names: &[String],
    origins: &[BrowserOrigin],
) -> Result<(), Problem> {
    let headers = request.headers();
    let is_console = console_access::is_console(request.path());
    let hosts_of_request = addressed_hosts(request);
    let is_listed = |origin: &HeaderValue| match is_console {
        true => hosts_of_request.iter().all(|host| console_access::is_own_origin(origin, host)),
        false => origins.iter().any(|listed| listed.is(origin)),
    };
    if headers.get_all(header::ORIGIN).any(|origin| !is_listed(origin)) {
        let why = match is_console {
            true => "the console takes requests of its own page only",
            false => {
                "requests of web pages (Origin) are taken from the origins that --origins (MESH_ORIGINS) lists"
            }
        };
        return Err(Problem::new(Reason::ForeignOrigin, why));
    }
    if headers.get_all(header::ORIGIN).count() > 1 {
        return Err(Problem::new(Reason::BadRequest, "a request has one Origin header at most"));
    }
    let mut hosts = headers.get_all(header::HOST);
    let (Some(_), None) = (hosts.next(), hosts.next()) else {
        return Err(Problem::new(Reason::BadRequest, "a request has one Host header"));
    };
    hosts_of_request.into_iter().try_for_each(|host| check_host(host, names))
}

/// The hosts that a request addresses: its `Host` headers, and the authority of its target.
pub(super) fn addressed_hosts(request: &ServiceRequest) -> Vec<&str> {
    let hosts = request.headers().get_all(header::HOST).map(|host| host.to_str().unwrap_or_default());
    hosts.chain(request.uri().authority().map(|authority| authority.as_str())).collect()
}

/// Refuses any host but this machine's names and `names`.
pub(super) fn check_host(host: &str, names: &[String]) -> Result<(), Problem> {
    if is_own_name(host, names) {
        return Ok(());
    }
    let host: String = host.chars().take(80).collect();
    let why = "is no name of this process: localhost and 127.0.0.1 are, and what --advertise (MESH_ADVERTISE) and --hosts \
               (MESH_HOSTS) say";
    Err(Problem::new(Reason::ForeignOrigin, format!("Host {host:?} {why}")))
}

/// Whether `host`, with or without a port, names loopback. A foreign DNS server can resolve another name to this machine, and a
/// proxy on this machine may pass on a request for one.
pub(super) fn is_loopback_host(host: &str) -> bool {
    is_own_name(host, &[])
}

/// Whether a header with this name, in lower case, says that a proxy passes the request on for somebody else.
pub(crate) fn is_proxy_header(name: &str) -> bool {
    name.starts_with("x-forwarded-") || ["forwarded", "via", "x-real-ip"].contains(&name)
}

fn is_own_name(host: &str, names: &[String]) -> bool {
    let name_end = host.find(']').map_or_else(|| host.find(':'), |bracket| Some(bracket + 1));
    let (name, port) = host.split_at(name_end.unwrap_or(host.len()));
    let port_is_good = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit()));
    port_is_good && (is_loopback_name(name) || names.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

/// Whether a host without a port is this machine's loopback.
pub(super) fn is_loopback_name(name: &str) -> bool {
    name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || ["localhost", "[::1]"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::{BrowserOrigin, check_host, is_loopback_host, is_own_name, is_proxy_header};

    #[test]
    fn the_refusal_of_a_foreign_host_names_the_settings() {
        let text = check_host("192.168.1.5:8001", &["node-1".to_owned()]).unwrap_err().message;
        assert!(["192.168.1.5:8001", "MESH_ADVERTISE", "MESH_HOSTS"].iter().all(|part| text.contains(part)));
        assert!(!text.contains("node-1"), "it does not name the accepted hosts: {text}");
    }

    #[test]
    fn only_names_of_this_machine_are_accepted() {
        let names = ["node-1".to_owned()];
        for host in [
            "localhost",
            "LocalHost:8000",
            "127.0.0.1:1",
            "127.83.0.1:8001",
            "[::1]",
            "[::1]:8001",
            "node-1:80",
            "localhost:",
        ] {
            assert!(is_own_name(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil",
            "localhost:80:80",
            "localhost:x",
            "::1",
            "[::1]x",
            "[::2]",
            "evil@localhost",
            "localhost ",
            "node-2",
            "128.0.0.1",
            "127.1",
            "2130706433",
            "127.0.0.01",
            "localhost:999999",
        ] {
            assert!(!is_own_name(host, &names), "{host}");
        }
    }

    #[test]
    fn only_localhost_and_loopback_addresses_are_the_users() {
        for host in ["localhost", "LOCALHOST:8001", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:8001"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "",
            "localhost.",
            "localhost.evil.example",
            "mesh.example",
            "localhost@mesh.example",
            "0.0.0.0",
            "10.0.0.1:8001",
            "[::]:8001",
            "[::ffff:127.0.0.1]:8001",
            "127.0.0.1, mesh.example",
            "127.1",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }

    #[test]
    fn an_origin_is_written_as_browsers_send_it() {
        for text in ["https://app.example", "http://localhost:5173", "https://[::1]:8443"] {
            text.parse::<BrowserOrigin>().unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        for text in [
            "*",
            "null",
            "",
            "app.example",
            "https://app.example/",
            "https://App.example",
            "https://a.example:443",
            "file:///a",
        ] {
            assert!(text.parse::<BrowserOrigin>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_headers_of_proxies_are_known() {
        for name in ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-client-cert"] {
            assert!(is_proxy_header(name), "{name}");
        }
        for name in ["host", "via-x", "x-real-ip-2", "x-forwarded", "forwarded-for", "mesh-outbound"] {
            assert!(!is_proxy_header(name), "{name}");
        }
    }
}
